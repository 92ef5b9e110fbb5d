"""How long messages took: by bucket, exact for each message whatever batches a run was made of."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.in_flight import InFlightTable
from queue_engine.delivery.latency import LatencyHistogram
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.latency.latency_buckets import BUCKET_MAX, bucket_of, value_ms_of
from queue_engine.vocabulary.message import frame
from queue_engine.vocabulary.run import Batch, Run, join_runs, run_of_stored
from tests.support.clock import ManualClock
from tests.support.engine import RecordingSink

DAY_NS = 86_400 * NS_PER_S


def test_a_bucket_ends_where_the_next_begins_and_each_is_four_percent_wider() -> None:
    ends = [
        max(ns for ns in (round(1e5 * 1.04**b) + d for d in (-2, -1, 0, 1)) if bucket_of(ns) == b) for b in range(200)
    ]
    assert ends[0] == 100_000
    assert bucket_of(-5 * NS_PER_S) == bucket_of(0) == bucket_of(1) == 0
    assert [bucket_of(end + 1) for end in ends] == list(range(1, 201))
    for end, following in pairwise(ends):
        assert following / end == pytest.approx(1.04, rel=1e-4)


def test_the_value_told_for_a_bucket_is_at_most_two_percent_off() -> None:
    rng = Random(4)
    for _ in range(2_000):
        latency_ns = round(10 ** rng.uniform(5.01, 17))
        shown_ms = value_ms_of(bucket_of(latency_ns))
        assert abs(shown_ms * NS_PER_MS / latency_ns - 1) <= 0.0201
    assert bucket_of(3_650 * DAY_NS) < BUCKET_MAX
    assert bucket_of(1 << 62) == BUCKET_MAX


def test_what_was_lent_does_not_change() -> None:
    histogram = LatencyHistogram(ManualClock().time_ns)
    histogram.note(0, 3)
    lent = histogram.lend()
    assert histogram.lend() is lent
    histogram.note(0, 2)
    histogram.note(NS_PER_S, 1)
    assert lent == {0: 3}
    assert histogram.lend() == {0: 5, bucket_of(NS_PER_S): 1}


class Flight:
    """One consumer's messages in flight, each known by its publish time."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.latency = LatencyHistogram(self.clock.time_ns)
        self.table = InFlightTable(self.latency, ByteBudget(1 << 20))
        sink = RecordingSink()
        self.consumer = Consumer(1, sink, msg_timeout_ns=60 * NS_PER_S, max_msg_timeout_ns=900 * NS_PER_S)
        self.published: dict[bytes, int] = {}
        self.expected: Counter[int] = Counter()

    def batch(self, count: int, *, age_ms: float) -> Run:
        """A run of `count` messages that were published so long ago, as one batch."""
        published_ns = self.clock.time_ns() - round(age_ms * NS_PER_MS)
        ids = [b"%016x" % (len(self.published) + at) for at in range(count)]
        self.published |= dict.fromkeys(ids, published_ns)
        return Batch(published_ns, ids, [b"body"] * count).run()

    def batches(self, *ages_ms: float, count: int = 10) -> Run:
        return join_runs([self.batch(count, age_ms=age_ms) for age_ms in ages_ms])

    def send(self, run: Run) -> Sequence[bytes]:
        self.table.add(self.consumer, run, self.clock.monotonic_ns())
        return run.ids

    def finish(self, ids: Sequence[bytes]) -> None:
        now_ns = self.clock.time_ns()
        self.expected.update(bucket_of(now_ns - self.published[one]) for one in ids)
        done, errors = self.table.finish(self.consumer, list(ids))
        assert (list(done), errors) == (list(ids), [])
        assert self.latency.lend() == self.expected


def test_a_run_of_one_batch_costs_one_entry_a_series() -> None:
    flight = Flight()
    ids = flight.send(flight.batch(100, age_ms=5))
    flight.finish(ids[:30])
    flight.clock.advance(ms=20)
    flight.finish(ids[30:])
    assert flight.expected == {bucket_of(5 * NS_PER_MS): 30, bucket_of(25 * NS_PER_MS): 70}


def test_a_run_of_several_batches_is_exact_in_order_out_of_order_and_one_by_one() -> None:
    flight = Flight()
    ids = flight.send(flight.batches(900, 30, 3, 2.9, 0.5))
    flight.finish(ids[:7])
    flight.finish(ids[7:25])  # on from there, over two batches' edges
    flight.finish([ids[44], ids[30], ids[26]])
    for one in (ids[25], ids[49]):
        flight.finish([one])
    flight.clock.advance(ms=1)
    flight.finish([one for one in reversed(ids) if one in flight.table])
    assert len(flight.table) == 0
    assert sum(flight.expected.values()) == 50
    assert len(flight.expected) > 4


def test_a_series_over_several_deliveries_is_exact_also_when_they_are_mixed() -> None:
    flight = Flight()
    first, second = flight.send(flight.batches(700, 7)), flight.send(flight.batches(800, 8, 0.2))
    third = flight.send(flight.batch(10, age_ms=70))
    flight.finish([*first[:15], *third[:5], *second])
    flight.finish([*third[5:8], first[19], third[8], first[15], first[17], third[9]])
    flight.finish([first[16], first[18]])
    assert len(flight.table) == 0


def test_all_of_old_batches_that_share_a_bucket_are_one_entry() -> None:
    flight = Flight()
    ids = flight.send(flight.batches(100_000, 99_990, 99_980))
    flight.finish([ids[29], ids[3]])
    flight.finish(ids[4:20])
    assert flight.expected == {bucket_of(100 * NS_PER_S): 18}


def test_what_was_touched_shed_or_named_twice_is_exact() -> None:
    flight = Flight()
    run = join_runs([flight.batch(50, age_ms=age_ms) for age_ms in (500, 50, 5)])
    ids = flight.send(run)
    for at in (0, 60, 149):
        flight.table.touch(flight.consumer, ids[at], flight.clock.monotonic_ns())
    flight.finish(ids[1:55])
    flight.finish([ids[149], ids[0]])
    flight.finish(ids[100:149])
    flight.table.shed()
    flight.finish(ids[55:58])
    flight.finish(ids[60:62])
    flight.expected[bucket_of(50 * NS_PER_MS)] += 1
    done, errors = flight.table.finish(flight.consumer, [ids[70], ids[70], b"0" * 16])
    assert (done, len(errors)) == ([ids[70]], 2)
    assert flight.latency.lend() == flight.expected


def test_times_are_read_from_the_frames_where_nobody_told_them() -> None:
    flight = Flight()
    told = flight.batches(900, 30, 3)
    selected = told.select([25, 3, 24, 11])
    assert selected.times().between(0, 4) == [(1, flight.published[one]) for one in selected.ids]
    untold = Run(told.frames, told.ids)
    for start, stop in ((0, 30), (0, 1), (9, 11), (10, 20), (5, 25), (29, 30)):
        assert untold.times().between(start, stop) == told.times().between(start, stop)
    assert told.times().between(5, 25) == [
        (5, flight.published[told.ids[0]]),
        (10, flight.published[told.ids[10]]),
        (5, flight.published[told.ids[20]]),
    ]
    assert join_runs([untold, selected]).times().between(25, 34) == [
        *told.times().between(25, 30),
        *selected.times().between(0, 4),
    ]


def test_stored_messages_bring_their_times() -> None:
    frames = [frame(time_ns, 1, b"%016x" % at, b"x") for at, time_ns in enumerate((5, 5, 9, 5))]
    run = run_of_stored([one[8:] for one in frames])
    assert run.times().between(0, 4) == [(2, 5), (1, 9), (1, 5)]
