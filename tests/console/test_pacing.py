"""Requests take turns at the interpreter: one at a time, at most half of it in all, and nobody waits for who waits."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.http import HttpResponse
from django.test import Client

from admin_console.pacing import pace, request_queue
from admin_console.pacing.pace import PACE, EngineLoad
from admin_console.pacing.request_queue import Clocks, RequestQueue, TurnTimeoutError, thread_cpu_s
from tests.support.pages.console import console_engine
from tests.support.waiting import wait_for

PATIENCE_S = 30.0


class Computed:
    """Clocks on which a request has computed as long as a test says; the time of the day is real."""

    def __init__(self) -> None:
        self.thread_s = self.main_s = 0.0

    @property
    def clocks(self) -> Clocks:
        return Clocks(time.monotonic, lambda: self.thread_s, lambda: self.main_s)


def in_thread(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def take_turn(kind: RequestQueue) -> None:
    with kind.turn():
        pass


@pytest.mark.slow(reason="waits for the better part of a second")
def test_four_that_compute_without_pause_have_half_of_the_interpreter() -> None:
    kind = RequestQueue(share=0.5)
    computed_s = [0.0] * 4
    until_s = time.monotonic() + 0.6

    def compute(number: int) -> None:
        while time.monotonic() < until_s or not computed_s[number]:
            with kind.turn():
                begun_s = thread_cpu_s()
                while thread_cpu_s() - begun_s < 0.005:
                    pass
                computed_s[number] += thread_cpu_s() - begun_s

    began_s = time.monotonic()
    threads = [in_thread(lambda number=number: compute(number)) for number in range(4)]
    for thread in threads:
        thread.join(PATIENCE_S)
    elapsed_s = time.monotonic() - began_s
    assert sum(computed_s) <= 0.55 * elapsed_s
    assert min(computed_s) > 0, "each has its turn"


@pytest.mark.parametrize(("share", "pause_s"), [(0.5, 0.02), (0.25, 0.06)])
def test_a_turn_is_followed_by_a_pause_for_the_share(share: float, pause_s: float) -> None:
    computed = Computed()
    kind = RequestQueue(share=share, clocks=computed.clocks)
    with kind.turn():
        computed.thread_s += 0.02
        began_s = time.monotonic()
    take_turn(kind)
    assert time.monotonic() - began_s >= pause_s * 0.9


def test_what_the_main_thread_did_for_a_request_counts_and_no_more_than_that() -> None:
    computed = Computed()
    kind = RequestQueue(share=0.5, clocks=computed.clocks)
    with kind.turn():
        computed.thread_s += 0.02
        computed.main_s += 3600.0
        began_s = time.monotonic()
    take_turn(kind)
    assert 0.036 <= time.monotonic() - began_s < PATIENCE_S


def test_who_computes_nothing_is_followed_by_no_pause() -> None:
    kind = RequestQueue(share=0.5, clocks=Computed().clocks)
    for _ in range(100):
        with kind.turn():
            pass
    assert kind._pause_ends_s <= time.monotonic()


def test_no_pause_follows_while_the_engine_is_idle() -> None:
    computed = Computed()
    kind = RequestQueue(share=0.001, is_engine_busy=lambda: False, clocks=computed.clocks)
    with kind.turn():
        computed.thread_s += 3600.0
    assert kind._pause_ends_s <= time.monotonic()


def test_engine_is_busy_for_a_second_after_it_has_computed_a_twentieth_of_the_time() -> None:
    now_s = cpu_s = 1000.0
    load = EngineLoad(lambda: cpu_s, lambda: now_s)
    answers = []
    for elapsed_s, computed_s in ((1.0, 0.01), (0.1, 0.02), (0.9, 0.0), (0.2, 0.0), (0.01, 0.01), (0.05, 0.0)):
        now_s, cpu_s = now_s + elapsed_s, cpu_s + computed_s
        answers.append(load.is_busy())
    assert answers == [False, True, True, False, False, True]


def test_runner_tells_what_the_engine_computes(tmp_path: Path) -> None:
    with console_engine(tmp_path) as runner:
        before_s = runner.cpu_s()
        wait_for("the engine to compute", lambda: bool(runner.calls.stats().result(10)) and runner.cpu_s() > before_s)
    assert runner.cpu_s() == 0.0


def test_one_at_a_time_in_the_order_of_their_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_queue, "ALONE_S_MAX", PATIENCE_S)
    kind = RequestQueue(share=0.5, clocks=Computed().clocks)
    order: list[int] = []
    threads = []
    with kind.turn():
        for number in range(5):

            def run(number: int = number) -> None:
                with kind.turn():
                    order.append(number)

            threads.append(in_thread(run))
            wait_for("it to queue up", lambda: len(kind._queue) == number + 1)  # noqa: B023
        assert order == []
    for thread in threads:
        thread.join(PATIENCE_S)
    assert order == [0, 1, 2, 3, 4]


def test_others_go_on_while_one_waits_for_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_queue, "ALONE_S_MAX", PATIENCE_S)
    kind = RequestQueue(share=0.5, clocks=Computed().clocks)
    with kind.turn(), kind.away():
        with kind.turn(timeout_s=PATIENCE_S):
            pass
        thread = in_thread(lambda: take_turn(kind))
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert kind._running == []


def test_one_that_hangs_holds_up_the_others_for_a_moment() -> None:
    kind = RequestQueue(share=0.5, clocks=Computed().clocks)
    with kind.turn():
        thread = in_thread(lambda: take_turn(kind))
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_turn_that_does_not_come_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_queue, "ALONE_S_MAX", PATIENCE_S)
    kind = RequestQueue(share=0.5, clocks=Computed().clocks)
    raised: list[Exception] = []

    def give_up() -> None:
        try:
            with kind.turn(timeout_s=0.01):
                pass
        except TurnTimeoutError as exc:
            raised.append(exc)

    with kind.turn():
        in_thread(give_up).join(PATIENCE_S)
    assert len(raised) == 1
    assert not kind._queue
    began_s = time.monotonic()
    take_turn(kind)
    assert time.monotonic() - began_s < PATIENCE_S


@pytest.mark.django_db
def test_log_ins_beyond_their_share_are_told_to_try_again_and_pages_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PACE, "is_on", True)
    monkeypatch.setattr(request_queue, "ALONE_S_MAX", PATIENCE_S)
    monkeypatch.setattr(pace, "LOG_IN_WAIT_S_MAX", 0.01)
    answers: list[HttpResponse] = []

    def ask() -> None:
        answers.extend(Client().get(path) for path in ("/login/", "/static/theme.js"))

    with PACE._log_ins.turn():
        in_thread(ask).join(PATIENCE_S)
    for answer in answers:
        answer.close()
    assert [answer.status_code for answer in answers] == [503, 200]
    assert all("Content-Security-Policy" in answer for answer in answers), "refusals carry the headers, too"
