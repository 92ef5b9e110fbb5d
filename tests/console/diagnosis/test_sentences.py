"""The sentences of a finding are made when a page shows them, of the figures of the finding's own second."""

from copy import copy

from admin_console.diagnosis.finding import WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.findings import find_all
from admin_console.diagnosis.states import advance
from admin_console.diagnosis.vitals import Vitals, take_vitals
from admin_console.hub.hub import Hub
from tests.support.pages.snapshots import START_S, channel, failures, snapshot, topic

SWINGS = FindingKind("swings", ends_after_s=10)


def made(told: list[str], title: str) -> Finding:
    def say() -> Sentences:
        told.append(title)
        return Sentences("chip", title, "text")

    return Finding(SWINGS, WARNING, say)


def test_what_no_page_shows_is_not_put_into_words() -> None:
    told: list[str] = []
    states = advance((), (made(told, "first"),), 0)
    states = advance(states, (made(told, "second"),), 1)
    assert told == []
    assert [state.finding.title for state in states] == ["second"]
    assert states[0].finding.chip == "chip"
    assert told == ["second"], "made once"


def test_a_finding_that_is_gone_keeps_its_words_and_no_figures() -> None:
    told: list[str] = []
    states = advance((), (made(told, "last"),), 0)
    states = advance(states, (), 1)
    assert (told, states[0].finding.is_settled) == (["last"], True)
    states = advance(states, (), 2)
    assert (told, states[0].finding.title) == (["last"], "last")


def vitals_of(hub: Hub, number: int) -> Vitals:
    """A channel with many findings, at this second: its rates and counts change all the time."""
    stats = channel(
        "orders",
        "billing",
        depth=1_000 + 2 * number * number,
        in_flight_count=20,
        deferred_count=3,
        client_count=2,
        ready_count=20,
        message_count=3 * number * number,
        finish_count=number * number,
        requeue_count=2 * number * number,
        timeout_count=number * number,
        oldest_ns=(START_S - 600) * 10**9,
        attempts_max=30,
        attempts_max_id="ab" * 8,
        failures=failures(requeued=9_000 + number, timed_out=6_000, by=2, share=0.8),
    )
    orders = topic("orders", stats)
    now = snapshot(orders, second=START_S + number)
    hub.write(now)
    return take_vitals(orders, stats, hub.rings["orders", "billing"], now)


def test_words_made_late_are_those_of_the_second_of_their_finding() -> None:
    hub = Hub()
    at_once, later = [], []
    # With a gap, and longer than the longest span.
    for number in (*range(70), *range(75, 100)):
        vitals = vitals_of(hub, number)
        later.append((find_all(copy(vitals)), copy(vitals)))
        at_once.append(([finding.settle() for finding in find_all(copy(vitals))], figures_of(copy(vitals))))
    assert len(at_once[-1][0]) >= 5
    assert at_once[-1][0] != at_once[-2][0]
    assert [([finding.settle() for finding in found], figures_of(vitals)) for found, vitals in later] == at_once


def figures_of(vitals: Vitals) -> tuple[float | None, ...]:
    counts = (vitals.timeouts_min, vitals.requeued_min, vitals.finished_min)
    return (vitals.growth_s, vitals.inflow_s, vitals.outflow_s, vitals.ended_recently, vitals.minute_s, *counts)
