"""Long answers on the loop: slices, and a share of the loop's time, with clocks of the test's own."""

import asyncio
from collections.abc import Generator

import pytest

from queue_engine.service.http.exchange import paced_steps
from queue_engine.service.http.exchange.paced_steps import (
    BURST_NS,
    CALM_NS,
    CALM_SLICE_NS,
    SHARE,
    SLICE_NS,
    WAY_NS,
    WAYS_MAX,
    PacedSteps,
)
from tests.support.clock import ManualClock

STEP_NS = SLICE_NS // 4


class Pauses:
    """The loop, as far as `PacedSteps` uses it: time passes where it pauses."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.due: list[object] = []
        self.slices = 0
        self.paused_s = 0.0

    def call_soon(self, call: object) -> None:
        self.due.append(call)

    def call_later(self, delay_s: float, call: object) -> None:
        self.paused_s += delay_s
        self._clock.advance(ns=round(delay_s * 1e9))
        self.due.append(call)

    def run(self) -> None:
        while self.due:
            self.slices += 1
            self.due.pop(0)()  # type: ignore[operator]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def loop(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Pauses:
    pauses = Pauses(clock)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: pauses)
    return pauses


def work(clock: ManualClock, took_ns: int, result: str = "") -> Generator[None, None, str]:
    for _ in range(took_ns // STEP_NS):
        clock.advance(ns=STEP_NS)
        yield
    return result


def test_one_answer_is_made_without_a_pause_in_slices(clock: ManualClock, loop: Pauses) -> None:
    steps, made = PacedSteps(now_ns=clock.monotonic_ns, cpu_ns=clock.monotonic_ns), []
    steps.add(work(clock, BURST_NS // 2, "it"), made.append, pytest.fail)
    loop.run()
    assert made == ["it"]
    assert loop.paused_s == 0
    assert loop.slices == BURST_NS // 2 // SLICE_NS + 1  # sending it is one


def test_who_reads_without_pause_gets_a_share_of_the_time(clock: ManualClock, loop: Pauses) -> None:
    steps, made = PacedSteps(now_ns=clock.monotonic_ns, cpu_ns=clock.monotonic_ns), []
    began_ns, count, took_ns = clock.monotonic_ns(), 100, BURST_NS // 2
    for _ in range(count):
        steps.add(work(clock, took_ns, "it"), made.append, pytest.fail)
        loop.run()
    assert made == ["it"] * count
    passed_ns = clock.monotonic_ns() - began_ns
    assert count * took_ns <= passed_ns * SHARE * 1.05 + BURST_NS


def test_after_a_rest_an_answer_is_made_at_once_again(clock: ManualClock, loop: Pauses) -> None:
    steps = PacedSteps(now_ns=clock.monotonic_ns, cpu_ns=clock.monotonic_ns)
    steps.add(work(clock, 3 * BURST_NS), lambda _: None, pytest.fail)
    loop.run()
    assert loop.paused_s > 0
    loop.paused_s = 0
    clock.advance(ns=round(2 * BURST_NS / SHARE))
    steps.add(work(clock, BURST_NS // 2), lambda _: None, pytest.fail)
    loop.run()
    assert loop.paused_s == 0


class Turns:
    """When the engine worked last, as the loop notes it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.worked_at_ns = clock.monotonic_ns()

    def __call__(self) -> int:
        return self.worked_at_ns

    def note(self) -> None:
        self.worked_at_ns = self._clock.monotonic_ns()


def test_while_nothing_else_works_an_answer_of_any_length_is_made_at_once(clock: ManualClock, loop: Pauses) -> None:
    turns, made = Turns(clock), []
    steps = PacedSteps(worked_at_ns=turns, now_ns=clock.monotonic_ns, cpu_ns=clock.monotonic_ns)
    clock.advance(ns=CALM_NS)
    steps.add(work(clock, 10 * BURST_NS, "it"), made.append, pytest.fail)
    loop.run()
    assert made == ["it"]
    assert loop.paused_s == 0
    assert loop.slices == 10 * BURST_NS // CALM_SLICE_NS + 1


def test_a_message_beside_a_long_answer_makes_it_pause_from_the_next_slice_on(clock: ManualClock, loop: Pauses) -> None:
    turns = Turns(clock)
    steps = PacedSteps(worked_at_ns=turns, now_ns=clock.monotonic_ns, cpu_ns=clock.monotonic_ns)
    clock.advance(ns=CALM_NS)
    steps.add(work(clock, 10 * BURST_NS), lambda _: None, pytest.fail)
    for _ in range(2 * BURST_NS // SLICE_NS):
        loop.due.pop(0)()  # type: ignore[operator]
    assert loop.paused_s == 0
    slices, began_ns = 20, clock.monotonic_ns()
    for at in range(slices):
        turns.note()
        clock.advance(ns=WAY_NS)  # it is through
        loop.due.pop(0)()  # type: ignore[operator]
        assert at > 0 or loop.paused_s > 0
    # The share alone, from the first pause on: what was made at once is not paid back.
    assert clock.monotonic_ns() - began_ns == pytest.approx(slices * SLICE_NS / SHARE, rel=0.15)


def test_a_slice_lets_a_message_through_but_not_without_end(clock: ManualClock, loop: Pauses) -> None:
    turns, made = Turns(clock), []
    steps = PacedSteps(worked_at_ns=turns, now_ns=clock.monotonic_ns, cpu_ns=clock.monotonic_ns)

    def one_step() -> Generator[None, None, str]:
        made.append("a step")
        yield
        return "it"

    turns.note()
    steps.add(one_step(), made.append, pytest.fail)
    for ways in range(1, WAYS_MAX + 1):
        assert made == []
        assert loop.paused_s == pytest.approx(ways * WAY_NS / 1e9)
        turns.note()
        loop.due.pop(0)()  # type: ignore[operator]
    assert made == ["a step", "it"]
    clock.advance(ns=WAY_NS)
    loop.run()
    assert made == ["a step", "it"]
    assert loop.paused_s == pytest.approx(WAYS_MAX * WAY_NS / 1e9)


def test_a_while_after_the_last_message_a_long_answer_goes_on_at_once(clock: ManualClock, loop: Pauses) -> None:
    turns = Turns(clock)
    steps = PacedSteps(worked_at_ns=turns, now_ns=clock.monotonic_ns, cpu_ns=clock.monotonic_ns)
    turns.note()
    steps.add(work(clock, 100 * BURST_NS), lambda _: None, pytest.fail)
    loop.run()
    assert 0 < loop.paused_s * 1e9 <= CALM_NS


def test_a_work_that_fails_stops_none_behind_it(
    clock: ManualClock, loop: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    def failing() -> Generator[None, None, str]:
        yield
        raise ValueError("on purpose")

    def refusing(_: str) -> None:
        raise ValueError("on purpose, too")

    steps, told = PacedSteps(now_ns=clock.monotonic_ns, cpu_ns=clock.monotonic_ns), []
    steps.add(work(clock, SLICE_NS * 2), refusing, lambda: told.append("first"))
    steps.add(failing(), told.append, lambda: told.append("second"))
    steps.add(work(clock, SLICE_NS, "third"), told.append, pytest.fail)
    assert len(steps) == 3
    loop.run()
    assert told == ["first", "second", "third"]
    assert len(steps) == 0
    assert paced_steps.__name__ in caplog.text
