"""Goes through topics and channels in slices, for the stats of all, and keeps what is deleted meanwhile out of them."""

from collections.abc import Generator, Sequence
from typing import Protocol, TypeVar

from queue_engine.catalog.catalog import Catalog
from queue_engine.delivery.channel import Channel
from queue_engine.delivery.latency_window import NO_LATENCIES, LatencyWindow
from queue_engine.delivery.topic import Topic
from queue_engine.vocabulary.clock import NS_PER_MS

# Channels per slice: a message waits for a slice at most, a tenth of a millisecond or two.
SLICE_CHANNELS = 16
SLICE_CLIENTS = 64

C = TypeVar("C")
T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Reader(Protocol[C, T_co]):
    """What is made of each channel, and of each topic with what was made of its channels. has_windows: whether it needs
    latencies."""

    has_windows: bool

    def begin(self, names: Sequence[str]) -> None:
        """An answer with these topics begins. names: the same object until a topic comes or goes."""
        ...

    def unchanged(self, at: int) -> T_co | None:
        """What is known of the topic with the name at this place, without a look at it. None, too, once it or one of
        its channels is deleted."""
        ...

    def kept(self, topic: Topic, at: int) -> T_co | None:
        """What is kept of a topic, which is not read then. at: the place of its name."""
        ...

    def clients_ahead(self, channel: Channel) -> Generator[None, None, None]:
        """Read the consumers of a channel that has many, in slices; `of_channel` reads those that come meanwhile."""
        ...

    def of_channel(self, channel: Channel, window: LatencyWindow) -> C: ...

    def of_topic(self, topic: Topic, channels: list[C], windows: tuple[LatencyWindow, ...]) -> T_co:
        """windows: of all its channels, also of those that are not asked for; () without `has_windows`."""
        ...


def walk(
    catalog: Catalog, reader: Reader[C, T], *, topic: str = "", channel: str = ""
) -> Generator[None, None, list[T]]:
    """What the reader makes of all topics, or of one topic or channel, by name. Yields between slices."""
    names = [topic] if topic else catalog.sorted_names()
    deletions = catalog.gone.deletion_count
    half_window_ns = catalog.latency_window_ms * NS_PER_MS // 2
    reader.begin(names)
    walked: list[tuple[Topic, list[Channel], list[C] | None, tuple[LatencyWindow, ...]] | int] = []
    listed: list[T] = []
    sliced = 0
    for at in range(len(names)):
        if sliced >= SLICE_CHANNELS:
            sliced = 0
            yield
        if (unchanged := reader.unchanged(at)) is not None:
            walked.append(at)
            listed.append(unchanged)
            sliced += 1
            continue
        one = catalog.topics.get(names[at])
        if one is None or (channel and channel not in one.channels):
            continue
        if (kept := reader.kept(one, at)) is not None:
            walked.append((one, list(one.channels.values()), None, ()))
            listed.append(kept)
            sliced += 1
            continue
        channels: list[Channel] = []
        made: list[C] = []
        windows: list[LatencyWindow] = []
        for each in [one.channels[channel_name] for channel_name in sorted(one.channels)]:
            if len(each.consumers) > SLICE_CLIENTS and channel in ("", each.name):
                yield from reader.clients_ahead(each)
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
    # The counts of what is gone are among those of deleted ones now.
    living: list[T] = []
    for before, whole_one in zip(walked, listed, strict=True):
        if isinstance(before, int):
            if reader.unchanged(before) is not None:
                living.append(whole_one)
            elif (named := catalog.topics.get(names[before])) is not None:
                living.append(_read_whole(reader, named, list(named.channels.values()), ()))
            continue
        one, all_channels, read, all_windows = before
        if one.is_deleted:
            continue
        there = [each for each in all_channels if not each.is_deleted]
        if len(there) == len(all_channels):
            living.append(whole_one)
        elif read is None:
            living.append(_read_whole(reader, one, there, all_windows))
        else:
            left = [found for each, found in zip(all_channels, read, strict=True) if not each.is_deleted]
            living.append(reader.of_topic(one, left, all_windows))
    return living


def _read_whole(reader: Reader[C, T], topic: Topic, channels: list[Channel], windows: tuple[LatencyWindow, ...]) -> T:
    by_name = sorted(channels, key=lambda each: each.name)
    return reader.of_topic(topic, [reader.of_channel(each, NO_LATENCIES) for each in by_name], windows)
