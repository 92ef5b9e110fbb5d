"""Deliveries that consumers did not finish at other nodes, by the counters of their readings."""

from typing import Any

from queue_engine.delivery.stats import RecentFailures
from tests.cluster.test_merger import BILLING, Seconds, channel_of, orders
from tests.support.cluster_states import node
from tests.support.pages import snapshots
from tests.support.pages.snapshots import START_S

A, B = "nsq-a:4151", "nsq-b:4151"


class Readings:
    """Two nsqds that are read every ten seconds, and a tick a second. counts: of the channel at the first one."""

    def __init__(self, own: Any = None) -> None:
        self.seconds = Seconds()
        self._own = own
        self._read_at_ms = self.seconds.now_ms

    def read(self, **counts: int) -> None:
        """A reading of both, and the ticks until the next one."""
        self._read_at_ms = self.seconds.now_ms
        self._nodes = (
            node(A, orders(message_count=9_000, **counts), read_at_ms=self._read_at_ms),
            node(B, orders(message_count=50), read_at_ms=self._read_at_ms),
        )
        self.pass_s(10)

    def pass_s(self, seconds: int) -> None:
        for _ in range(seconds):
            own = snapshots.snapshot(self._own, second=self.seconds.second) if self._own is not None else None
            self.found = self.seconds.tick(*self._nodes, own=own)

    @property
    def failures(self) -> RecentFailures | None:
        return channel_of(self.found, *BILLING).failures


def test_timeouts_count_from_one_reading_for_a_minute() -> None:
    readings = Readings()
    readings.read(timeout_count=400)
    assert readings.failures is None, "counted before the first reading"
    readings.read(timeout_count=407)
    assert readings.failures == RecentFailures(0, 7, 0, None, None)
    readings.pass_s(49)
    assert readings.failures == RecentFailures(0, 7, 0, None, None)
    readings.pass_s(2)
    assert readings.failures is None


def test_requeues_count_from_the_second_reading_and_are_recent_until_the_next_ones_fail_to_come() -> None:
    readings = Readings()
    readings.read(requeue_count=100)
    readings.read(requeue_count=130)
    assert readings.failures is None, "an operator's requeue shows in one reading"
    readings.read(requeue_count=150)
    assert readings.failures == RecentFailures(50, 0, 50, None, None)
    readings.pass_s(10)
    assert readings.failures == RecentFailures(50, 0, 20, None, None)
    readings.pass_s(10)
    assert readings.failures == RecentFailures(50, 0, 0, None, None)


def test_they_come_beside_those_of_this_server_which_name_its_consumers() -> None:
    own = snapshots.failures(requeued=20, timed_out=3, by=2)
    readings = Readings(snapshots.topic("orders", snapshots.channel(*BILLING, failures=own)))
    for requeues in (0, 30, 40):
        readings.read(requeue_count=requeues, timeout_count=requeues)
    found = readings.failures
    assert found is not None
    assert (found.requeued, found.timed_out, found.requeued_recently) == (60, 43, 60)
    assert found.most_requeued == own.most_requeued


def test_a_node_that_restarts_or_a_channel_that_goes_adds_nothing() -> None:
    readings = Readings()
    readings.read(timeout_count=400)
    readings.read(timeout_count=401)
    readings.read(timeout_count=2)
    assert readings.failures == RecentFailures(0, 3, 0, None, None)
    readings._nodes = ()
    readings.pass_s(1)
    assert readings.found.merged.topics == ()
    assert readings.seconds.second > START_S
