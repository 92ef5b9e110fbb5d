"""The samples of the data directory: its bytes by kind, and those of each topic and channel."""

from collections.abc import Iterable

from queue_engine.delivery.stats import ChannelStats, TopicStats
from queue_engine.service.monitoring.disk_usage import DELETED, KINDS, TOPICS, DiskUsage
from queue_engine.service.monitoring.exposition import Exposition, Sample, labels


def add_disk_usage(
    to: Exposition, usage: DiskUsage, topics: Iterable[TopicStats], listed: Iterable[TopicStats]
) -> None:
    """topics: all there are. Files of others count as those of deleted topics. listed: those to list, with the channels
    to list."""
    bytes_of = {topic.topic_name: _topic_bytes(usage, topic) for topic in topics}
    of_topics: list[Sample] = []
    of_channels: list[Sample] = []
    for topic in listed:
        of_topics.append((labels(topic=topic.topic_name), bytes_of[topic.topic_name]))
        of_channels += [
            (labels(topic=topic.topic_name, channel=channel.channel_name), _channel_bytes(usage, channel))
            for channel in topic.channels
        ]
    all_bytes = sum(bytes_of.values())
    kinds = {**usage.kinds, TOPICS: all_bytes, DELETED: usage.total - usage.kinds.total() - all_bytes}
    to.add("penstock_disk_bytes", [(labels(kind=kind), kinds.get(kind, 0)) for kind in KINDS])
    to.add("penstock_topic_disk_bytes", of_topics)
    to.add("penstock_channel_disk_bytes", of_channels)


def _topic_bytes(usage: DiskUsage, topic: TopicStats) -> int:
    own_bytes = usage.topics[topic.number] + usage.queues[topic.topic_name]
    return own_bytes + sum(_channel_bytes(usage, channel) for channel in topic.channels)


def _channel_bytes(usage: DiskUsage, channel: ChannelStats) -> int:
    return usage.channels[channel.number] + usage.queues[f"{channel.topic_name}:{channel.channel_name}"]
