"""The samples over all topics, whichever topics an answer lists."""

from operator import attrgetter

from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.service.monitoring.engine_samples import latency_counts
from queue_engine.service.monitoring.exposition import Exposition
from queue_engine.service.monitoring.selection import Selection
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.figures import CHANNEL, COUNTED, MEASURED, TOPIC

# The family of a sum over all channels, and the field of their stats.
_SUMS = [(row.total.metric, attrgetter(row.attribute)) for row in CHANNEL if row.total and row.kind is MEASURED]
_COUNTS = [row.total.metric for row in (*TOPIC, *CHANNEL) if row.total and row.kind is COUNTED]


def add_totals(to: Exposition, snapshot: EngineSnapshot) -> None:
    """Add sums over all topics and channels; counters with those of deleted ones."""
    topics = snapshot.topics
    channels = [channel for topic in topics for channel in topic.channels]
    to.add_one("penstock_topics", len(topics))
    to.add_one("penstock_channels", len(channels))
    waiting_count = sum(topic.depth for topic in topics) + sum(channel.depth for channel in channels)
    to.add_one("penstock_messages_waiting", waiting_count)
    for name, read in _SUMS:
        to.add_one(name, sum(map(read, channels)))
    oldest_ns = min((one.oldest_ns for one in channels if one.oldest_ns is not None), default=snapshot.taken_at_ns)
    to.add_one("penstock_oldest_seconds", max(snapshot.taken_at_ns - oldest_ns, 0) / NS_PER_S)
    sums = snapshot.gone.with_all_of(topics)
    for name in _COUNTS:
        to.add_one(name, sums.by_metric[name])
    to.add_histogram("penstock_publish_to_finish_seconds", [("", latency_counts(sums.latency))])
    to.add_histogram("penstock_delivery_to_finish_seconds", [("", sums.held)])


def add_left_out(to: Exposition, selection: Selection) -> None:
    to.add_one("penstock_metrics_topics_left_out", selection.topics_left_out)
    to.add_one("penstock_metrics_channels_left_out", selection.channels_left_out)
    to.add_one("penstock_metrics_series_left_out", selection.series_left_out)
