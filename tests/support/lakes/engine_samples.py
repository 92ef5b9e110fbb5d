"""Engines that exist only as their samples: what they measured, and what the history must then say, in plain Python."""

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any

import orjson

GAUGES = ("waiting", "depth", "in_flight", "deferred", "clients", "disk_bytes", "oldest_age_ms")
COUNTERS = ("messages", "message_bytes", "finished", "requeued", "timeouts", "disconnects")

Sample = dict[str, Any]
Row = dict[str, Any]
Key = tuple[int, str, str, str]  # t, node, topic, channel


class EngineModel:
    """One engine: topics with channels, whose values differ in each sample. A node HOST:PORT is one that another server
    samples: its process and disk are unknown.

    latencies_ms: of every message finished, by (window of a minute, topic, channel).
    """

    def __init__(self, node: str, channels: dict[str, list[str]], *, seed: int, finished_max: int = 12) -> None:
        self.latencies_ms: defaultdict[Key, list[float]] = defaultdict(list)
        self._node = node
        self._channels = channels
        self._rng = Random(seed)
        self._finished_max = finished_max
        self._sequence = 0
        self._started_ms = 0
        self._totals: Counter[tuple[str, str, str]] = Counter()

    def restart(self, at_ms: int) -> None:
        """The process begins anew: its totals are 0, its samples are counted from 0."""
        self._started_ms, self._sequence = at_ms, 0
        self._totals.clear()

    def recreate_channel(self, topic: str, channel: str) -> None:
        """Deleted and created between two samples: its totals are 0."""
        for key in [key for key in self._totals if key[:2] == (topic, channel)]:
            del self._totals[key]

    def sample(self, taken_ms: int) -> Sample:
        """The sample that the engine writes now; counters are the growth since its last sample."""
        rng = self._rng
        topics: dict[str, list[Any]] = defaultdict(list)
        channels: dict[str, list[Any]] = defaultdict(list)
        for topic, names in self._channels.items():
            first = len(channels["topic"])
            messages = rng.randrange(40)
            for channel in names:
                self._add_channel(channels, topic, channel, taken_ms, messages)
            mine = slice(first, None)
            topics["topic"].append(topic)
            topics["storage"].append(rng.choice(["log", "diskqueue"]))
            topics["depth"].append(rng.randrange(5))
            topics["waiting"].append(topics["depth"][-1] + sum(channels["depth"][mine]))
            for name in ("in_flight", "deferred", "clients"):
                topics[name].append(sum(channels[name][mine]))
            topics["disk_bytes"].append(rng.randrange(1 << 33))
            self._count(topics, topic, "", "messages", messages)
            self._count(topics, topic, "", "message_bytes", messages * rng.randrange(1000))
            for name in COUNTERS[2:]:
                self._count(topics, topic, "", name, sum(channels[name][mine]))
        self._sequence += 1
        is_other = ":" in self._node
        return {
            "node": self._node,
            "taken_ms": taken_ms,
            "started_ms": self._started_ms,
            "sequence": self._sequence,
            "engine": None if is_other else {"connections": 3, "rss_bytes": 1 << 27, "cpu_ms": 17},
            "log": None,
            "disk": None if is_other else {"free_bytes": 1 << 40, "total_bytes": 1 << 41},
            "topics": dict(topics),
            "channels": dict(channels),
        }

    def _add_channel(self, columns: dict[str, list[Any]], topic: str, channel: str, taken_ms: int, came: int) -> None:
        rng = self._rng
        columns["topic"].append(topic)
        columns["channel"].append(channel)
        for name in ("depth", "in_flight", "deferred", "clients"):
            columns[name].append(rng.randrange(100))
        columns["disk_bytes"].append(rng.randrange(1 << 30))
        columns["paused"].append(int(rng.random() < 0.2))
        columns["oldest_age_ms"].append(rng.choice([None, rng.randrange(100_000)]))
        latencies = [rng.lognormvariate(1.5, 1.2) for _ in range(rng.randrange(self._finished_max + 1))]
        self.latencies_ms[_minute(taken_ms), self._node, topic, channel] += latencies
        buckets = Counter(max(0, math.ceil(math.log(one / 0.1) / math.log(1.04))) for one in latencies)
        columns["latency"].append([part for pair in sorted(buckets.items()) for part in pair])
        self._count(columns, topic, channel, "messages", came)
        self._count(columns, topic, channel, "finished", len(latencies))
        for name in COUNTERS[3:]:
            self._count(columns, topic, channel, name, rng.choice([0, 0, rng.randrange(5)]))

    def _count(self, columns: dict[str, list[Any]], topic: str, channel: str, name: str, growth: int) -> None:
        self._totals[topic, channel, name] += growth
        columns[name].append(growth)
        columns[f"{name}_total"].append(self._totals[topic, channel, name])


