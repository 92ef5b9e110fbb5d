"""A topic or channel whose messages a page shows: where they are read, its links, and the acts that it offers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlencode

from django.urls import reverse

from admin_console.gateway.gateway import (
    ChannelStats,
    Gateway,
    KeyPage,
    MessagePage,
    MessageQuery,
    MessageRows,
    OneMessage,
    SearchState,
    Target,
    TopicStats,
    why_not,
)


class MessageSource(Protocol):
    """Where messages are read: the gateway of this process, or a remote node (`gateway/node_messages.py`)."""

    def message_rows(self, topic: str, channel: str, query: MessageQuery) -> MessageRows: ...

    def message(self, topic: str, channel: str, *, message_id: str = "", offset: int | None = None) -> OneMessage: ...

    def messages(self, topic: str, channel: str, target: Target | None, count_max: int) -> MessagePage: ...

    def find_key(self, topic: str, key: bytes, count_max: int, *, before: int | None = None) -> KeyPage: ...

    def start_search(
        self, topic: str, channel: str, text: str, *, state: str = "", first_offset: int | None = None, user: str = ""
    ) -> SearchState: ...

    def search_state(self, search_id: str) -> SearchState: ...

    def cancel_search(self, search_id: str) -> SearchState: ...


@runtime_checkable
class BeginsReads(Protocol):
    """A remote node: several are read at once."""

    def begin_find_key(
        self, topic: str, key: bytes, count_max: int, *, before: int | None = None
    ) -> Callable[[], KeyPage]: ...

    def begin_message(
        self, topic: str, channel: str, wanted: Mapping[str, Any], *, with_contents: bool = True
    ) -> Callable[[], OneMessage]: ...


def at_node(node: str, path: str, address: str = "") -> str:
    """A link about the messages of a node; "" for this server's. address: the query beside the node."""
    query = "&".join(filter(None, (urlencode({"node": node}) if node else "", address)))
    return f"{path}?{query}" if query else path


@dataclass(frozen=True, slots=True)
class TopicMessages:
    """The messages of a topic at one node. node: its name; "" for this server."""

    topic: str
    source: MessageSource
    node: str = ""
    can_find_key: bool = True

    def url(self, **query: str) -> str:
        return at_node(self.node, reverse("topic_messages", args=(self.topic,)), urlencode(query))


@dataclass(frozen=True, slots=True)
class ChannelSnapshot:
    """capabilities: of the node. node: its name; "" for this server."""

    topic: str
    channel: str
    topic_stats: TopicStats
    stats: ChannelStats
    capabilities: frozenset[str]
    source: MessageSource
    node: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.channel}"

    @property
    def list_url(self) -> str:
        return self.url_with("")

    def url_with(self, address: str) -> str:
        return self.at_node(reverse("channel_messages", args=(self.topic, self.channel)), address)

    def message_url(self, message_id: str, name: str = "channel_message", address: str = "") -> str:
        return self.at_node(reverse(name, args=(self.topic, self.channel, message_id)), address)

    def at_node(self, path: str, address: str = "") -> str:
        """A link about the messages of this node."""
        return at_node(self.node, path, address)

    def why_not(self, act: str) -> str:
        """Why this channel can't do an act or a read of single messages; "" where it can."""
        if act not in self.capabilities:
            return f"{self.node or 'This server'} can't {act.replace('_', ' ')}."
        return why_not(act, self.topic_stats.storage, self.topic, self.channel)


def channel_snapshot(gateway: Gateway, topic: str, channel: str) -> ChannelSnapshot | None:
    """None where there is no such channel. Raises EngineUnavailableError."""
    for found in gateway.exact(topic, channel).topics:
        if found.topic_name == topic:
            for stats in found.channels:
                if stats.channel_name == channel:
                    return ChannelSnapshot(topic, channel, found, stats, gateway.capabilities, gateway)
    return None
