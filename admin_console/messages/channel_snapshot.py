"""A channel at this moment, for the pages of its messages, and the acts that it offers for them."""

from dataclasses import dataclass

from django.urls import reverse

from admin_console.gateway.gateway import ChannelStats, Gateway, TopicStats, why_not


@dataclass(frozen=True, slots=True)
class ChannelSnapshot:
    """capabilities: of the node."""

    topic: str
    channel: str
    topic_stats: TopicStats
    stats: ChannelStats
    capabilities: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.channel}"

    @property
    def list_url(self) -> str:
        return reverse("channel_messages", args=(self.topic, self.channel))

    def url_with(self, address: str) -> str:
        return f"{self.list_url}?{address}" if address else self.list_url

    def message_url(self, message_id: str, name: str = "channel_message") -> str:
        return reverse(name, args=(self.topic, self.channel, message_id))

    def why_not(self, act: str) -> str:
        """Why this channel can't do an act or a read of single messages; "" where it can."""
        if act not in self.capabilities:
            return f"This server can't {act.replace('_', ' ')}."
        return why_not(act, self.topic_stats.storage, self.topic, self.channel)


def channel_snapshot(gateway: Gateway, topic: str, channel: str) -> ChannelSnapshot | None:
    """None where there is no such channel. Raises EngineUnavailableError."""
    for found in gateway.exact(topic, channel).topics:
        if found.topic_name == topic:
            for stats in found.channels:
                if stats.channel_name == channel:
                    return ChannelSnapshot(topic, channel, found, stats, gateway.node().capabilities)
    return None
