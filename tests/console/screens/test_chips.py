"""The state of a row is one chip of one line, the gravest; what else holds is counted behind it."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from admin_console.diagnosis.findings import find_all
from admin_console.hub.hub import Hub, LiveState
from admin_console.screens.build import Request, build_screen
from admin_console.screens.cells import Chip, StateCell
from admin_console.vocabulary.roles import Role
from queue_engine.storage.quarantine_stats import QuarantineStats
from queue_engine.vocabulary.flow.pause import Pause
from tests.console.diagnosis.test_rules import CASES
from tests.support.pages.snapshots import START_S, channel, failures, snapshot, topic

CHARACTERS_MAX = 22
LISTS = (("overview", "urgent"), ("topics", "topics"), ("topic", "channels"))
BY_LONG_NAME = Pause(
    "deploy-bot-of-the-payments-team", "x" * 200, (START_S - 90_000) * 1000, (START_S + 9_000) * 1000, 4
)
# Poison, all deliveries fail, the oldest is old, and some are quarantined.
ILL: dict[str, Any] = {
    "depth": 40,
    "in_flight_count": 5,
    "client_count": 2,
    "ready_count": 10,
    "failures": failures(requeued=180, by=2, repeated=170),
    "attempts_max": 90,
    "attempts_max_id": "ab" * 8,
    "oldest_ns": (START_S - 900) * 10**9,
    "quarantined_count": 1_234_567,
    "quarantine": QuarantineStats(5, 1_234_567, 40, 1, reasons=(("requeued", 1_234_567),)),
}


class Chips(HTMLParser):
    """The chips in a piece of HTML: (class, text, title); and the other texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.chips: list[tuple[str, str, str]] = []
        self.others: list[str] = []
        self._open: dict[str, str | None] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = dict(attrs)

    def handle_data(self, data: str) -> None:
        css = self._open.get("class") or ""
        if css.startswith("chip"):
            self.chips.append((css, data, self._open.get("title") or ""))
        else:
            self.others.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = {}


def live_of(**figures: Any) -> LiveState:
    hub = Hub()
    for second in range(40):
        now = figures | {"requeue_count": 3 * second}
        hub.write(snapshot(topic("orders", channel("orders", "billing", **now)), second=START_S + second))
    assert hub.live is not None
    return hub.live


def state_of(live: LiveState, page: str, table: str) -> Chips:
    screen = build_screen(Request(page, Role.VIEWER, topic="orders", channel="billing"), live)
    (row,) = screen.tables[table].rows
    return Chips({column.name: cell.html for column, cell in row.cells}["state"])


@pytest.mark.parametrize("name", CASES)
def test_a_chip_has_a_few_words_and_no_figure_that_could_be_of_another_second(name: str) -> None:
    for finding in find_all(CASES[name][1]):
        assert len(finding.chip) <= CHARACTERS_MAX, finding.chip
        assert not re.search("%|disk", finding.chip), finding.chip


@pytest.mark.parametrize(("page", "table"), LISTS)
def test_a_row_has_one_chip_and_counts_what_else_holds(page: str, table: str) -> None:
    live = live_of(**ILL)
    shown = state_of(live, page, table)
    assert shown.others == [], "the sentence is on the channel's page"
    (css, text, title), *more = shown.chips
    assert (css, text) == ("chip chip-danger", "▲ poison message")
    assert "was delivered 90 times and never finished." in title
    if page == "topics":
        assert (title.startswith("billing: "), more) == (True, [])
        return
    ((css, text, title),) = more
    assert (css, text) == ("chip chip-more", "+3")
    assert [line.partition(":")[0] for line in title.split("\n")] == [
        "▲ requeues",
        "▲ over 5 min old",
        "1,234,567 quarantined",
    ]


def test_the_channel_s_own_page_lists_them_all() -> None:
    screen = build_screen(Request("channel", Role.VIEWER, topic="orders", channel="billing"), live_of(**ILL))
    shown = [text for _, text, _ in Chips(screen.chips_html).chips]
    assert shown == ["▲ poison message", "▲ requeues", "▲ over 5 min old", "1,234,567 quarantined"]


def test_a_pause_of_a_long_name_and_reason_is_a_short_chip() -> None:
    live = live_of(depth=5, paused=True, pause=BY_LONG_NAME)
    for page, table in (*LISTS[:1], *LISTS[2:]):
        (_, text, title), *_ = state_of(live, page, table).chips
        assert text == "❚❚ paused"
        assert "by deploy-bot-of-the-payme…" in title
    paused = topic("orders", paused=True, pause=BY_LONG_NAME)
    (_, text, title), *_ = state_of(LiveState(snapshot(paused), {}), "topics", "topics").chips
    assert (text, title.startswith("Paused by deploy-bot")) == ("❚❚ paused", True)


def test_the_gravest_comes_first_and_the_others_are_reached_by_keyboard() -> None:
    cell = StateCell(
        (Chip("on", "ok"), Chip("▲ near its limit", "warning", "Beyond it …"), Chip("▲ 3 damaged", "danger"))
    )
    assert [text for _, text, _ in Chips(cell.html).chips] == ["▲ 3 damaged", "+2"]
    assert 'tabindex="0"' in cell.html
    assert 'aria-label="▲ near its limit: Beyond it …\non"' in cell.html
    assert StateCell(()).html == ""
