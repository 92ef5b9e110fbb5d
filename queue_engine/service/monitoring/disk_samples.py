"""The samples of the data directory: its bytes by kind, and those of each topic and channel."""

from collections.abc import Iterable

from queue_engine.delivery.stats import TopicStats
from queue_engine.service.monitoring.disk_usage import DELETED, KINDS, TOPICS, DiskUsage
from queue_engine.service.monitoring.exposition import Exposition, Sample, labels


def add_disk_usage(to: Exposition, usage: DiskUsage, topics: Iterable[TopicStats]) -> None:
    """topics: all there are. Files of others count as those of deleted topics."""
    of_topics: list[Sample] = []
    of_channels: list[Sample] = []
    for topic in topics:
        name = topic.topic_name
        topic_bytes = usage.topics[topic.number] + usage.queues[name]
        for channel in topic.channels:
            own_bytes = usage.channels[channel.number] + usage.queues[f"{name}:{channel.channel_name}"]
            of_channels.append((labels(topic=name, channel=channel.channel_name), own_bytes))
            topic_bytes += own_bytes
        of_topics.append((labels(topic=name), topic_bytes))
    all_bytes = sum(int(value) for _, value in of_topics)
    kinds = {**usage.kinds, TOPICS: all_bytes, DELETED: usage.total - usage.kinds.total() - all_bytes}
    to.add("penstock_disk_bytes", [(labels(kind=kind), kinds.get(kind, 0)) for kind in KINDS])
    to.add("penstock_topic_disk_bytes", of_topics)
    to.add("penstock_channel_disk_bytes", of_channels)
