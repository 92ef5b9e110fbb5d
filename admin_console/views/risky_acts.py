"""Acts that lose messages or deliver them twice: the question shows exact counts."""

import re
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from django.urls import reverse

from admin_console.gateway.gateway import (
    ACTS,
    ActResult,
    ChannelStats,
    ClientStats,
    Gateway,
    TopicStats,
    format_duration,
    why_not,
)
from admin_console.gateway.sentences import counted, given_up, message_counts
from admin_console.hub.hub import get_hub
from admin_console.rings import figures
from admin_console.views.act_page import CHANNEL, TOPIC, ActPage
from admin_console.views.audited_act import ComplaintError
from admin_console.views.on_nodes import Holder, OnNodes, doers_of, messages_in, messages_in_all
from admin_console.views.question import Choice, Field, Question, typed_name_field
from admin_console.vocabulary import units

# How many messages the question named: at the thing itself, and with all that is below it.
EXPECTED = "expected"
EXPECTED_IN_ALL = "expected_in_all"
# The counts of messages that a removal has.
HELD = ("depth", "in_flight", "deferred", "quarantined")
_MESSAGE_ID = re.compile(r"[0-9A-Za-z]{16}")


def _removed(depth: int, in_flight: int, deferred: int, quarantined: int = 0) -> str:
    """`12,551 messages (depth 12,304, 17 in flight, 230 deferred) will be removed.`"""
    counts = message_counts(depth, in_flight, deferred, quarantined)
    return f"{counts} will be removed." if counts else "It holds no message now."


def expected_of(text: str) -> dict[str, int]:
    """The act's argument from the form's field; none where it has no number."""
    return {"expected": int(text)} if re.fullmatch(r"[0-9]{1,15}", text) else {}


def _of_channels(topic: TopicStats) -> tuple[int, int, int, int]:
    """Depth, in flight, deferred and quarantined of all channels of a topic."""
    return (
        sum(channel.depth for channel in topic.channels),
        sum(channel.in_flight_count for channel in topic.channels),
        sum(channel.deferred_count for channel in topic.channels),
        sum(channel.quarantined_count for channel in topic.channels),
    )


def _deleted(channel_count: int) -> str:
    if not channel_count:
        return "The topic will be deleted."
    channels = "channel" if channel_count == 1 else counted(channel_count, "channel")
    return f"The topic and its {channels} will be deleted."


def _disconnected(client_count: int) -> list[str]:
    return [f"{counted(client_count, 'consumer')} will be disconnected."] if client_count else []


def _given_up(topic: TopicStats) -> list[str]:
    """`Its pipeline cursor archive gives up 3 messages that are not archived.`"""
    return [
        f"Its pipeline cursor {one.cursor} gives up {given_up(one.depth, one.cursor)}."
        for one in topic.cursors
        if one.depth
    ]


_NOT_UNDONE = "this can't be undone"


