"""How much the counters of a topic have grown between two readings of a node, and the growth of all nodes, spread over
the seconds of their periods."""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from operator import itemgetter, sub
from typing import NamedTuple

from admin_console.cluster.merging.merged import TOTAL, Counters, Growth, Key, TopicPlace, sum_of
from admin_console.cluster.merging.node_figures import (
    FINISHED_AT,
    MESSAGES_AT,
    REQUEUED_AT,
    TIMEOUTS_AT,
    TOPIC_MESSAGES_AT,
    Row,
)
from admin_console.cluster.reading.nodes import START_SLACK_MS

_NONE: Counters = (0, 0, 0, 0)
_counters = itemgetter(MESSAGES_AT, FINISHED_AT, TIMEOUTS_AT, REQUEUED_AT)
_EPSILON = 1e-6
_Rates = tuple[float, float, float, float]


def grown(before: TopicPlace | None, now: TopicPlace) -> dict[Key, Growth]:
    """Of a topic and its channels between two readings of a node; without `before` all that was counted. Both parts of
    a growth are the whole of it. A counter that fell has started again from 0: its topic or channel was deleted and
    made again. So have all of a node that was restarted; another process at its address that had been running before
    has counted what it did elsewhere. Where one of the answers lacks a count, what came in between is unknown, and no
    growth."""
    found: dict[Key, Growth] = {}
    if before is not None and before.started_s != now.started_s:
        if now.began_ms < before.read_at_ms - START_SLACK_MS:
            return found
        before = None
    published = now.row[TOPIC_MESSAGES_AT]
    was = before.row[TOPIC_MESSAGES_AT] if before is not None else 0
    unknown = {*now.lacking, *(before.lacking if before is not None else ())}
    rows = before.rows if before is not None else {}
    passed_on = 0
    for name, row in now.rows.items():
        old = rows.get(name)
        if old is row or name in unknown:
            continue
        left = now.flown(name)
        was_left = before.flown(name) if before is not None and old is not None else None
        growth = _of_channel(old, row, left, was_left or 0)
        if growth is not None:
            found[now.name, name] = growth
            passed_on = max(passed_on, growth.raw[0])
    counted = (0, 0, 0, 0) if "" in unknown else (_since(published, was), 0, 0, 0)
    if any(counted) or passed_on:
        found[now.name, ""] = Growth(counted, counted, passed_on)
    return found


def _of_channel(old: Row | None, row: Row, flown: int | None, was_flown: int) -> Growth | None:
    """flown: as `TopicPlace.flown`. Jumps of a depth are compared with it, since it may fall."""
    now: Counters = _counters(row)
    counted = now
    left = now[1] if flown is None else flown
    if old is not None and old[MESSAGES_AT] <= now[0]:
        was: Counters = _counters(old)
        counted = (now[0] - was[0], now[1] - was[1], now[2] - was[2], now[3] - was[3])
        if min(counted) < 0:
            counted = (counted[0], _since(now[1], was[1]), _since(now[2], was[2]), _since(now[3], was[3]))
        left = counted[1] if flown is None else flown - was_flown
    if counted == _NONE and not left:
        return None
    return Growth(counted if left == counted[1] else (counted[0], left, counted[2], counted[3]), counted)


def _since(now: int, before: int) -> int:
    return now - before if now >= before else now


class _Flow(NamedTuple):
    """Growth of one node that is being spread: at `rates` a tick, before the tick `end`."""

    rates: _Rates
    end: int