def body_of(sample: Sample) -> bytes:
    """The body of the message that a sample is written as."""
    return b"PSMP\x01" + zlib.compress(orjson.dumps(sample), 1)


def minutes_of(samples: Iterable[Sample]) -> dict[Key, Row]:
    """The rows of minutes that these samples make, computed once more without columns, batches or Spark."""
    windows: defaultdict[Key, list[Row]] = defaultdict(list)
    for sample in sorted(samples, key=lambda one: (one["taken_ms"], one["sequence"])):
        for (topic, channel), row in _things_of(sample).items():
            windows[_minute(sample["taken_ms"]), sample["node"], topic, channel].append(row)
    return {key: _minute_row(key, rows) for key, rows in windows.items()}


def hours_of(minutes: dict[Key, Row]) -> dict[Key, Row]:
    """The rows of hours that these rows of minutes make."""
    windows: defaultdict[Key, list[Row]] = defaultdict(list)
    for (t, node, topic, channel), row in sorted(minutes.items()):
        windows[t // 3600 * 3600, node, topic, channel].append(row)
    hours = {}
    for key, rows in windows.items():
        hour = _keys_of(key) | {"samples": sum(row["samples"] for row in rows)}
        for name in GAUGES:
            measured = [row for row in rows if row[f"{name}_avg"] is not None]
            weight = sum(row["samples"] for row in measured)
            total = sum(row[f"{name}_avg"] * row["samples"] for row in measured)
            hour[f"{name}_min"] = min((row[f"{name}_min"] for row in measured), default=None)
            hour[f"{name}_max"] = max((row[f"{name}_max"] for row in measured), default=None)
            hour[f"{name}_avg"] = total / weight if weight else None
            hour[f"{name}_last"] = rows[-1][f"{name}_last"]
        for name in (*COUNTERS, "paused_samples"):
            hour[name] = sum(row[name] for row in rows)
        hour["latency"] = _sum_latency(row["latency"] for row in rows)
        hours[key] = hour
    return hours


def _things_of(sample: Sample) -> dict[tuple[str, str], Row]:
    """(topic, channel) → values at that moment; totals and topics get from channels what only these measure."""
    things: dict[tuple[str, str], Row] = {}
    topics, channels = sample["topics"], sample["channels"]
    for at, topic in enumerate(topics["topic"]):
        things[topic, ""] = {name: topics[name][at] for name in (*GAUGES[:-1], *COUNTERS)}
        things[topic, ""] |= {"oldest_age_ms": None, "paused": 0, "latency": []}
    totals: Row = {name: sum(row[name] for row in things.values()) for name in (*GAUGES[:-1], *COUNTERS)}
    totals |= {"oldest_age_ms": None, "paused": 0, "latency": []}
    for at, topic in enumerate(channels["topic"]):
        row: Row = {name: channels[name][at] for name in channels if not name.endswith("_total")}
        row |= {"waiting": row["depth"], "message_bytes": 0}
        row["latency"] = list(zip(row["latency"][::2], row["latency"][1::2], strict=True))
        things[topic, channels["channel"][at]] = row
        for above in (totals, things[topic, ""]):
            above["latency"] = above["latency"] + row["latency"]
            if row["oldest_age_ms"] is not None:
                above["oldest_age_ms"] = max(above["oldest_age_ms"] or 0, row["oldest_age_ms"])
    things["", ""] = totals
    return things


def _minute_row(key: Key, rows: list[Row]) -> Row:
    minute = _keys_of(key) | {"samples": len(rows)}
    for name in GAUGES:
        measured = [row[name] for row in rows if row[name] is not None]
        minute[f"{name}_min"] = float(min(measured)) if measured else None
        minute[f"{name}_max"] = float(max(measured)) if measured else None
        minute[f"{name}_avg"] = sum(measured) / len(measured) if measured else None
        minute[f"{name}_last"] = None if rows[-1][name] is None else float(rows[-1][name])
    for name in COUNTERS:
        minute[name] = sum(row[name] for row in rows)
    minute["paused_samples"] = sum(row["paused"] for row in rows)
    minute["latency"] = _sum_latency(row["latency"] for row in rows)
    return minute


def _sum_latency(lists: Iterable[Iterable[tuple[int, int]]]) -> list[tuple[int, int]]:
    total: Counter[int] = Counter()
    for pairs in lists:
        for bucket, count in pairs:
            total[bucket] += count
    return sorted(total.items())


def _keys_of(key: Key) -> Row:
    return dict(zip(("t", "node", "topic", "channel"), key, strict=True))


def _minute(taken_ms: int) -> int:
    return taken_ms // 60_000 * 60
