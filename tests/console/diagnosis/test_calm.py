"""A channel that is calm at a glance is never one in which a rule finds something."""

import random
from typing import Any

from admin_console.diagnosis.diagnosis import is_calm
from admin_console.diagnosis.falling_behind import AGEING_S
from admin_console.diagnosis.findings import find_all
from admin_console.diagnosis.vitals import take_vitals
from admin_console.hub.hub import Hub
from tests.console.diagnosis.test_rules import CASES
from tests.support.pages.snapshots import START_S, channel, failures, snapshot, topic

NEWEST = 70
YOUNG_NS = (START_S + NEWEST - AGEING_S) * 10**9
# What a figure may be, now and by how much it changes each second.
NOW: dict[str, tuple[Any, ...]] = {
    "depth": (0, 1, 90_000),
    "in_flight_count": (0, 19, 20),
    "deferred_count": (0, 0, 3),
    "client_count": (0, 2, 2),
    "ready_count": (0, 20, 20),
    "paused": (False, False, False, True),
    "oldest_ns": (None, *((START_S + NEWEST - age) * 10**9 for age in (0, 14, 15, 61, 301))),
    "held_back": ("", "", "", "memory"),
    "fenced": ("", "", "", "a bug"),
    "unreadable": ("", "", "", "EIO"),
    "attempts_max": (0, 4, 5, 20),
    "failures": (None, None, failures(requeued=50), failures(timed_out=50), failures(requeued=3, repeated=3)),
}
RATES = {"depth": (0, 5), "message_count": (0, 5, 10), "finish_count": (0, 5), "requeue_count": (0, 3)}
TOPIC: dict[str, tuple[Any, ...]] = {"paused": (False, False, False, True), "fenced": ("", "", "", "a bug")}


def test_no_rule_finds_anything_in_what_is_calm() -> None:
    seeded = random.Random(17)
    many = []
    for _ in range(500):
        now = {name: seeded.choice(values) for name, values in NOW.items()}
        # Most of them are healthy but for one or two figures.
        if seeded.random() < 0.7:
            now |= {"client_count": 2, "ready_count": 20, "paused": False, "held_back": "", "fenced": ""}
            now |= {"unreadable": "", "attempts_max": 4, "failures": None}
        many.append((now, {name: seeded.choice(values) for name, values in RATES.items()}))
    orders = {name: seeded.choice(values) for name, values in TOPIC.items()} | {"paused": False, "fenced": ""}
    hub = Hub()
    for second in range(0, NEWEST + 1, 10):
        channels = [
            channel(
                "orders",
                f"c{number}",
                **now | {name: max(0, now.get(name, 9_000) - rate * (NEWEST - second)) for name, rate in rates.items()},
            )
            for number, (now, rates) in enumerate(many)
        ]
        hub.write(snapshot(topic("orders", *channels, **orders), second=START_S + second))
    assert hub.live is not None
    (found,) = hub.live.snapshot.topics
    calm = [one for one in found.channels if is_calm(found, one, YOUNG_NS)]
    assert len(calm) > 100
    for one in calm:
        vitals = take_vitals(found, one, hub.rings["orders", one.channel_name], hub.live.snapshot)
        assert [finding.title for finding in find_all(vitals)] == []


def test_what_each_rule_finds_is_not_calm() -> None:
    for name, (_, vitals, *_) in CASES.items():
        # Which nodes have a consumer is no figure of the channel: its rules run wherever some have none.
        assert vitals.apart or not is_calm(vitals.topic, vitals.stats, YOUNG_NS), name
