"""Each rule by itself: figures of a channel, the finding they give, and figures beside them that give none."""

from collections.abc import Callable
from typing import Any

import pytest

from admin_console.diagnosis import (
    backing_off,
    consumers_on_some,
    deferred,
    failing,
    falling_behind,
    fenced,
    held_back,
    no_consumers,
    old_messages,
    paused,
    poison,
    quarantined,
    refusing,
    saturated,
    stuck,
    timing_out,
    unreadable,
)
from admin_console.diagnosis.finding import CALM, DANGER, HELD, WARNING, Finding
from admin_console.diagnosis.findings import RANK, find_all
from admin_console.diagnosis.vitals import ConsumersApart, Vitals, take_vitals
from admin_console.hub.hub import Hub
from admin_console.vocabulary import units
from queue_engine.storage.quarantine_stats import QuarantineStats
from queue_engine.vocabulary.flow.pause import Ramp
from tests.support.pages.snapshots import START_S, channel, failures, snapshot, topic

Rule = Callable[[Vitals], Finding | None]
NEWEST = 70


def vitals(
    rates: dict[str, float] | None = None,
    *,
    topic_figures: dict[str, Any] | None = None,
    is_partial: bool = False,
    **now: Any,
) -> Vitals:
    """A channel that had these figures for seventy seconds. rates: what a count or a gauge changed by each second, up
    to its value now. Its failures came through the last minute. is_partial: another node of it is silent."""
    hub = Hub()
    for second in range(NEWEST + 1):
        figures = dict(now)
        if now.get("failures"):
            passed = max(0, second - NEWEST + 60) / 60
            figures["requeue_count"] = now.get("requeue_count", 0) + round(passed * now["failures"].requeued)
            figures["timeout_count"] = now.get("timeout_count", 0) + round(passed * now["failures"].timed_out)
        for name, rate in (rates or {}).items():
            figures[name] = max(0, round(now.get(name, 100_000) - rate * (NEWEST - second)))
        orders = topic("orders", channel("orders", "billing", **figures), **(topic_figures or {}))
        hub.write(snapshot(orders, second=START_S + second, monotonic_ns=0))
    assert hub.live is not None
    (orders,) = hub.live.snapshot.topics
    hub.rings["orders", "billing"].is_partial = is_partial
    return take_vitals(orders, orders.channels[0], hub.rings["orders", "billing"], hub.live.snapshot)


def old(seconds: int) -> int:
    return (START_S + NEWEST - seconds) * 10**9


DRAINS = {"depth": 100, "client_count": 2, "ready_count": 20, "in_flight_count": 5, "oldest_ns": old(5)}
AGELESS = DRAINS | {"oldest_ns": None}
HELD_20 = DRAINS | {"in_flight_count": 20}
FAILS = {"failures": failures(requeued=178, by=2, share=0.9), "requeue_count": 178}
POISON = {"attempts_max": 6, "attempts_max_id": "ab" * 8}


def apart(figures: Vitals) -> Vitals:
    """The same where its consumers are at some of its nodes."""
    figures.apart = ConsumersApart("2 of 3", "None on nsq-c:4151. 640 messages wait there.", "nsq-c:4151")
    return figures


def alone(repeated: int, requeued: int) -> dict[str, Any]:
    return {"failures": failures(requeued=requeued, repeated=repeated), **POISON}


