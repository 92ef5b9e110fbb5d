"""The topics and channels of `/stats` in JSON: text with places for the counts, made once for each state.

Nearly all channels are in one state, of all that seldom changes: not paused, not fenced, nothing quarantined. Its text
is made once, and a channel costs filling in its name, counts, age and bytes. A client has a text of its own, with
places for its counts; a topic whose reading is kept has one for all of it.
"""

from collections.abc import Generator
from typing import Any

from queue_engine.delivery.kept_topics import NEVER_NS, KeptValues
from queue_engine.delivery.latency_window import NO_CHANNELS, LatencyWindow
from queue_engine.delivery.readings import (
    ChannelReading,
    ChannelState,
    ClientReading,
    Told,
    TopicReading,
    TopicState,
)
from queue_engine.delivery.stats import ClientStats
from queue_engine.service.http.stats_texts import (
    channel_frame,
    channel_template,
    client_template,
    encoded,
    topic_frame,
    topic_template,
)
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.latency.latency_percentiles import bucket_table

_NO_LATENCY = b'{"count":0,"percentiles":null}'
_PLACE = b"%d"
# Channels and clients per step: a tenth of a millisecond, or half of one with percentiles.
_TEXTS_PER_STEP = 50

Templated = ChannelState | TopicState | ClientStats


class StatsTemplates:
    """Keeps the templates of one answer with all topics for the next one."""

    def __init__(self) -> None:
        # By the identity of what they are made of. That is held, so that its identity stays its own.
        self._before: dict[int, tuple[Templated, bytes]] = {}
        self._used: dict[int, tuple[Templated, bytes]] = {}

    def topics(self, topics: list[Told], latencies: "LatencyTexts", now_ns: int) -> Generator[None, None, list[bytes]]:
        """Each topic with its channels, of one answer; the templates that it does not use are forgotten. Yields between
        short steps. now_ns: ages run to it, Unix."""
        self._before, self._used = self._used, {}
        texts: list[bytes] = []
        written = 0
        for topic in topics:
            if isinstance(topic, KeptValues):
                texts.append(_kept_text(topic, now_ns))
                written += len(topic.disk_bytes)
            elif topic.kept is None:
                channels: list[bytes] = []
                for channel, disk_bytes in zip(topic.channels, topic.channel_bytes, strict=True):
                    clients = yield from self._clients(channel.clients)
                    channels.append(self._channel(channel, clients, disk_bytes, latencies, now_ns))
                    written += 1 + channel.client_count
                    if written >= _TEXTS_PER_STEP:
                        written = 0
                        yield
                texts.append(self._topic(topic, channels, latencies, now_ns))
            else:
                if topic.kept.template is None:
                    topic.kept.template = yield from self._template_of(topic, latencies)
                texts.append(_filled(topic.kept.template, topic, now_ns))
                written += len(topic.channels)
            written += 1
            if written >= _TEXTS_PER_STEP:
                written = 0
                yield
        return texts

    def _topic(self, topic: TopicReading, channels: list[bytes], latencies: "LatencyTexts", now_ns: int) -> bytes:
        return self._of(topic.state) % (
            topic.topic_name.encode(),
            b",".join(channels),
            topic.depth,
            topic.backend_depth,
            topic.message_count,
            topic.message_bytes,
            latencies.of(topic.window),
            _age_text(topic.oldest_ns, now_ns),
            _bytes_text(topic.disk_bytes),
            encoded(topic.cursors) if topic.cursors else b"[]",
        )

    def _channel(
        self, channel: ChannelReading, clients: bytes, disk_bytes: int | None, latencies: "LatencyTexts", now_ns: int
    ) -> bytes:
        return self._of(channel.state) % (
            channel.channel_name.encode(),
            *channel[1:9],
            clients,
            latencies.of(channel.window),
            *channel[11:14],
            _age_text(channel.oldest_ns, now_ns),
            _bytes_text(disk_bytes),
        )

    def _clients(self, clients: tuple[ClientReading, ...] | None) -> Generator[None, None, bytes]:
        if not clients:
            return b"null" if clients is None else b"[]"
        texts = []
        for at, client in enumerate(clients, 1):
            *counts, pub_counts, timeout_count, who = client
            published = [{"topic": topic, "count": count} for topic, count in pub_counts]
            texts.append(self._of(who) % (*counts, encoded(published) if published else b"[]", timeout_count))
            if at % _TEXTS_PER_STEP == 0:
                yield
        return b"[%b]" % b",".join(texts)

    def _template_of(self, topic: TopicReading, latencies: "LatencyTexts") -> Generator[None, None, bytes]:
        """The text of a topic that is kept, with places for what goes on, as of KeptValues."""
        channels: list[bytes] = []
        for one in topic.channels:
            clients = yield from self._clients(one.clients)
            values = (
                one.channel_name.encode(),
                _PLACE,
                _PLACE,
                *_texts(one.in_flight_count, one.deferred_count),
                _PLACE,
                *_texts(one.requeue_count, one.timeout_count, one.client_count),
                clients.replace(b"%", b"%%"),
                latencies.of(one.window),
                *_texts(one.finish_count, one.disconnect_count, one.ready_count),
                b"null" if one.oldest_ns is None else _PLACE,
                _PLACE,
            )
            channels.append(channel_frame(one.state) % values)
        values = (
            topic.topic_name.encode(),
            b",".join(channels),
            *_texts(topic.depth, topic.backend_depth),
            _PLACE,
            _PLACE,
            latencies.of(topic.window),
            b"null",  # nothing waits at the topic itself
            _PLACE,
            b"[]",
        )
        return topic_frame(topic.state) % values

    def _of(self, one: Templated) -> bytes:
        found = self._used.get(id(one))
        if found is None:
            found = self._used[id(one)] = self._before.get(id(one)) or (one, _template(one))
        return found[1]


