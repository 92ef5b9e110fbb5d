"""The time until the disk is full: as a finding of the engine and of channels that grow, and on the pages."""

from typing import Any

import pytest

from admin_console.diagnosis import filling
from admin_console.diagnosis.finding import CALM, DANGER, WARNING
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
HOUR_S = 3_600


def disk(full_in_s: float | None) -> DiskSpace:
    """100 GiB, 36 of them free, that are gone after so long."""
    return DiskSpace(36 * GIB, 100 * GIB, 36 * GIB / full_in_s if full_in_s else 0.0)


def live_of(space: DiskSpace | None, *, seconds: int = 60, grows: int = 5, **figures: Any) -> LiveState:
    hub = Hub()
    given = {"client_count": 1, "ready_count": 50, "in_flight_count": 1} | figures
    for second in range(seconds):
        growing = given | {"depth": 100 + grows * second, "oldest_ns": (START_S + second - 20) * 10**9}
        growing["message_count"] = growing["depth"]
        orders = topic("orders", channel("orders", "billing", **growing), storage="log")
        hub.write(snapshot(orders, second=START_S + second, disk=space))
    assert hub.live is not None
    return hub.live


def of_channel(live: LiveState) -> filling.Finding | None:
    (orders,) = live.snapshot.topics
    vitals = take_vitals(orders, orders.channels[0], live.rings["orders", "billing"], live.snapshot)
    found = [one for one in find_all(vitals) if one.kind is filling.FILLING]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("full_in_s", "level", "when"),
    [
        (0.9 * HOUR_S, DANGER, "about 54 min"),
        (3 * HOUR_S, WARNING, "about 3 h"),
        (25 * HOUR_S, None, ""),
        (None, None, ""),
    ],
)
def test_a_channel_that_grows_says_when_the_disk_is_full(full_in_s: float | None, level: int | None, when: str) -> None:
    live = live_of(disk(full_in_s))
    found, engine = of_channel(live), filling.find_broker(live.snapshot)
    if level is None:
        assert (found, engine) == (None, None)
        return
    assert found is not None
    assert engine is not None
    assert (found.level, engine.level) == (level, level)
    assert found.title == engine.title == f"The disk fills: it is full in {when} if this goes on."
    assert "36.0 GiB of the disk's 100.0 GiB are free and become less by " in found.text
    assert "The depth changes by +5/s" in found.text


def test_a_channel_that_does_not_grow_has_no_part_in_it() -> None:
    assert of_channel(live_of(disk(HOUR_S), grows=0)) is None
    assert of_channel(live_of(None)) is None
    # Young messages: the channel keeps up.
    live = live_of(disk(HOUR_S))
    (orders,) = live.snapshot.topics
    young = channel("orders", "billing", depth=395, oldest_ns=live.snapshot.taken_at_ns, client_count=1, ready_count=9)
    vitals = take_vitals(orders, young, live.rings["orders", "billing"], live.snapshot)
    assert filling.find(vitals) is None


def test_the_engine_s_finding_lasts_before_it_is_a_state_and_ends_late() -> None:
    hub = Hub()

    def write(second: int, full_in_s: float | None) -> bool:
        hub.write(snapshot(topic("orders"), second=START_S + second, disk=disk(full_in_s)))
        assert hub.live is not None
        return bool(hub.live.engine_states)

    assert not any(write(second, HOUR_S) for second in range(10))
    assert write(10, HOUR_S)
    # A burst of another kind frees room for a moment: the banner stays.
    assert all(write(second, None) for second in range(11, 40))
    assert not write(40, None)


def overview(live: LiveState) -> Any:
    return build_screen(Request("overview", Role.OPERATOR), live)


def test_the_overview_says_so_unless_a_channel_has_something_worse() -> None:
    banner = overview(live_of(disk(3 * HOUR_S), grows=0)).banner
    assert (banner.tone, banner.title) == ("warning", "The disk fills: it is full in about 3 h if this goes on.")
    assert banner.note.startswith("Seen since ")
    # The channel grows too, and has nothing worse: it is the same finding, and said once.
    grows = overview(live_of(disk(3 * HOUR_S), paused=True)).banner
    assert (grows.title, grows.note) == (banner.title, banner.note)
    behind = overview(live_of(disk(3 * HOUR_S))).banner
    assert behind.title.startswith("orders/billing: falling behind")
    assert "Also: the disk is full in about 3 h if this goes on." in behind.note
    worse = overview(live_of(disk(3 * HOUR_S), grows=0, fenced="delivering failed: a bug")).banner
    assert worse.title.startswith("orders/billing: fenced")
    assert "Also: the disk is full in about 3 h if this goes on." in worse.note
    assert overview(live_of(disk(None), grows=0)).banner is None


def test_a_growing_channel_s_depth_and_the_log_s_panel_show_it() -> None:
    live = live_of(disk(50 * HOUR_S))
    stats = build_screen(Request("channel", Role.VIEWER, topic="orders", channel="billing"), live).stats
    assert stats[0].note.text == "▲ 5/s over 5 s · disk full in about 2 days"
    assert filling.level_of(disk(50 * HOUR_S)) == CALM


@pytest.mark.parametrize(
    ("full_in_s", "text", "tone"),
    [
        (None, "36.0 GiB free of 100.0 GiB", ""),
        (2 * HOUR_S, "36.0 GiB free of 100.0 GiB, full in about 2 h if this goes on", "warning"),
    ],
)
def test_the_log_s_panel_has_the_disk(full_in_s: float | None, text: str, tone: str) -> None:
    log = LogStats("always", *[0] * 6, False, "", *[0] * 10, None)
    live = LiveState(snapshot(disk=disk(full_in_s), log=log), {})
    [shown] = [row.cells[1][1] for row in log_table(live).rows if row.key == "disk"]
    assert isinstance(shown, Cell)
    assert (shown.text, shown.tone) == (text, tone)
