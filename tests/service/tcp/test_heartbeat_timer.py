"""Heartbeats come at most 10 ms late and keep their times, with one timer of the loop for all connections.

The loop's time is made by hand, too: a timer goes off when the test lets so much time go by.
"""

import asyncio
from collections.abc import Callable

import pytest

from queue_engine.service.tcp.heartbeat import Heartbeat
from queue_engine.service.tcp.heartbeat_timer import SLICE, HeartbeatTimer
from queue_engine.vocabulary.clock import NS_PER_MS
from tests.support.clock import ManualClock

LATE_MS_MAX = 10


class Timers:
    """In the place of `call_later`: what is armed, and how often something went off."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.armed: dict[asyncio.TimerHandle, int] = {}
        self.fired = 0

    def call_later(self, delay_s: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        handle = asyncio.TimerHandle(loop.time(), action, (), loop)
        # As uvloop: whole milliseconds.
        self.armed[handle] = self.clock.monotonic_ns() + round(delay_s * 1_000) * NS_PER_MS
        return handle

    def advance(self, ms: int) -> None:
        """Let time go by in steps of a millisecond."""
        for _ in range(ms):
            self.clock.advance(ms=1)
            while due := [one for one, at_ns in self.armed.items() if at_ns <= self.clock.monotonic_ns()]:
                del self.armed[due[0]]
                if not due[0].cancelled():
                    self.fired += 1
                    due[0]._run()

    @property
    def left(self) -> int:
        return sum(not one.cancelled() for one in self.armed)


class Client:
    """Writes down when it got its heartbeats."""

    def __init__(self, clock: ManualClock, timer: HeartbeatTimer, interval_ms: int) -> None:
        self.clock = clock
        self.heartbeat = Heartbeat()
        self.heartbeat.begin(interval_ms, clock.monotonic_ns())
        self.began_ns = clock.monotonic_ns()
        self.sent_at_ms: list[float] = []
        self.errors: list[Exception] = []
        self.fails = False
        timer.set(self, self.heartbeat.due_ns)

    def beat(self, now_ns: int) -> int:
        if self.fails:
            raise RuntimeError("broken")
        if self.heartbeat.is_due(now_ns, now_ns):
            self.sent_at_ms.append((now_ns - self.began_ns) / NS_PER_MS)
        return self.heartbeat.due_ns

    def fail(self, error: Exception) -> None:
        self.errors.append(error)


@pytest.fixture
async def timers() -> Timers:
    return Timers(ManualClock())


@pytest.fixture
async def timer(timers: Timers) -> HeartbeatTimer:
    return HeartbeatTimer(timers.clock, timers.call_later)


async def test_heartbeats_keep_their_times_over_a_hundred_intervals(timers: Timers, timer: HeartbeatTimer) -> None:
    timers.clock.advance(ns=1_234_567)
    clients = [Client(timers.clock, timer, 1_000) for _ in range(3)]
    timers.advance(100_000)
    for client in clients:
        late_ms = [at_ms - 1_000 * number for number, at_ms in enumerate(client.sent_at_ms, 1)]
        assert len(late_ms) in (99, 100)
        assert 0 <= min(late_ms) <= max(late_ms) < LATE_MS_MAX


async def test_connections_of_the_same_moment_share_a_timer(timers: Timers, timer: HeartbeatTimer) -> None:
    clients = []
    for _ in range(SLICE):
        timers.clock.advance(ns=20_000)  # all within two milliseconds
        clients.append(Client(timers.clock, timer, 1_000))
    assert timers.left == 1
    timers.advance(10_000)
    assert all(len(client.sent_at_ms) in (9, 10) for client in clients)
    assert timers.fired <= 2 * 10 + 1
    assert timers.left == 1


async def test_many_that_are_due_leave_the_loop_room_between_them(timers: Timers, timer: HeartbeatTimer) -> None:
    clients = [Client(timers.clock, timer, 1_000) for _ in range(5 * SLICE)]
    timers.advance(1_010)
    assert [len(client.sent_at_ms) for client in clients] == [1] * len(clients)
    assert timers.fired >= 5


async def test_a_connection_that_ends_or_changes_its_interval_is_not_called_at_the_old_time(
    timers: Timers, timer: HeartbeatTimer
) -> None:
    gone, changed, off = (Client(timers.clock, timer, 1_000) for _ in range(3))
    timers.advance(500)
    timer.set(gone, 0)
    changed.heartbeat.begin(2_000, timers.clock.monotonic_ns())
    timer.set(changed, changed.heartbeat.due_ns)
    off.heartbeat.begin(0, timers.clock.monotonic_ns())
    timer.set(off, off.heartbeat.due_ns)
    timers.advance(2_100)
    assert (gone.sent_at_ms, off.sent_at_ms) == ([], [])
    assert [at_ms // LATE_MS_MAX for at_ms in changed.sent_at_ms] == [250]


async def test_a_shorter_interval_comes_before_a_timer_that_is_armed(timers: Timers, timer: HeartbeatTimer) -> None:
    Client(timers.clock, timer, 60_000)
    quick = Client(timers.clock, timer, 1_000)
    timers.advance(1_010)
    assert len(quick.sent_at_ms) == 1


async def test_a_loop_that_stalls_leaves_out_what_it_missed(timers: Timers, timer: HeartbeatTimer) -> None:
    client = Client(timers.clock, timer, 1_000)
    timers.clock.advance(ms=3_500)
    timers.advance(600)
    assert [at_ms // LATE_MS_MAX for at_ms in client.sent_at_ms] == [350, 400]


async def test_one_that_fails_costs_the_others_nothing(timers: Timers, timer: HeartbeatTimer) -> None:
    broken, sound = Client(timers.clock, timer, 1_000), Client(timers.clock, timer, 1_000)
    broken.fails = True
    timers.advance(2_010)
    assert [str(error) for error in broken.errors] == ["broken"]
    assert len(sound.sent_at_ms) == 2