def _template(one: Templated) -> bytes:
    if isinstance(one, ChannelState):
        return channel_template(one)
    return topic_template(one) if isinstance(one, TopicState) else client_template(one)


def _filled(template: bytes, topic: TopicReading, now_ns: int) -> bytes:
    """The text of a topic that is kept, with what goes on."""
    values: list[int | None] = []
    for channel, disk_bytes in zip(topic.channels, topic.channel_bytes, strict=True):
        oldest_ns = channel.oldest_ns
        values += channel.depth, channel.backend_depth, channel.message_count
        if oldest_ns is not None:
            values.append(_age_ms(oldest_ns, now_ns))
        values.append(disk_bytes)
    values += topic.message_count, topic.message_bytes, topic.disk_bytes
    return template % tuple(values)


def _kept_text(topic: KeptValues, now_ns: int) -> bytes:
    """The same, without a reading."""
    came, sizes, backend_depths = topic.came, topic.disk_bytes, topic.backend_depths
    values: list[int] = []
    each = iter(topic.channels)
    for at, (depth, message_count, oldest_ns) in enumerate(zip(each, each, each, strict=True)):
        depth += came
        values += depth, depth if backend_depths is None else backend_depths[at], message_count + came
        if oldest_ns != NEVER_NS:
            values.append(_age_ms(oldest_ns, now_ns))
        values.append(sizes[at + 1])
    values += topic.message_count, topic.message_bytes, sizes[0]
    return topic.template % tuple(values)


def _age_ms(since_ns: int, now_ns: int) -> int:
    # The clock may have been set back meanwhile.
    return (now_ns - since_ns) // NS_PER_MS if now_ns > since_ns else 0


def _texts(*counts: int) -> list[bytes]:
    return [b"%d" % count for count in counts]


class LatencyTexts:
    """Writes latencies. quantiles: those that are asked for. has_buckets: whether they have their buckets, too."""

    def __init__(self, quantiles: tuple[float, ...], *, has_buckets: bool) -> None:
        self._quantiles = quantiles
        self._has_buckets = has_buckets

    def of(self, window: LatencyWindow) -> bytes:
        """Of one channel or topic."""
        # nsqd has none of a topic without channels.
        quantiles = () if window is NO_CHANNELS else self._quantiles
        if not quantiles and not self._has_buckets:
            return _NO_LATENCY
        counts = window.counts()
        answer: dict[str, Any] = {"count": sum(counts.values()), "percentiles": None}
        if quantiles:
            values = window.percentiles_ns(quantiles)
            answer["percentiles"] = [
                {"quantile": quantile, "value": value} for quantile, value in zip(quantiles, values, strict=True)
            ]
        if self._has_buckets:
            answer["buckets"] = bucket_table(counts)
        return encoded(answer)


def _age_text(since_ns: int | None, now_ns: int) -> bytes:
    return b"null" if since_ns is None else b"%d" % _age_ms(since_ns, now_ns)


def _bytes_text(size: int | None) -> bytes:
    return b"null" if size is None else b"%d" % size
