"""A channel at this moment, for the pages of its messages, and the acts that it offers for them."""

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode

from django.urls import reverse

from admin_console.gateway.gateway import (
    ChannelStats,
    Gateway,
    MessageQuery,
    MessageRows,
    OneMessage,
    TopicStats,
    why_not,
)


class MessageSource(Protocol):
    """Where messages are read: the gateway of this process, or a remote node (`gateway/node_messages.py`)."""

    def message_rows(self, topic: str, channel: str, query: MessageQuery) -> MessageRows: ...

    def message(self, topic: str, channel: str, *, message_id: str = "", offset: int | None = None) -> OneMessage: ...


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
        parts = [*([urlencode({"node": self.node})] if self.node else []), *([address] if address else [])]
        return f"{path}?{'&'.join(parts)}" if parts else path

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
