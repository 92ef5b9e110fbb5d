"""Writes the topics, channels and clients of `/stats` in JSON, in short steps.

`stats.py` explains the keys.
"""

import json
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from queue_engine.delivery.latency_window import NO_CHANNELS, ChannelWindow, LatencyWindow
from queue_engine.delivery.stats import ClientStats, Figures
from queue_engine.vocabulary.figures import CLIENT, dict_reader, in_stats
from queue_engine.vocabulary.flow.pause import Pause, Ramp
from queue_engine.vocabulary.flow.redrive import RedriveState
from queue_engine.vocabulary.latency.latency_percentiles import bucket_table
from queue_engine.wire.cursor import CursorStats

# Topics, channels and clients: a tenth of a millisecond, or half of one with percentiles.
_ROWS_PER_STEP = 50
_NO_LATENCY = {"count": 0, "percentiles": None}
_OF_AUTH = ("authed", "auth_identity", "auth_identity_url")
_CLIENT_KEYS = {row.name: row.attribute for row in in_stats(CLIENT)}
_with_auth = dict_reader(_CLIENT_KEYS)
_without_auth = dict_reader({key: attribute for key, attribute in _CLIENT_KEYS.items() if key not in _OF_AUTH})


@dataclass(frozen=True, slots=True)
class _Written:
    """A part that is JSON already."""

    text: bytes


class StatsRows:
    """quantiles: of latencies, that each topic and channel states. has_buckets: whether latencies have their buckets,
    too."""

    def __init__(self, quantiles: tuple[float, ...], *, has_buckets: bool) -> None:
        self._quantiles = quantiles
        self._has_buckets = has_buckets

    def written(self, rows: Sequence[Figures | ClientStats]) -> Generator[None, None, bytes]:
        """A JSON list of topics, channels or clients. Yields between steps of some fifty rows, those inside them
        counted."""
        texts: list[bytes] = []
        step: list[Figures | ClientStats] = []
        count = 0
        for row in rows:
            inside = _rows_inside(row)
            if inside >= _ROWS_PER_STEP and isinstance(row, dict):
                key = "channels" if "channels" in row else "clients"
                row = {**row, key: _Written((yield from self.written(row[key])))}
                inside = 0
            step.append(row)
            count += 1 + inside
            if count >= _ROWS_PER_STEP:
                texts.append(self.encoded(step)[1:-1])
                step, count = [], 0
                yield
        if step:
            texts.append(self.encoded(step)[1:-1])
        return b"[%b]" % b",".join(texts)

    def encoded(self, value: Any) -> bytes:
        """JSON of a list or a document."""
        try:
            return orjson.dumps(value, self._plain, orjson.OPT_PASSTHROUGH_DATACLASS)
        except TypeError:
            # A client's name may have lone surrogates, which orjson refuses and the standard encoder escapes.
            return json.dumps(value, separators=(",", ":"), default=self._plainest).encode()

    def _plain(self, value: object) -> object:
        """JSON's form of an object that orjson can't write itself."""
        if isinstance(value, LatencyWindow):
            return self._latency(value)
        if isinstance(value, ClientStats):
            return client_document(value, "")
        if isinstance(value, Pause | Ramp | RedriveState):
            return value.document()
        if isinstance(value, CursorStats):
            return asdict(value)
        if isinstance(value, _Written):
            return orjson.Fragment(value.text)
        raise TypeError(type(value))

    def _plainest(self, value: object) -> object:
        return json.loads(value.text) if isinstance(value, _Written) else self._plain(value)

    def _latency(self, window: LatencyWindow) -> dict[str, Any]:
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
            if isinstance(window, ChannelWindow):
                answer["histogram"] = [number for pair in sorted(window.now.items()) for number in pair]
        return answer


def _rows_inside(row: Figures | ClientStats) -> int:
    """Channels and clients in a topic, or clients in a channel."""
    if isinstance(row, ClientStats):
        return 0
    if "channels" not in row:
        return len(row["clients"] or ())
    channels = row["channels"]
    return len(channels) + sum([len(one["clients"] or ()) for one in channels])


def client_document(client: ClientStats, topic: str) -> dict[str, Any]:
    """One connection; of its counts of published messages those of `topic`, "" for all."""
    document = _with_auth(client) if client.authed else _without_auth(client)  # as nsqd does
    document["pub_counts"] = [
        {"topic": name, "count": count} for name, count in client.pub_counts if not topic or name == topic
    ]
    return document