class Removal(ActPage):
    """An act that removes messages: its form has the count that the user saw, and the engine counts again."""

    trashed = 0  # the id of the trash entry
    offers_undo_of_nothing = True  # no message was removed, but a topic or channel was
    # Further removed messages: those at the topic, in all its channels, and held by its cursors.
    takes_own = takes_channels = takes_readers = False

    def afterwards(self, storage: str) -> str:
        """The undo and its end, by the topic's storage kind. With other nodes each row has its own."""
        if self.nodes is not None:
            undone = {self.undo_on(holder) for holder in self.nodes.chosen}
            if all(one.startswith(_NOT_UNDONE) for one in undone):
                return f"T{_NOT_UNDONE[1:]}{self.nodes.where}."
            return "What can be undone differs by node." if len(undone) > 1 else f"On each node {undone.pop()}."
        reason = why_not("restore_trash", storage, *[name for name in (self.topic, self.channel) if name])
        if reason:
            return f"This can't be undone: {reason}."
        age_ms = self.gateway.node().trash_age_ms
        if not age_ms:
            return "This can't be undone: the trash is off (--trash-age 0)."
        return (
            f"This can be undone for {format_duration(age_ms)}: all of it goes to the trash. A full disk may end that "
            "sooner."
        )

    def frees(self, storage: str, *, channels_too: bool | None = None) -> list[str]:
        """A sentence about the space that the act frees, or about the act that frees it; none for a kind without the
        log. channels_too: with the messages in all channels of the topic, where that is a choice."""
        if self.nodes is not None:
            return []
        if why_not("read_messages", storage, *[name for name in (self.topic, self.channel) if name]):
            return []
        emptied = {self.topic: [self.channel] if self.channel else []}
        return [self.room_made(self.gateway, emptied, channels_too=channels_too)]

    @classmethod
    def room_made(
        cls, gateway: Gateway, emptied: Mapping[str, Collection[str]], *, channels_too: bool | None = None
    ) -> str:
        """The same for all of several: the topics' names, and the channels of each that it is about."""
        found = gateway.freed_by(
            emptied,
            own_too=cls.takes_own,
            channels_too=cls.takes_channels if channels_too is None else channels_too,
            readers_too=cls.takes_readers,
        )
        if found.bytes:
            once = " once the trash gives it up" if gateway.node().trash_age_ms else ""
            return f"The disk gets {units.byte_count(found.bytes)} back{once}."
        no_room = "This frees no disk space"
        if not found.holder:
            return f"{no_room}."
        if found.holder in emptied:
            topic = "this topic" if len(emptied) == 1 else f"topic {found.holder}"
            rest = f"the rest of {topic} (other channels, cursors, leases or messages at the topic)"
            return f"{no_room}: {rest} needs the same part of the log. Consume or empty that."
        return f"{no_room}: topic {found.holder} needs the same part of the log. Consume or empty {found.holder}."

    @staticmethod
    def expected(count: int, name: str = EXPECTED) -> Field:
        return Field(name, "", kind="hidden", value=str(count))

    def expected_name(self) -> str:
        return EXPECTED

    def expected_of(self, holder: Holder) -> dict[str, int]:
        return {EXPECTED: messages_in(holder.stats(self.channel))}

    def undo_on(self, holder: Holder) -> str:
        place = holder.place
        if reason := holder.node.why_not("restore_trash"):
            return f"{_NOT_UNDONE}: {reason.replace(holder.name, 'it', 1)}"
        names = [name for name in (self.topic, self.channel) if name]
        if reason := why_not("restore_trash", place.stats.storage, *names):
            return f"{_NOT_UNDONE}: {reason}"
        if not place.is_embedded:
            return "its own trash can restore this"
        age_ms = self.gateway.node().trash_age_ms
        return f"this can be undone for {format_duration(age_ms)}" if age_ms else f"{_NOT_UNDONE}: the trash is off"

    def details(self) -> dict[str, Any]:
        self.check_typed_name()
        found = expected_of(self.request.POST.get(self.expected_name(), ""))
        return {"by": self.request.user.get_username(), **found}

    def note(self, result: ActResult) -> None:
        is_nothing = not any(result.counts.get(name) for name in HELD)
        self.trashed = 0 if is_nothing and not self.offers_undo_of_nothing else result.trash

    def undo_url(self) -> str:
        return reverse(ACTS[self.action].undo, args=(self.topic, self.trashed)) if self.trashed else ""


class EmptyTopic(Removal):
    routes = {"empty_topic": f"{TOPIC}/~empty/"}

    offers_undo_of_nothing = False
    takes_own = True

    def question(self) -> Question:
        topic = self.topic_stats()
        in_channels = message_counts(*_of_channels(topic)) or "no messages"
        channels_too = self.request.POST.get("scope") == "channels_too"
        in_all = topic.depth + sum(_of_channels(topic))
        return self.pose(
            f"Empty {self.name}",
            [
                "Messages at the topic itself have reached none of its channels yet.",
                "Messages in channels stay, unless you remove them too.",
                self.afterwards(topic.storage),
                *self._frees(topic.storage),
            ],
            [
                self.expected(topic.depth),
                self.expected(in_all, EXPECTED_IN_ALL),
                Field(
                    "scope",
                    "Remove",
                    kind="radio",
                    choices=(
                        Choice(
                            "topic",
                            f"Only messages at the topic: {counted(topic.depth, 'message')}",
                            not channels_too,
                        ),
                        Choice("channels_too", f"Its channels too: {in_channels}", channels_too),
                    ),
                ),
                typed_name_field(self.name),
            ],
            is_dangerous=True,
        )

    def _frees(self, storage: str) -> list[str]:
        own, both = self.frees(storage), self.frees(storage, channels_too=True)
        return own if own == both else [*own, *(f"With its channels too: {text[0].lower()}{text[1:]}" for text in both)]

    def expected_of(self, holder: Holder) -> dict[str, int]:
        return {**super().expected_of(holder), EXPECTED_IN_ALL: messages_in_all(holder.place.stats)}

    def expected_name(self) -> str:
        return EXPECTED_IN_ALL if self.request.POST.get("scope") == "channels_too" else EXPECTED

    def details(self) -> dict[str, Any]:
        details = super().details()
        scope = self.request.POST.get("scope", "topic")
        if scope not in ("topic", "channels_too"):
            raise ComplaintError(f"{scope[:40]!r} is neither topic nor channels_too. Nothing was done.")
        return {"channels_too": scope == "channels_too", **details}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return "its channels too" if details["channels_too"] else ""


