"""The overview's panel about the log and the files that were set aside."""

import pytest

from admin_console.hub.hub import LiveState
from admin_console.screens.cells import Cell
from admin_console.screens.list_links import ListQuery
from admin_console.screens.log_panel import log_table
from admin_console.screens.overview import parts
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import HEALTHY, EngineSnapshot
from queue_engine.storage.aside_stats import AsideStats

DAY_MS = 86_400_000


def live(aside: AsideStats) -> LiveState:
    """An engine without topics, and so without a log."""
    return LiveState(EngineSnapshot(1, 10**18, 0, "1", HEALTHY, 0, 0, (), aside=aside), {})


@pytest.mark.parametrize(
    ("aside", "text", "tone"),
    [
        (
            AsideStats(2, 12_345, 3 * DAY_MS, 90 * DAY_MS),
            "2 damaged files, 12.1 KiB, the oldest set aside 3 of 90 days ago",
            "",
        ),
        (AsideStats(1, 5), "1 damaged file, 5 B, until you remove them", ""),
        (
            AsideStats(removed_count=3, removed_bytes=1 << 20, retention_ms=DAY_MS),
            "0 damaged files, 0 B; 3 files removed since start, 1.0 MiB",
            "",
        ),
        (
            AsideStats(1, 5, error="log/holes.json.bad can't be removed: Read-only file system"),
            (
                "1 damaged file, 5 B, until you remove them."
                " ▲ log/holes.json.bad can't be removed: Read-only file system"
            ),
            "warning",
        ),
    ],
)
def test_files_set_aside_are_shown_without_a_log_too(aside: AsideStats, text: str, tone: str) -> None:
    (row,) = log_table(live(aside)).rows
    shown = row.cells[1][1]
    assert isinstance(shown, Cell)
    assert (row.key, shown.text, shown.tone) == ("aside", text, tone)
    assert parts(live(aside), Role.VIEWER, ListQuery("overview"), "")["flags"]["log"]


def test_without_such_files_there_is_no_row() -> None:
    assert log_table(live(AsideStats(retention_ms=90 * DAY_MS))).rows == ()
    assert not parts(live(AsideStats(retention_ms=90 * DAY_MS)), Role.VIEWER, ListQuery("overview"), "")["flags"]["log"]
