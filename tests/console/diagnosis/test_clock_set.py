"""A clock that was set is a state of the engine for an hour, and heads the overview while nothing is graver."""

import pytest

from admin_console.diagnosis import clock_set
from admin_console.hub.hub import Hub
from admin_console.screens.diagnosis import overview_banner
from admin_console.vocabulary.roles import Role
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.steady_time import ClockJump
from tests.support.pages.snapshots import START_S, snapshot

HOUR_MS = 3_600_000


@pytest.mark.parametrize(("step_ms", "words"), [(2 * HOUR_MS, "forward by about 2 h"), (-90_000, "back by about 90 s")])
def test_the_overview_says_by_how_much_and_what_it_means(step_ms: int, words: str) -> None:
    hub = Hub()
    hub.write(snapshot(second=START_S, clock_jump=ClockJump(step_ms, 0)))
    assert hub.live is not None
    banner = overview_banner(hub.live, [], 0, Role.ADMIN)
    assert banner is not None
    assert banner.title == f"The server's clock was set {words}."
    assert "they end at another time than their pages show" in banner.text


def test_it_stands_there_for_an_hour() -> None:
    jump = ClockJump(HOUR_MS, 5 * NS_PER_S)
    at_last, later = (
        snapshot(second=START_S, clock_jump=jump, monotonic_ns=5 * NS_PER_S + clock_set.SHOWN_NS + more)
        for more in (0, 1)
    )
    assert clock_set.find_broker(at_last) is not None
    assert clock_set.find_broker(later) is None
    assert clock_set.find_broker(snapshot(second=START_S)) is None
