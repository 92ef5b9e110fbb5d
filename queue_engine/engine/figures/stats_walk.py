"""Goes through topics and channels in slices, for the stats of all, and leaves out those that are deleted meanwhile."""

from collections.abc import Generator
from typing import Protocol, TypeVar

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.latency_window import NO_LATENCIES, LatencyWindow
from queue_engine.delivery.topic import Topic
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.vocabulary.clock import NS_PER_MS

# Channels per slice: a message waits for a slice at most, a tenth of a millisecond or two.
SLICE_CHANNELS = 16
SLICE_CLIENTS = 64

C = TypeVar("C")
T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class StatsReader(Protocol[C, T_co]):
    """Makes a value of each channel, and one of each topic with the values of its channels. has_windows: whether it
    needs latencies."""

    has_windows: bool

    def prefetch_clients(self, channel: Channel) -> Generator[None, None, None]:
        """Read the consumers of a channel that has many, in slices; `of_channel` reads those that come meanwhile."""
        ...

    def of_channel(self, channel: Channel, window: LatencyWindow) -> C: ...

    def of_topic(self, topic: Topic, channels: list[C], windows: tuple[LatencyWindow, ...]) -> T_co:
        """windows: of all its channels, also of those that are not listed; () without `has_windows`."""
        ...


def walk(
    catalog: Catalog, reader: StatsReader[C, T], *, topic: str = "", channel: str = ""
) -> Generator[None, None, list[T]]:
    """The reader's values of all topics, or of one topic or channel, by name. Yields between slices."""
    names = [topic] if topic else catalog.sorted_names()
    deletions = catalog.gone.deletion_count
    half_window_ns = catalog.latency_window_ms * NS_PER_MS // 2
    walked: list[tuple[Topic, list[Channel], list[C], tuple[LatencyWindow, ...]]] = []
    listed: list[T] = []
    sliced = 0
    for name in names:
        if sliced >= SLICE_CHANNELS:
            sliced = 0
            yield
        one = catalog.topics.get(name)
        if one is None or (channel and channel not in one.channels):
            continue
        channels: list[Channel] = []
        made: list[C] = []
        windows: list[LatencyWindow] = []
        for each in [one.channels[channel_name] for channel_name in sorted(one.channels)]:
            if len(each.consumers) > SLICE_CLIENTS and channel in ("", each.name):
                yield from reader.prefetch_clients(each)
            if each.is_deleted:
                continue  # between two slices
            window: LatencyWindow = NO_LATENCIES
            if reader.has_windows:
                window = each.figures.latency_window(half_window_ns)
                windows.append(window)
            if channel and channel != each.name:
                continue
            channels.append(each)
            made.append(reader.of_channel(each, window))
            sliced += 1
            if sliced >= SLICE_CHANNELS:
                sliced = 0
                yield
        if one.is_deleted:
            continue
        walked.append((one, channels, made, tuple(windows)))
        listed.append(reader.of_topic(one, made, tuple(windows)))
        sliced += 1
    if catalog.gone.deletion_count == deletions:
        return listed
    # The counts of deleted topics and channels are among those of deleted ones now.
    living: list[T] = []
    for (one, channels, made, all_windows), whole_one in zip(walked, listed, strict=True):
        if one.is_deleted:
            continue
        left = [found for each, found in zip(channels, made, strict=True) if not each.is_deleted]
        living.append(whole_one if len(left) == len(channels) else reader.of_topic(one, left, all_windows))
    return living
