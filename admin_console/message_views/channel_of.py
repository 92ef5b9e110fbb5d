"""The channel that a request's page of messages is about: at this server, or at the node that it names (`node`)."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from admin_console.gateway.gateway import ReadRefusedError, get_gateway
from admin_console.gateway.sentences import and_list
from admin_console.messages.channel_snapshot import ChannelSnapshot, channel_snapshot
from admin_console.views.on_nodes import NODE, is_at_this_server, readers_of


def channel_of(request: HttpRequest, topic: str, channel: str) -> ChannelSnapshot | None:
    """None where there is no such channel. Without a name it is this server's, else that of the first node that lists
    messages. Raises ReadRefusedError with the reason where no node of it does."""
    gateway = get_gateway()
    name = (request.POST.get(NODE) or request.GET.get(NODE, ""))[:300]
    has_engine = "list_messages" in gateway.capabilities
    if has_engine and name in ("", gateway.node().http_address):
        found = channel_snapshot(gateway, topic, channel)
        if found is not None or name:
            return found
    readers = [one for one in readers_of(topic, channel) if name in ("", one.name)]
    able = [one for one in readers if not one.why_not]
    if not able:
        if readers:
            raise ReadRefusedError(f"Nothing was read of {topic}/{channel}: {readers[0].why_not}.")
        # Without an engine the read of its messages has the sentence.
        return None if has_engine or name else channel_snapshot(gateway, topic, channel)
    first = able[0]
    stats = next(one for one in first.topic.channels if one.channel_name == channel)
    return ChannelSnapshot(topic, channel, first.topic, stats, first.messages.capabilities, first.messages, first.name)


NAMED_MAX = 5  # nodes that a sentence names


@dataclass(frozen=True, slots=True)
class NodeLink:
    """The same page about the messages of a node."""

    name: str
    url: str
    is_current: bool
    is_own: bool


@dataclass(frozen=True, slots=True)
class NodeLinks:
    """The nodes whose messages can be read, and why those of others can't: sentences."""

    links: list[NodeLink]
    reasons: list[str]

    @property
    def current(self) -> str:
        """`this server, 10.0.0.1:4151`, or a node's name."""
        return next(
            (f"this server, {one.name}" if one.is_own else one.name for one in self.links if one.is_current), ""
        )


def node_links(snapshot: ChannelSnapshot, address: str) -> NodeLinks | None:
    """None where no other node has the channel. address: the query of the links beside the node."""
    topic, channel = snapshot.topic, snapshot.channel
    gateway, readers = get_gateway(), readers_of(topic, channel)
    if not readers:
        return None
    names = [(one.name, False) for one in readers if not one.why_not]
    if "list_messages" in gateway.capabilities and (not snapshot.node or is_at_this_server(topic, channel)):
        names.insert(0, (gateway.node().http_address, True))
    elif len(readers) == 1:
        return None
    path = reverse("channel_messages", args=(topic, channel))
    links = [
        NodeLink(
            name,
            f"{path}?{'&'.join(filter(None, (urlencode({NODE: name}), address)))}",
            is_current=is_own if not snapshot.node else name == snapshot.node,
            is_own=is_own,
        )
        for name, is_own in names
    ]
    return NodeLinks(links, _unreadable([(one.name, one.why_not) for one in readers if one.why_not]))


def _unreadable(nodes: list[tuple[str, str]]) -> list[str]:
    """A sentence for each reason, with the names of the nodes."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in nodes:
        by_reason.setdefault(reason.removeprefix(name).strip(), []).append(name)
    sentences = []
    for reason, names in by_reason.items():
        more = [f"{len(names) - NAMED_MAX:,} more"] if len(names) > NAMED_MAX else []
        each = ": each" if len(names) > 1 else ""
        sentences.append(f"Not listed here: {and_list([*names[:NAMED_MAX], *more])}{each} {reason}.")
    return sentences
