"""The stats as statsd reads them, under nsqd's names: one a line, many lines a packet.

    PREFIXtopic.T.message_count:5|c               c: the growth since the lines before
    PREFIXtopic.T.channel.C.depth:12|g            g: as it is now

Names of topics and channels stand as they are, as with nsqd: a dot in one of them makes one more level of the name.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass

from queue_engine.delivery.latency_window import LatencyWindow
from queue_engine.delivery.stats import ChannelStats, EngineSnapshot, TopicStats
from queue_engine.vocabulary.figures import CHANNEL, COUNTED, MEASURED, TOPIC, Figure, FigureKind, Reader, dict_reader
from queue_engine.vocabulary.names import is_ephemeral

_CHANNELS_PER_STEP = 50


def _named(rows: Iterable[Figure], kind: FigureKind) -> Reader:
    """Reads the figures of one kind under statsd's names."""
    return dict_reader({row.statsd: row.attribute for row in rows if row.statsd and row.kind is kind})


_topic_counters, _topic_gauges = _named(TOPIC, COUNTED), _named(TOPIC, MEASURED)
_channel_counters, _channel_gauges = _named(CHANNEL, COUNTED), _named(CHANNEL, MEASURED)


@dataclass(frozen=True, slots=True)
class _Counters:
    """The counters of a topic or channel when they were sent last. number: of the topic or channel itself: another one
    of the same name begins at 0."""

    number: int
    counts: Mapping[str, int]


_NOTHING = _Counters(-1, {})


class StatsdLines:
    """Makes the lines, and stores the counters that they were made of. prefix: the beginning of each line."""

    def __init__(self, prefix: str, *, excludes_ephemeral: bool) -> None:
        self._prefix = prefix
        self._excludes_ephemeral = excludes_ephemeral
        self._sent: dict[tuple[str, str], _Counters] = {}
        self._collections = 0

    def of(self, snapshot: EngineSnapshot, memory: Mapping[str, int] | None) -> Generator[None, None, list[str]]:
        """The lines of one moment. memory: the process's, None without. Yields between short steps."""
        lines: list[str] = []
        counters: dict[tuple[str, str], _Counters] = {}
        listed = 0
        for topic in snapshot.topics:
            if self._excludes_ephemeral and is_ephemeral(topic.topic_name):
                continue
            lines += self._topic(topic, snapshot.percentiles, counters)
            for channel in topic.channels:
                if not (self._excludes_ephemeral and is_ephemeral(channel.channel_name)):
                    lines += self._channel(channel, snapshot.percentiles, counters)
            listed += 1 + len(topic.channels)
            if listed >= _CHANNELS_PER_STEP:
                listed = 0
                yield
        self._sent = counters
        if memory is not None:
            lines += self._memory(memory)
        return lines

    def _topic(
        self, topic: TopicStats, quantiles: tuple[float, ...], counters: dict[tuple[str, str], _Counters]
    ) -> list[str]:
        start = f"{self._prefix}topic.{topic.topic_name}."
        lines = self._increments(
            start, (topic.topic_name, ""), _Counters(topic.number, _topic_counters(topic)), counters
        )
        lines += [f"{start}{name}:{value}|g" for name, value in _topic_gauges(topic).items()]
        if topic.channels:
            lines += _latencies(start, topic.window, quantiles)
        return lines

    def _channel(
        self, channel: ChannelStats, quantiles: tuple[float, ...], counters: dict[tuple[str, str], _Counters]
    ) -> list[str]:
        start = f"{self._prefix}topic.{channel.topic_name}.channel.{channel.channel_name}."
        key = (channel.topic_name, channel.channel_name)
        lines = self._increments(start, key, _Counters(channel.number, _channel_counters(channel)), counters)
        lines += [f"{start}{name}:{value}|g" for name, value in _channel_gauges(channel).items()]
        return lines + _latencies(start, channel.window, quantiles)

    def _increments(
        self, start: str, key: tuple[str, str], now: _Counters, counters: dict[tuple[str, str], _Counters]
    ) -> list[str]:
        counters[key] = now
        before = self._sent.get(key, _NOTHING)
        counts = before.counts if before.number == now.number else {}
        return [f"{start}{name}:{count - counts.get(name, 0)}|c" for name, count in now.counts.items()]

    def _memory(self, memory: Mapping[str, int]) -> list[str]:
        start = f"{self._prefix}mem."
        lines = [f"{start}{name}:{value}|g" for name, value in memory.items() if name != "gc_total_runs"]
        lines.append(f"{start}gc_runs:{memory['gc_total_runs'] - self._collections}|c")
        self._collections = memory["gc_total_runs"]
        return lines


def _latencies(start: str, window: LatencyWindow, quantiles: tuple[float, ...]) -> list[str]:
    values = window.percentiles_ns(quantiles) if quantiles else []
    # As nsqd names them, in whole percent: 0.999 is _100, as 1.0 is.
    return [
        f"{start}e2e_processing_latency_{quantile * 100:.0f}:{value}|g"
        for quantile, value in zip(quantiles, values, strict=True)
    ]


def packets_of(lines: Iterable[str], bytes_max: int) -> list[bytes]:
    """The lines in packets of at most so many bytes, no line cut; a longer line is a packet of its own."""
    packets: list[bytes] = []
    packet = bytearray()
    for line in lines:
        data = line.encode() + b"\n"
        if packet and len(packet) + len(data) > bytes_max:
            packets.append(bytes(packet))
            packet.clear()
        packet += data
    if packet:
        packets.append(bytes(packet))
    return packets
