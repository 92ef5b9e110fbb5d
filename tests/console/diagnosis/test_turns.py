"""Where very many channels have findings, the rules look at each in its turn; nothing that was done waits for one."""

from collections import Counter
from typing import Any

import pytest

from admin_console.diagnosis import diagnosis
from admin_console.diagnosis.finding import Finding
from admin_console.diagnosis.findings import find_all
from admin_console.diagnosis.vitals import Vitals
from admin_console.hub.hub import Hub
from tests.support.pages.snapshots import START_S, channel, snapshot, topic

COUNT = 60
WAITING: dict[str, Any] = {"depth": 100, "message_count": 100, "oldest_ns": START_S * 10**9}
CONSUMED: dict[str, Any] = {"client_count": 1, "ready_count": 10}

Key = tuple[str, str]


class Looks:
    """Counts how often the rules look at each channel."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count: Counter[str] = Counter()
        patch.setattr(diagnosis, "LOOKS_MAX", 10)
        patch.setattr(diagnosis, "find_all", self._find_all)

    def _find_all(self, vitals: Vitals) -> tuple[Finding, ...]:
        self.count[vitals.stats.channel_name] += 1
        return find_all(vitals)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def write(hub: Hub, second: int, **others: dict[str, Any]) -> None:
    """All of `orders` wait without consumers, but for others, by their names."""
    channels = [channel("orders", name, **(WAITING | others.get(name, {}))) for name in map("c{}".format, range(COUNT))]
    hub.write(snapshot(topic("orders", *channels), second=START_S + second))


def kinds(hub: Hub, name: str) -> list[str]:
    assert hub.live is not None
    found = hub.live.diagnoses.get(("orders", name))
    return [state.finding.kind.name for state in found.states] if found else []


def test_each_channel_is_looked_at_every_fourth_second(looks: Looks) -> None:
    hub = Hub()
    for second in range(31):
        write(hub, second)
        if second:
            assert sum(looks.count.values()) <= COUNT * (1 + second)
    assert set(looks.count) == {f"c{number}" for number in range(COUNT)}
    # The first look, and one in four seconds; none is left out for longer.
    assert all(8 <= count <= 11 for count in looks.count.values()), looks.count
    assert kinds(hub, "c7") == ["no consumers"]


def test_snapshots_that_come_late_leave_none_out(looks: Looks) -> None:
    hub = Hub()
    for second in range(0, 41, 4):
        write(hub, second)
    assert all(count == 11 for count in looks.count.values()), looks.count


def test_few_channels_are_looked_at_each_second(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "LOOKS_MAX", COUNT)
    hub = Hub()
    for second in range(10):
        write(hub, second)
    assert all(count == 10 for count in looks.count.values())


def test_states_begin_and_end_by_time(looks: Looks) -> None:
    hub = Hub()
    for second in range(7):
        write(hub, second)
    # It begins after 3 s, and ends after 3 s: a turn more at most.
    assert all(kinds(hub, f"c{number}") == ["no consumers"] for number in range(COUNT))
    for second in range(7, 15):
        write(hub, second, c7=CONSUMED)
    assert "no consumers" not in kinds(hub, "c7")
    assert kinds(hub, "c8") == ["no consumers"]


CHANGES: list[dict[str, Any]] = [
    {"paused": True},
    {"fenced": "a bug"},
    {"unreadable": "EIO"},
    {"held_back": "memory"},
    {"client_count": 2},
    {"depth": 0},
    {"quarantined_count": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_what_is_done_to_a_channel_waits_for_no_turn(looks: Looks, change: dict[str, Any]) -> None:
    hub = Hub()
    for second in range(10):
        write(hub, second)
    for second in range(10, 13):
        for given in (change, {}):
            before = looks.count["c7"]
            write(hub, 2 * second + (not given) - 10, c7=given)
            assert looks.count["c7"] == before + 1


@pytest.mark.parametrize(
    ("change", "looks_more"), [({"depth": 40}, 4), ({"depth": 40, "finish_count": 60}, 1)], ids=str
)
def test_what_an_act_takes_away_waits_for_no_turn_and_what_is_finished_does(
    looks: Looks, change: dict[str, Any], looks_more: int
) -> None:
    """Each of four seconds has less, so that one of them is the channel's turn."""
    hub = Hub()
    for second in range(10):
        write(hub, second)
    before = looks.count["c7"]
    for step in range(1, diagnosis.TURNS_MAX + 1):
        less = {
            name: WAITING.get(name, 0) + (value - WAITING.get(name, 0)) * step // diagnosis.TURNS_MAX
            for name, value in change.items()
        }
        write(hub, 9 + step, c7=less)
    assert looks.count["c7"] == before + looks_more


def test_a_pause_is_there_at_once(looks: Looks) -> None:
    hub = Hub()
    for second in range(10):
        write(hub, second, c7={"paused": second == 9})
    assert kinds(hub, "c7")[0] == "paused"


def test_figures_are_the_newest_ones_in_any_turn(looks: Looks) -> None:
    hub = Hub()
    for second in range(10):
        write(hub, second, c7={"depth": 100 + second})
        assert hub.live is not None
        assert hub.live.diagnoses["orders", "c7"].vitals.stats.depth == 100 + second
