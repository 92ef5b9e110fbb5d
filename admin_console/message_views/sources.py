"""Whose messages a request's page shows: those of this server, or of the node that it names (`node`); links to those of
the others."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from admin_console.gateway.gateway import EngineUnavailableError, ReadRefusedError, get_gateway
from admin_console.gateway.sentences import not_listed
from admin_console.messages.channel_snapshot import ChannelSnapshot, TopicMessages, at_node, channel_snapshot
from admin_console.messages.states import STATES
from admin_console.views.on_nodes import NODE
from admin_console.views.readers import Reader, own_why_not, readers_of
from admin_console.vocabulary import units


def node_named_by(request: HttpRequest) -> str:
    """ "" where the request names none."""
    return (request.POST.get(NODE) or request.GET.get(NODE, ""))[:300]


def channel_of(request: HttpRequest, topic: str, channel: str) -> ChannelSnapshot | None:
    """None where there is no such channel. Without a name it is this server's, else that of the first node that lists
    messages. Raises ReadRefusedError with the reason where no node of it does."""
    gateway, name = get_gateway(), node_named_by(request)
    has_engine = "list_messages" in gateway.capabilities
    if has_engine and name in ("", gateway.node().name):
        found = channel_snapshot(gateway, topic, channel)
        if found is not None or name:
            return found
    readers = _named(readers_of(topic, channel, user=_user_of(request)), name)
    first = _first_able(readers)
    if first is None:
        if readers:
            raise ReadRefusedError(f"Nothing was read of {topic}/{channel}: {readers[0].why_not}.")
        # Without an engine the read of its messages has the sentence.
        return None if has_engine or name else channel_snapshot(gateway, topic, channel)
    return _channel_of_reader(topic, channel, first)


def other_channels_of(request: HttpRequest, shown: ChannelSnapshot) -> list[ChannelSnapshot]:
    """The channel at each other node that lists its messages and answers, this server first."""
    gateway, found = get_gateway(), []
    if shown.node and own_why_not(shown.topic, shown.channel) == "":
        with suppress(EngineUnavailableError):
            own = channel_snapshot(gateway, shown.topic, shown.channel)
            found = [own] if own is not None else []
    readers = readers_of(shown.topic, shown.channel, user=_user_of(request))
    others = [one for one in readers if not one.why_not and one.is_answering and one.name != shown.node]
    return [*found, *(_channel_of_reader(shown.topic, shown.channel, one) for one in others)]


def _channel_of_reader(topic: str, channel: str, reader: Reader) -> ChannelSnapshot:
    stats = next(one for one in reader.topic.channels if one.channel_name == channel)
    messages = reader.messages
    return ChannelSnapshot(topic, channel, reader.topic, stats, messages.capabilities, messages, reader.name)


def topic_of(request: HttpRequest, topic: str) -> TopicMessages:
    """Without a name it is this server's where it shows its messages, else that of the first node that does. Raises
    ReadRefusedError with the reason where none does."""
    gateway, name = get_gateway(), node_named_by(request)
    own, readers = own_why_not(topic), readers_of(topic, user=_user_of(request))
    of_own = TopicMessages(topic, gateway, can_find_key="find_key" in gateway.capabilities)
    if name and name == gateway.node().name:
        return of_own
    if not name and own == "":
        return of_own
    named = _named(readers, name)
    first = _first_able(named)
    if first is not None:
        return _of_reader(topic, first)
    if named:
        raise ReadRefusedError(f"Nothing was read of {topic}: {named[0].why_not}.")
    if name:
        raise ReadRefusedError(f"Nothing was read of {topic}: {name} does not have it.")
    return of_own  # whose read has the reason


def all_of(request: HttpRequest, topic: str) -> list[TopicMessages]:
    """The topic at each node that shows its messages, this server first."""
    gateway = get_gateway()
    own = [TopicMessages(topic, gateway)] if own_why_not(topic) == "" else []
    readers = readers_of(topic, user=_user_of(request))
    return [*own, *(_of_reader(topic, one) for one in readers if not one.why_not)]


def _user_of(request: HttpRequest) -> str:
    return request.user.get_username()


def _of_reader(topic: str, reader: Reader) -> TopicMessages:
    can_find_key = "find_key" in reader.messages.capabilities
    return TopicMessages(topic, reader.messages, reader.name, can_find_key=can_find_key)


def _named(readers: Iterable[Reader], name: str) -> list[Reader]:
    return [one for one in readers if name in ("", one.name)]


def _first_able(readers: Iterable[Reader]) -> Reader | None:
    """One that answers before one that does not: a page waits for it."""
    able = [one for one in readers if not one.why_not]
    return min(able, key=lambda one: not one.is_answering, default=None)


@dataclass(frozen=True, slots=True)
class NodeLink:
    """The same page about the messages of a node."""

    name: str
    url: str
    is_current: bool
    is_own: bool = False
    count: str = ""  # of a channel's messages in the state that is shown, such as "2 waiting"; "" for unknown


@dataclass(frozen=True, slots=True)
class NodeLinks:
    """The nodes whose messages can be read, and why those of others can't: sentences."""

    links: list[NodeLink]
    reasons: list[str]
    of: str  # "channel" or "topic"

    @property
    def current(self) -> str:
        """`this server, 10.0.0.1:4151`, or a node's name."""
        return next(
            (f"this server, {one.name}" if one.is_own else one.name for one in self.links if one.is_current), ""
        )