class GrowthLedger:
    """The growth of each second. Belongs to the merger.

    Readings do not come in step with the ticks. The growth of one is spread over a tick more than its period, and with
    it what is left of the reading before: one that comes a tick late leaves no gap, one that comes early no peak. What
    is left goes on over as many ticks as it had, or three quarters of many: a node that is read more often from now on
    catches up."""

    def __init__(self) -> None:
        self._tick = 0
        self._raw: dict[Key, Counters] = {}
        self._passed_on: dict[Key, int] = {}
        self._rates: dict[Key, _Rates] = {}  # a tick, of growth that is being spread
        self._spreads: dict[Key, int] = {}  # how many parts a rate has
        self._flows: dict[tuple[Hashable, Key], _Flow] = {}
        self._ends: defaultdict[int, list[tuple[Hashable, Key]]] = defaultdict(list)
        self._rest: dict[Key, _Rates] = {}  # due, and less than a whole message

    def add(self, found: Mapping[Key, Growth], node: Hashable, ticks: int, share: float = 1.0) -> None:
        """Note the growth of a reading. node: None for this server, whose readings are the ticks. ticks: since the
        reading before. share: of it that counts."""
        for key, (raw, counted, passed_on) in found.items():
            before = self._raw.get(key)
            self._raw[key] = raw if before is None else sum_of(before, raw)
            if passed_on:
                self._passed_on[key] = self._passed_on.get(key, 0) + passed_on
            amount: _Rates = (counted[0] * share, counted[1] * share, counted[2] * share, counted[3] * share)
            if node is None and ticks == 1:
                _increase(self._rest, key, amount)
                continue
            left = 1
            flow = self._flows.pop((node, key), None)
            if flow is not None:
                left, rates = flow.end - self._tick, flow.rates
                amount = (
                    amount[0] + rates[0] * left,
                    amount[1] + rates[1] * left,
                    amount[2] + rates[2] * left,
                    amount[3] + rates[3] * left,
                )
                self._decrease(key, rates)
            count = ticks + left - left // 4
            end = self._tick + count
            one, two, three, four = amount
            rates = (one / count, two / count, three / count, four / count)
            self._flows[node, key] = _Flow(rates, end)
            self._ends[end].append((node, key))
            _increase(self._rates, key, rates)
            self._spreads[key] = self._spreads.get(key, 0) + 1

    def take(self) -> dict[Key, Growth]:
        """The growth of this tick, by topic and channel; of a topic with that of its channels. The next one begins."""
        spread = self._spread()
        raw, self._raw = self._raw, {}
        passed_on, self._passed_on = self._passed_on, {}
        self._tick += 1
        for at in self._ends.pop(self._tick, ()):
            flow = self._flows.get(at)
            if flow is not None and flow.end == self._tick:  # else a later reading goes on with it
                del self._flows[at]
                self._decrease(at[1], flow.rates)
        raw, spread = _with_sums(raw), _with_sums(spread)
        keys = raw.keys() | spread.keys()
        return {key: Growth(raw.get(key, _NONE), spread.get(key, _NONE), passed_on.get(key, 0)) for key in keys}

    def _decrease(self, key: Key, by: _Rates) -> None:
        self._spreads[key] -= 1
        if not self._spreads[key]:
            # By their number: sums of great and small rates lose the small ones, and leave a rest.
            del self._rates[key], self._spreads[key]
            return
        one, two, three, four = map(sub, self._rates[key], by)
        self._rates[key] = max(one, 0.0), max(two, 0.0), max(three, 0.0), max(four, 0.0)

    def _spread(self) -> dict[Key, Counters]:
        for key, rates in self._rates.items():
            _increase(self._rest, key, rates)
        spread: dict[Key, Counters] = {}
        for key, rest in list(self._rest.items()):
            if max(rest) >= 1 - _EPSILON:
                messages, finished, timeouts, requeued = [int(part + _EPSILON) for part in rest]
                spread[key] = whole = messages, finished, timeouts, requeued
                one, two, three, four = map(sub, rest, whole)
                self._rest[key] = one, two, three, four
            if key not in self._rates:
                del self._rest[key]
        return spread


def _increase(sums: dict[Key, _Rates], key: Key, by: _Rates) -> None:
    before = sums.get(key)
    if before is not None:
        by = (before[0] + by[0], before[1] + by[1], before[2] + by[2], before[3] + by[3])
    sums[key] = by


def _with_sums(found: Mapping[Key, Counters]) -> dict[Key, Counters]:
    """With a topic's sums of its channels, and those of all topics at TOTAL. Messages that came are counted at the
    topic: each of its channels gets the same ones."""
    sums = dict(found)
    total = _NONE
    for (topic, channel), counted in found.items():
        part = (0, counted[1], counted[2], counted[3]) if channel else counted
        total = sum_of(total, part)
        if channel:
            sums[topic, ""] = sum_of(sums.get((topic, ""), _NONE), part)
    if any(total):
        sums[TOTAL] = total
    return sums
