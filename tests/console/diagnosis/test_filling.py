"""The disk fills, or has little room: a finding of the server, said once, and of no channel."""

from dataclasses import replace
from typing import Any

import pytest

from admin_console.diagnosis import filling
from admin_console.diagnosis.finding import DANGER, WARNING
from admin_console.diagnosis.findings import find_all
from admin_console.diagnosis.vitals import take_vitals
from admin_console.hub.hub import Hub, LiveState
from admin_console.screens.build import Request, build_screen
from admin_console.screens.cells import Cell
from admin_console.screens.log_panel import log_table
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import DiskSpace
from queue_engine.storage.log_stats import LogStats
from tests.support.pages.snapshots import START_S, channel, snapshot, topic

GIB = 1 << 30
MIB = 1 << 20
HOUR_S = 3_600
LOG = LogStats("always", *[0] * 6, False, "", *[0] * 10, None)
LOW = DiskSpace(20 * MIB, 60 * MIB, None, low_bytes=98 * MIB, own_minute_bytes=9 * MIB)


def disk(full_in_s: float | None, own_share: float = 1.0) -> DiskSpace:
    """100 GiB, 36 of them free, that are gone after so long. own_share: of what goes, by topics."""
    rate = 36 * GIB / full_in_s if full_in_s else 0.0
    return DiskSpace(36 * GIB, 100 * GIB, rate, own_share * rate)


def live_of(space: DiskSpace | None, *, seconds: int = 60, grows: int = 5, **figures: Any) -> LiveState:
    hub = Hub()
    given = {"client_count": 1, "ready_count": 50, "in_flight_count": 1} | figures
    for second in range(seconds):
        growing = given | {"depth": 100 + grows * second, "oldest_ns": (START_S + second - 20) * 10**9}
        growing["message_count"] = growing["depth"]
        orders = topic("orders", channel("orders", "billing", **growing), storage="log")
        hub.write(snapshot(orders, second=START_S + second, disk=space, log=LOG))
    assert hub.live is not None
    return hub.live


def find(space: DiskSpace, *, is_full: bool = False) -> filling.Finding | None:
    return filling.find_broker(snapshot(disk=space, log=replace(LOG, is_full=is_full)))


@pytest.mark.parametrize(
    ("full_in_s", "level", "when"),
    [(0.9 * HOUR_S, DANGER, "about 54 min"), (3 * HOUR_S, WARNING, "about 3 h"), (25 * HOUR_S, None, "")],
)
def test_a_trend_is_said_with_the_time_that_is_left(full_in_s: float, level: int | None, when: str) -> None:
    found = find(disk(full_in_s))
    assert (found.level if found else None) == level
    if found is not None:
        assert found.title == f"The disk fills: it is full in {when} if this goes on."
        assert "36.0 GiB of the disk's 100.0 GiB are free and shrink by " in found.text


def test_what_topics_add_is_apart_from_what_others_write() -> None:
    texts = [found.text for share in (1.0, 0.25, 0.0) if (found := find(disk(3 * HOUR_S, share))) is not None]
    assert [text.partition("; ")[2].partition(". ")[0] for text in texts] == [
        "topics add 3.4 MiB/s of that",
        "topics add 873.8 KiB/s of that",
        "topics add nothing of that",
    ]
    assert [text.rpartition(". ")[2] for text in texts] == [
        *["Free space, or drain the channels that grow."] * 2,
        "Free space on this disk: other files take it.",
    ]


def test_little_room_is_a_warning_without_any_trend() -> None:
    found = find(LOW)
    assert found is not None
    assert (found.level, found.title) == (WARNING, "The disk has little room: 20.0 MiB are free.")
    assert "20.0 MiB of the disk's 60.0 MiB are free. In the last minute topics added 9.0 MiB." in found.text
    assert find(replace(LOW, low_bytes=20 * MIB)) is None
    # A trend beside it says more.
    soon = find(replace(LOW, fill_bytes_per_s=MIB))
    assert soon is not None
    assert (soon.level, soon.title) == (DANGER, "The disk fills: it is full in about 20 s if this goes on.")