# rule, figures that it finds, its level, a part of its title; then figures that it does not find.
CASES: dict[str, tuple[Rule, Vitals, int, str, list[Vitals]]] = {
    "fenced": (
        fenced.find,
        vitals(**DRAINS, fenced="delivering failed: a bug"),
        DANGER,
        "Fenced: something failed",
        [vitals(**DRAINS)],
    ),
    "unreadable place": (
        unreadable.find,
        vitals(**DRAINS, unreadable="segment 000012 at 4096: input/output error"),
        DANGER,
        "Not readable: the disk refuses",
        [vitals(**DRAINS)],
    ),
    "paused": (paused.find, vitals(**DRAINS, paused=True), HELD, "Paused", [vitals(**DRAINS)]),
    "resuming slowly": (
        paused.find_ramp,
        vitals(**DRAINS, ramp=Ramp(0, (START_S + NEWEST + 60) * 1000)),
        CALM,
        "Resuming slowly",
        [vitals(**DRAINS), vitals(**DRAINS, ramp=Ramp(0, START_S * 1000))],
    ),
    "topic paused": (
        paused.find_topic,
        vitals(**DRAINS, topic_figures={"paused": True}),
        HELD,
        "The topic orders is paused",
        [vitals(**DRAINS)],
    ),
    "publishes refused": (
        refusing.find,
        vitals(**DRAINS, topic_figures={"fenced": "appending failed"}),
        WARNING,
        "The topic orders is fenced: publishes to it are refused.",
        [vitals(**DRAINS)],
    ),
    "no consumers": (
        no_consumers.find,
        vitals(depth=5),
        WARNING,
        "no consumer is connected",
        [vitals(), vitals(**DRAINS), vitals(depth=5, paused=True)],
    ),
    "no consumers where it answers": (
        no_consumers.find,
        vitals(depth=5, is_partial=True),
        WARNING,
        "No consumer is connected to the nodes that answer.",
        [vitals(**DRAINS, is_partial=True), vitals(depth=5, paused=True, is_partial=True)],
    ),
    "consumers on some nodes": (
        consumers_on_some.find,
        apart(vitals(**DRAINS)),
        WARNING,
        "Consumers are connected to 2 of 3 nodes.",
        [vitals(**DRAINS), apart(vitals(**DRAINS, paused=True))],
    ),
    "all at RDY 0": (
        backing_off.find,
        vitals(**DRAINS | {"ready_count": 0, "in_flight_count": 0}),
        WARNING,
        "RDY is 0",
        [vitals(**DRAINS), vitals(depth=5), vitals(client_count=2)],
    ),
    "RDY 0 where it answers": (
        backing_off.find,
        vitals(**DRAINS | {"ready_count": 0, "oldest_ns": old(400)}, rates={"depth": 5}, is_partial=True),
        WARNING,
        "RDY is 0 on the nodes that answer.",
        [vitals(**DRAINS, is_partial=True), vitals(**DRAINS | {"ready_count": None}, is_partial=True)],
    ),
    "quarantined messages": (
        quarantined.find,
        vitals(**DRAINS, quarantined_count=2, quarantine=QuarantineStats(5, 2, 40, 1, reasons=(("timed out", 2),))),
        HELD,
        "2 messages are quarantined.",
        [vitals(**DRAINS), vitals(**DRAINS, quarantine=QuarantineStats(5))],
    ),
    "a full quarantine": (
        quarantined.find_full,
        vitals(**DRAINS, quarantine=QuarantineStats(5, 9, 40, 1, "9 messages are quarantined and the most is 9")),
        WARNING,
        "The quarantine is full",
        [vitals(**DRAINS), vitals(**DRAINS, quarantine=QuarantineStats(5, 9, 40, 1))],
    ),
    "held back": (
        held_back.find,
        vitals(**DRAINS, held_back="its deferred messages take too much memory"),
        WARNING,
        "a limit of memory",
        [vitals(**DRAINS)],
    ),
    "every consumer full, nothing moves": (
        saturated.find,
        vitals(**HELD_20),
        WARNING,
        "Every consumer is full, and none has ended a delivery in the last 15 s.",
        [vitals(**DRAINS), vitals({"finish_count": 1}, **HELD_20), vitals(**HELD_20 | {"depth": 0})],
    ),
    "every consumer full, falling behind": (
        saturated.find,
        vitals(
            {"finish_count": 10, "message_count": 20, "depth": 10}, **HELD_20 | {"depth": 900, "oldest_ns": old(90)}
        ),
        DANGER,
        "Every consumer is full: it holds",
        [vitals({"finish_count": 10, "message_count": 20, "depth": 10}, **HELD_20 | {"depth": 900})],
    ),
    "nothing ends": (
        stuck.find,
        vitals(**DRAINS | {"oldest_ns": old(90)}),
        WARNING,
        "2 consumers hold 5 messages and end none",
        [vitals(**DRAINS), vitals({"finish_count": 1}, **DRAINS | {"oldest_ns": old(90)})],
    ),
    "stuck on nodes without ages": (
        stuck.find,
        vitals({"message_count": 1}, **AGELESS),
        WARNING,
        "2 consumers hold 5 messages and end none",
        [
            vitals({"message_count": 2}, **AGELESS),
            vitals({"finish_count": 1}, **AGELESS),
            vitals(**AGELESS | {"depth": 99}),
        ],
    ),
    "failing": (
        failing.find,
        vitals(**DRAINS, **FAILS),
        DANGER,
        "178 requeued in the last minute, 90 % of them by worker-2; none was finished.",
        [
            vitals(**DRAINS),
            vitals(**DRAINS, failures=failures(requeued=4)),
            vitals({"finish_count": 100}, **DRAINS, **FAILS),
            vitals(**DRAINS, failures=failures(requeued=178, requeued_recently=0)),
            vitals(**DRAINS, requeue_count=178),
        ],
    ),
    "failing in part": (
        failing.find,
        vitals({"finish_count": 6}, **DRAINS, **FAILS),
        WARNING,
        "90 % of them by worker-2; 360 were finished.",
        [],
    ),
    "timeouts on one consumer": (
        timing_out.find,
        vitals(**DRAINS, timeout_count=500, failures=failures(timed_out=120, by=3, share=0.8)),
        DANGER,
        "100 % of the deliveries that ended in the last minute timed out: 80 % of them at worker-3.",
        [
            vitals(**DRAINS, timeout_count=500),
            vitals({"timeout_count": 1, "finish_count": 20}, **DRAINS, timeout_count=500),
        ],
    ),
    "one timeout each second among many that are finished": (
        timing_out.find,
        vitals({"finish_count": 40}, **DRAINS, timeout_count=500, failures=failures(timed_out=60)),
        WARNING,
        "2.4 % of the deliveries that ended in the last minute timed out",
        [vitals({"finish_count": 40}, **DRAINS, timeout_count=500, failures=failures(timed_out=59))],
    ),
    "a poison message that fails alone": (
        poison.find,
        vitals({"finish_count": 5}, **DRAINS, **alone(9, 10)),
        WARNING,
        f"Poison message: the message {'ab' * 8} was delivered 6 times and never finished.",
        [
            vitals(**DRAINS, **alone(4, 10)),
            vitals(**DRAINS, **alone(2, 2)),
            vitals(**DRAINS, **alone(9, 10) | {"attempts_max": 4}),
            vitals(**DRAINS, **POISON),
        ],
    ),
    "a poison message that stops everything": (
        poison.find,
        vitals(**DRAINS, **alone(50, 50)),
        DANGER,
        "Poison message",
        [],
    ),
    "a poison message of many attempts": (
        poison.find,
        vitals(**DRAINS, attempts_max=20, attempts_max_id="cd" * 8),
        WARNING,
        "was delivered 20 times",
        [vitals(**DRAINS, attempts_max=19, attempts_max_id="cd" * 8)],
    ),
    "inflow above outflow": (
        falling_behind.find,
        vitals(
            {"message_count": 18, "finish_count": 10, "depth": 8}, **DRAINS | {"depth": 9_000, "oldest_ns": old(20)}
        ),
        WARNING,
        "Falling behind: 1.8 times as many messages arrive as are finished.",
        [
            vitals({"message_count": 18, "finish_count": 10, "depth": 8}, **DRAINS | {"depth": 9_000}),
            # Without ages: a new message waits 14 s, and a channel of 99 messages has no backlog.
            vitals({"message_count": 63, "finish_count": 50, "depth": 13}, **AGELESS | {"depth": 700}),
            vitals({"message_count": 2, "finish_count": 1, "depth": 1}, **AGELESS | {"depth": 99}),
            vitals({"message_count": 11, "finish_count": 10, "depth": 1}, **DRAINS | {"oldest_ns": old(20)}),
            vitals({"message_count": 10, "finish_count": 18, "depth": -8}, **DRAINS | {"oldest_ns": old(20)}),
        ],
    ),
    "inflow above outflow for a minute": (
        falling_behind.find,
        vitals({"message_count": 11, "finish_count": 10, "depth": 1}, **DRAINS | {"depth": 900, "oldest_ns": old(61)}),
        DANGER,
        "Falling behind: 1.1 times as many messages arrive as are finished.",
        [],
    ),
    "inflow above outflow at nodes without ages": (
        falling_behind.find,
        vitals({"message_count": 18, "finish_count": 10, "depth": 8}, **AGELESS | {"depth": 9_000}),
        DANGER,
        "Falling behind: 1.8 times as many messages arrive as are finished.",
        [],
    ),
    "oldest message": (
        old_messages.find,
        vitals(**DRAINS | {"oldest_ns": old(301)}),
        WARNING,
        "The oldest message is over 5 minutes old.",
        [vitals(**DRAINS | {"oldest_ns": old(299)})],
    ),
    "deferred behind a due time": (
        deferred.find,
        vitals(deferred_count=3, next_due_ns=90 * 10**9, latest_due_ns=3_600 * 10**9),
        CALM,
        "Nothing is due yet: 3 messages are deferred, and nothing else is left.",
        [
            vitals(deferred_count=3, depth=1),
            vitals(deferred_count=3, in_flight_count=1),
            vitals(deferred_count=3, failures=failures(requeued=9)),
            vitals(),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_finds_what_it_is_for_and_nothing_beside_it(name: str) -> None:
    rule, figures, level, title, others = CASES[name]
    finding = rule(figures)
    assert finding is not None
    assert title in finding.title
    assert finding.level == level
    assert [found.title for other in others if (found := rule(other))] == []


def test_every_rule_has_a_case() -> None:
    found = {finding.kind for _, figures, *_ in CASES.values() for finding in find_all(figures)}
    assert RANK.keys() - found == set()


def test_a_paused_channel_is_only_paused() -> None:
    figures = vitals(
        {"depth": 9}, **HELD_20 | {"oldest_ns": old(900), "paused": True, "held_back": "memory"}, **FAILS, **POISON
    )
    assert [finding.kind for finding in find_all(figures)] == [paused.PAUSED]


def test_a_consumer_that_requeues_and_one_that_times_out_are_both_linked() -> None:
    figures = vitals({"timeout_count": 1, "requeue_count": 3}, **DRAINS | {"timeout_count": 99}, **FAILS)
    finding = failing.find(figures)
    assert finding is not None
    assert (finding.client_key, finding.client_name) == (2, "worker-2")
    assert poison.find(vitals(**DRAINS, **alone(9, 10))).message_id == "ab" * 8


def test_one_quarantined_message_is_no_they() -> None:
    one = QuarantineStats(0, 1, 40, 1, reasons=(("by an operator", 1),))
    finding = quarantined.find(vitals(**DRAINS, quarantined_count=1, quarantine=one))
    assert finding is not None
    assert finding.text.startswith("Why: 1 by an operator. It blocks no other message. Look at why it fails")


def test_a_nameless_consumer_is_named_by_its_address() -> None:
    nameless = failures(requeued=50).most_requeued
    assert nameless is not None
    by_address = type(nameless)(7, "", "10.0.0.7:4242", 50, 1)
    finding = failing.find(vitals(**DRAINS, failures=failures(requeued=50, most_requeued=by_address)))
    assert finding is not None
    assert "100 % of them by 10.0.0.7:4242" in finding.title


@pytest.mark.parametrize(
    ("due", "said"),
    [
        ((90, 3_600), "The next one is due in 1m 30s, the latest in 1h 00m."),
        ((90, 90), "The next one is due in 1m 30s. A"),
        ((90, 90.4), "They are due in 1m 30s. A"),
        ((-1, 60), "The next one is due now, the latest in 1m 00s."),
        ((None, None), "The due time of the next one is unknown."),
    ],
)
def test_due_times_are_told(due: tuple[float | None, float | None], said: str) -> None:
    next_ns, latest_ns = (None if at is None else int(at * 1e9) for at in due)
    finding = deferred.find(vitals(deferred_count=3, next_due_ns=next_ns, latest_due_ns=latest_ns))
    assert finding is not None
    assert said in finding.text


def test_time_to_drain_is_known_only_while_the_depth_shrinks() -> None:
    draining = vitals({"message_count": 2, "finish_count": 12, "depth": -10}, depth=7_200)
    assert (draining.growth_s, draining.drained_in_s) == (-10, 720)
    for growth in (0.0, 10.0, -0.01):
        assert vitals({"message_count": 2, "finish_count": 2, "depth": growth}, depth=7_200).drained_in_s is None
    failing_all = vitals({"requeue_count": 12, "depth": -10}, depth=7_200)
    assert failing_all.drained_in_s is None, "what failed is deferred, and comes back"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "about 1 s"), (119, "about 119 s"), (720, "about 12 min"), (7_300, "about 2 h"), (10**9, "over a month")],
)
def test_a_time_that_was_worked_out_is_not_told_to_the_second(seconds: float, text: str) -> None:
    assert units.about(seconds) == text