def _counts_of(shown: ChannelSnapshot, readers: Iterable[Reader], state: str) -> dict[str, str]:
    """By node, how many messages of the channel are in a state; those that do not answer are left out."""
    stats = {one.name: one.topic.channels for one in readers if one.is_answering}
    with suppress(EngineUnavailableError):
        own = channel_snapshot(get_gateway(), shown.topic, shown.channel) if shown.node else shown
        if own is not None:
            stats[get_gateway().node().name] = (own.stats,)
    field, label = STATES[state].count, STATES[state].label.lower()
    return {
        name: f"{units.number(getattr(one, field))} {label}"
        for name, channels in stats.items()
        for one in channels
        if field and one.channel_name == shown.channel
    }


def node_links(
    shown: ChannelSnapshot | TopicMessages,
    address: str,
    *,
    with_all: bool = False,
    is_all: bool = False,
    state: str = "",
) -> NodeLinks | None:
    """None where no other node has the channel or topic. address: the query of the links beside the node. with_all:
    there is one list of all nodes, too; is_all: it is the one that is shown. state: of the messages that the links
    count."""
    channel = shown.channel if isinstance(shown, ChannelSnapshot) else ""
    readers, own = readers_of(shown.topic, channel), own_why_not(shown.topic, channel)
    if not readers:
        return None
    names = [(one.name, False) for one in readers if not one.why_not]
    if own == "" or (own is None and not shown.node):
        names.insert(0, (get_gateway().node().name, True))
    elif len(readers) == 1 and own is None:
        return None
    path = (
        reverse("channel_messages", args=(shown.topic, channel))
        if channel
        else reverse("topic_messages", args=(shown.topic,))
    )
    counts = _counts_of(shown, readers, state) if isinstance(shown, ChannelSnapshot) and state else {}
    links = [
        NodeLink(
            name,
            f"{path}?{'&'.join(filter(None, (urlencode({NODE: name}), address)))}",
            is_current=not is_all and (is_own if not shown.node else name == shown.node),
            is_own=is_own,
            count=counts.get(name, ""),
        )
        for name, is_own in names
    ]
    if with_all and len(links) > 1:
        links.insert(0, NodeLink("all nodes", at_node("", path, address), is_current=is_all))
    unreadable = [(one.name, one.why_not) for one in readers if one.why_not]
    if own:
        unreadable.insert(0, (get_gateway().node().name, own))
    return NodeLinks(links, not_listed(unreadable), "channel" if channel else "topic")