class DeleteTopic(Removal):
    routes = {"delete_topic": f"{TOPIC}/~delete/"}

    takes_own = takes_channels = takes_readers = True

    def question(self) -> Question:
        topic = self.topic_stats()
        depth, in_flight, deferred, quarantined = _of_channels(topic)
        clients = sum(channel.client_count for channel in topic.channels)
        return self.pose(
            f"Delete {self.name}",
            [
                _deleted(len(topic.channels)),
                _removed(topic.depth + depth, in_flight, deferred, quarantined),
                *_given_up(topic),
                *_disconnected(clients),
                self.afterwards(topic.storage),
                *self.frees(topic.storage),
                *self._made_again(),
            ],
            [self.expected(topic.depth + depth + in_flight + deferred + quarantined), typed_name_field(self.name)],
            is_dangerous=True,
        )

    def _made_again(self) -> list[str]:
        """When the topic is created again, and the part of nsqlookupds."""
        live = get_hub().live
        rate_s = (
            figures.ARRIVED.rate(live.rings_of(self.topic)) if self.nodes is not None and live is not None else None
        )
        again = (
            f"Producers publish {units.rate(rate_s)} to it: their next message creates the topic again, empty."
            if rate_s
            else "A producer or consumer that comes back creates the topic again, empty."
        )
        if self.nodes is None or not self.nodes.has_lookupds:
            return [again]
        hidden = "The nsqlookupds hide it from consumers meanwhile"
        forgotten = "forget it once each node has deleted it" if self.nodes.is_all else "still name its other nodes"
        return [f"{hidden}, and {forgotten}.", again]

    def expected_of(self, holder: Holder) -> dict[str, int]:
        return {EXPECTED: messages_in_all(holder.place.stats)}

    def after_url(self) -> str:
        return reverse("topics") if self.nodes is None or self.nodes.is_all else self.page_url


class _ChannelAct(Removal):
    """An act on one channel whose name has to be typed."""

    def fields(self, channel: ChannelStats) -> list[Field]:
        count = channel.depth + channel.in_flight_count + channel.deferred_count + channel.quarantined_count
        return [self.expected(count), typed_name_field(self.name)]

    def _removed(self, channel: ChannelStats) -> str:
        return _removed(channel.depth, channel.in_flight_count, channel.deferred_count, channel.quarantined_count)


class EmptyChannel(_ChannelAct):
    routes = {"empty_channel": f"{CHANNEL}/~empty/"}

    offers_undo_of_nothing = False

    def question(self) -> Question:
        channel = self.channel_stats()
        return self.pose(
            f"Empty {self.name}",
            [
                self._removed(channel),
                "A consumer that still works on one of them can't finish it any more.",
                self.afterwards(self.topic_stats().storage),
                *self.frees(self.topic_stats().storage),
            ],
            self.fields(channel),
            is_dangerous=True,
        )


class DeleteChannel(_ChannelAct):
    routes = {"delete_channel": f"{CHANNEL}/~delete/"}

    def question(self) -> Question:
        channel = self.channel_stats()
        return self.pose(
            f"Delete {self.name}",
            [
                self._removed(channel),
                *_disconnected(channel.client_count),
                "Other channels of the topic keep their copies.",
                "A consumer that comes back creates the channel again, empty.",
                self.afterwards(self.topic_stats().storage),
                *self.frees(self.topic_stats().storage),
            ],
            self.fields(channel),
            is_dangerous=True,
        )

    def after_url(self) -> str:
        return reverse("topic", args=(self.topic,)) if self.nodes is None or self.nodes.is_all else self.page_url