# Which of two causes heads the channel, the graver first: of one level the one that explains the other.
PRECEDENCE: tuple[tuple[dict[str, Any], dict[str, float], list[str]], ...] = (
    ({**DRAINS, **FAILS, "fenced": "a bug"}, {}, ["fenced", "failing"]),
    ({**DRAINS, **FAILS, "unreadable": "EIO"}, {}, ["unreadable", "failing"]),
    ({**DRAINS, **alone(50, 50)}, {}, ["poison message", "failing"]),
    ({**DRAINS, **alone(9, 10)}, {"finish_count": 0.5}, ["poison message", "failing"]),
    ({**DRAINS, **FAILS, "ready_count": 0, "in_flight_count": 0}, {}, ["failing", "backing off"]),
    (
        {**HELD_20, **FAILS, "oldest_ns": old(400)},
        {"depth": 1, "message_count": 1},
        ["failing", "falling behind", "oldest message"],
    ),
    ({**HELD_20, "oldest_ns": old(90)}, {}, ["stuck", "saturated"]),
    (
        {**DRAINS, "failures": failures(requeued=178, timed_out=60)},
        {},
        ["failing", "timing out"],
    ),
    ({"depth": 5, "oldest_ns": old(400)}, {}, ["no consumers", "oldest message"]),
    ({"deferred_count": 2, "attempts_max": 30, "attempts_max_id": "ab"}, {}, ["poison message", "deferred"]),
)


@pytest.mark.parametrize(("now", "rates", "kinds"), PRECEDENCE, ids=[" > ".join(kinds) for *_, kinds in PRECEDENCE])
def test_the_graver_cause_comes_first(now: dict[str, Any], rates: dict[str, float], kinds: list[str]) -> None:
    found = sorted(find_all(vitals(rates, **now)), key=lambda finding: (-finding.level, RANK[finding.kind]))
    assert [finding.kind.name for finding in found] == kinds