def test_a_full_disk_is_not_said_to_fill() -> None:
    assert find(replace(LOW, free_bytes=0, fill_bytes_per_s=1.0), is_full=True) is None
    hub = Hub()
    hub.write(snapshot(topic("orders"), disk=LOW, log=LOG))
    assert hub.live is not None
    assert hub.live.engine_states
    hub.write(snapshot(topic("orders"), second=START_S + 1, disk=LOW, log=replace(LOG, is_full=True)))
    assert not hub.live.engine_states


def test_no_channel_is_marked_by_a_disk_that_fills() -> None:
    live = live_of(disk(HOUR_S / 2))
    (orders,) = live.snapshot.topics
    vitals = take_vitals(orders, orders.channels[0], live.rings["orders", "billing"], live.snapshot)
    assert "disk" not in " ".join(f"{one.chip} {one.title} {one.text} {one.also}" for one in find_all(vitals))
    page = build_screen(Request("channel", Role.VIEWER, topic="orders", channel="billing"), live)
    assert page.stats[0].note.text == "▲ 5/s over 30 s"


class Looks:
    """Snapshots of a server whose disk is full after the time that each look says."""

    def __init__(self) -> None:
        self._hub = Hub()
        self._second = START_S

    def levels(self, hours: float | None, seconds: int = 1) -> list[int]:
        """Of the state that is in force after each second; 0 for none."""
        found = []
        for _ in range(seconds):
            space = disk(None if hours is None else hours * HOUR_S)
            self._hub.write(snapshot(topic("orders"), second=self._second, disk=space))
            self._second += 1
            assert self._hub.live is not None
            states = self._hub.live.engine_states
            found.append(states[0].finding.level if states else 0)
        return found


def test_a_time_that_swings_around_its_limit_makes_no_page_that_changes() -> None:
    looks = Looks()
    assert looks.levels(25) == [0]
    assert [looks.levels(hours) for hours in (23, 25, 35, 23)] == [[WARNING]] * 4
    assert [looks.levels(hours) for hours in (0.9, 1.1, 1.4, 0.9)] == [[DANGER]] * 4
    assert [looks.levels(hours) for hours in (1.6, 1.1)] == [[WARNING]] * 2
    # A minute after the last look that found it, it is over.
    assert looks.levels(None, 60) == [WARNING] * 59 + [0]
    assert looks.levels(30) == [0]


def overview(live: LiveState) -> Any:
    return build_screen(Request("overview", Role.OPERATOR), live)


def test_the_overview_says_it_once() -> None:
    for live in (live_of(disk(3 * HOUR_S), grows=0), live_of(disk(3 * HOUR_S)), live_of(disk(3 * HOUR_S), paused=True)):
        told = str(overview(live))
        assert told.lower().count("disk is full in") + told.count("it is full in") == 1, told
    banner = overview(live_of(disk(3 * HOUR_S), grows=0)).banner
    assert (banner.tone, banner.title) == ("warning", "The disk fills: it is full in about 3 h if this goes on.")
    assert banner.note.startswith("Seen since ")
    # It concerns all channels: one that is as urgent stands below.
    assert overview(live_of(disk(3 * HOUR_S))).banner.title == banner.title
    worse = overview(live_of(LOW, grows=0, fenced="delivering failed: a bug")).banner
    assert worse.title.startswith("orders/billing: fenced")
    assert "Also: little room is left on the disk." in worse.note
    assert overview(live_of(disk(None), grows=0)).banner is None


@pytest.mark.parametrize(
    ("space", "text", "tone"),
    [(disk(2 * HOUR_S), "36.0 GiB free of 100.0 GiB", ""), (LOW, "20.0 MiB free of 60.0 MiB", "warning")],
)
def test_the_log_s_panel_has_the_disk(space: DiskSpace, text: str, tone: str) -> None:
    live = LiveState(snapshot(disk=space, log=LOG), {})
    [shown] = [row.cells[1][1] for row in log_table(live).rows if row.key == "disk"]
    assert isinstance(shown, Cell)
    assert (shown.text, shown.tone) == (text, tone)