class RequeueChannel(ActPage):
    """Requeue all messages in flight, those of one consumer, or one. `?client=KEY` and `?message=ID` preselect: a
    consumer and a message are this server's, and so is the act."""

    routes = {"requeue_channel": f"{CHANNEL}/~requeue/"}

    @cached_property
    def nodes(self) -> OnNodes | None:
        # The form of this server alone has a scope, and names no node.
        is_own = self._scope != "all" or (self._given("scope") and not self.named_nodes())
        return None if is_own else super().nodes

    def _given(self, name: str) -> str:
        return self.request.POST.get(name) or self.request.GET.get(name, "")

    @property
    def _scope(self) -> str:
        """all, client or message; else another word of the request."""
        given = self._given
        return given("scope") or ("message" if given("message") else "client" if given("client") else "all")

    def question(self) -> Question:
        channel = self.channel_stats()
        if self.nodes is not None:
            return self.pose(
                f"Requeue {self.name}",
                [
                    f"{counted(channel.in_flight_count, 'message')} in flight will go back to the queue.",
                    "A requeued message may be processed twice: its consumer may still work on it.",
                ],
            )
        client_key, message_id, scope = self._given("client"), self._given("message"), self._scope
        clients = channel.clients or ()
        in_flight = f"{counted(channel.in_flight_count, 'message')} {'is' if channel.in_flight_count == 1 else 'are'}"
        scopes = [Choice("all", f"All {counted(channel.in_flight_count, 'message')} in flight", scope == "all")]
        fields = []
        if clients:
            scopes.append(Choice("client", "All messages of one consumer", scope == "client"))
            fields.append(
                Field(
                    "client",
                    "Consumer",
                    kind="select",
                    choices=tuple(
                        Choice(str(client.client_key), _client_label(client), str(client.client_key) == client_key)
                        for client in clients
                    ),
                )
            )
        scopes.append(Choice("message", "One message", scope == "message"))
        at = " at this server" if doers_of(self.gateway, self.action, self.topic, self.channel) is not None else ""
        return self.pose(
            f"Requeue {self.name}{at}",
            [
                f"{in_flight} in flight{at} now. The messages you choose go back to the queue."
                if channel.in_flight_count
                else f"Nothing is in flight{at} now.",
                "A requeued message may be processed twice: its consumer may still work on it.",
            ],
            [
                Field("scope", "Requeue", kind="radio", choices=tuple(scopes)),
                *fields,
                Field("message", "Message id", value=message_id, length_max=16, help="16 characters; for one message."),
            ],
        )

    def details(self) -> dict[str, Any]:
        scope = self._scope
        if self.nodes is not None:
            return {}
        others = [one for one in self.named_nodes() if one not in ("", self.gateway.node().name)]
        if others:
            raise ComplaintError(
                f"One consumer or message is requeued at this server alone, not at {others[0][:80]}: use the console "
                "of that node. Nothing was done."
            )
        if scope == "all":
            return {}
        if scope == "client":
            text = self._given("client")
            if not re.fullmatch(r"[0-9]{1,18}", text):
                raise ComplaintError(f"{text[:40]!r} is not a consumer's number. Nothing was done.")
            return {"client_key": int(text)}
        if scope == "message":
            text = self._given("message").strip()
            if not _MESSAGE_ID.fullmatch(text):
                raise ComplaintError(f"{text[:40]!r} is not a message id of 16 characters. Nothing was done.")
            return {"message_id": text}
        raise ComplaintError(f"{scope[:40]!r} is not all, consumer or message. Nothing was done.")

    def audit_detail(self, details: dict[str, Any]) -> str:
        if "client_key" in details:
            return f"consumer {details['client_key']}"
        return f"message {details['message_id']}" if "message_id" in details else ""


def _client_label(client: ClientStats) -> str:
    name = client.client_id or client.hostname or "unnamed"
    return f"{name} at {client.remote_address}: {counted(client.in_flight_count, 'message')}"
