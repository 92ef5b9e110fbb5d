"""Graphs in the zone of the browser, or in UTC: axis, hover, zoom, span, link and table."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import cycle, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import CDPSession, Page, expect

from tests.browser.conftest import OpenPage
from tests.support.lakes.history_lake import HistoryLake, window
from tests.support.pages.console_page import create_channel, plotted, wait_until_live
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

# Behind UTC, ahead of it by minutes too, and by half a day. The second test is in Berlin.
ZONES = ("America/Los_Angeles", "Asia/Kathmandu", "Pacific/Auckland")
BERLIN = ZoneInfo("Europe/Berlin")
PATH = "/topics/zoned/line/"
DRAWING_TIMEOUT_S = 30.0
HOUR_S, DAY_S = 3_600, 86_400
NOW_S = int(time.time()) // 60 * 60


def changes_of_the_clock(zone: ZoneInfo) -> list[int]:
    """The last two seconds at which the zone's clock was changed."""

    def offset(second: int) -> Any:
        return datetime.fromtimestamp(second, zone).utcoffset()

    seconds = range(NOW_S // HOUR_S * HOUR_S - DAY_S, NOW_S - 390 * DAY_S, -HOUR_S)
    return [second for second in seconds if offset(second) != offset(second - HOUR_S)][:2]


@pytest.fixture(scope="module")
def lake(server: ServerProcess) -> HistoryLake:
    """Two days of minutes, and nine hours at both changes of Berlin's clock; the depth is the minute of the hour."""
    made = HistoryLake(server.data_path)
    spans = [(second - 5 * HOUR_S, second + 4 * HOUR_S) for second in sorted(changes_of_the_clock(BERLIN))]
    for first_s, end_s in [*spans, (NOW_S // DAY_S * DAY_S - DAY_S, NOW_S - 120)]:
        made.add("minutes", [window(t, "zoned", "line", depth=float(t // 60 % 60)) for t in range(first_s, end_s, 60)])
    create_channel(server, "zoned", "line")
    server.http("POST", "/mpub?topic=zoned", b"1\n2\n3")
    return made


class Zoned:
    """A page whose browser is moved from zone to zone."""

    def __init__(self, page: Page, session: CDPSession) -> None:
        self.page = page
        self._session = session
        self.zone = ZoneInfo("UTC")

    @contextmanager
    def moved(self, name: str) -> Iterator[None]:
        self._session.send("Emulation.setTimezoneOverride", {"timezoneId": name})
        self.zone = ZoneInfo(name)
        try:
            yield
        except BaseException as exc:
            exc.add_note(f"in {name}")
            raise

    def wait_for_graph(self) -> None:
        wait_for("the graph", lambda: plotted(self.page, "depth"), timeout_s=DRAWING_TIMEOUT_S, every_s=0.05)

    def wait_for_axis(self, seconds: Sequence[float]) -> None:
        wait_for(f"{seconds}", lambda: list(self.axis()) == list(seconds), timeout_s=DRAWING_TIMEOUT_S, every_s=0.05)

    def local(self, second: float) -> datetime:
        return datetime.fromtimestamp(second, self.zone)

    def words(self, second: float, form: str = "%H:%M") -> str:
        return self.local(second).strftime(form)

    def axis(self) -> tuple[float, float]:
        first, end = self.page.evaluate(f"() => {_PLOT}._fullLayout.xaxis.range")
        return first, end

    def ticks(self) -> list[tuple[float, list[str]]]:
        """Of each written time the second at which it stands, as drawn, and its lines."""
        return [
            (second, [line.strip() for line in lines])
            for second, lines in self.page.evaluate(
                f"""() => {{
                  const {{ xaxis, _size: size }} = {_PLOT}._fullLayout;
                  const left = {_PLOT}.querySelector(".main-svg").getBoundingClientRect().left + size.l;
                  return [...{_PLOT}.querySelectorAll(".xtick text")].map((text) => {{
                    const box = text.getBoundingClientRect();
                    const lines = [...text.querySelectorAll("tspan")].map((one) => one.textContent);
                    return [xaxis.p2d(box.left + box.width / 2 - left), lines.length ? lines : [text.textContent]];
                  }});
                }}"""
            )
        ]

    def zone_on_axis(self) -> str:
        return self.page.locator('[data-graph="depth"] .annotation-text').last.text_content() or ""

    def hover(self, second: int) -> str:
        """What is read above the point of that second."""
        area = self.page.locator('[data-graph="depth"] .nsewdrag').first
        heights = cycle((40, 41))

        def is_there() -> bool:
            first, end = self.axis()
            box = area.bounding_box()
            assert box is not None
            # Each drawing, one a second of a live graph, ends a hover: the pointer moves again then.
            at = box["x"] + box["width"] * (second - first) / (end - first)
            self.page.mouse.move(at, box["y"] + next(heights))
            hovered = self.page.evaluate(f"() => {_PLOT}._hoverdata?.[0].x")
            return hovered is not None and abs(hovered - second) < 2 * max(60, (end - first) / box["width"])

        wait_for("the point", is_there, timeout_s=DRAWING_TIMEOUT_S, every_s=0.05)
        return self.page.locator('[data-graph="depth"] .hoverlayer .legendtitletext').text_content() or ""

    def drag(self, first_s: float, end_s: float) -> list[float]:
        """Drag over the graph from one second to another; the seconds that the link then names."""
        first, end = self.axis()
        area = self.page.locator('[data-graph="depth"] .nsewdrag').first
        box = area.bounding_box()
        assert box is not None
        at = [box["x"] + box["width"] * (second - first) / (end - first) for second in (first_s, end_s)]
        self.page.mouse.move(at[0], box["y"] + 60)
        self.page.mouse.down()
        self.page.mouse.move(at[1], box["y"] + 60, steps=4)
        self.page.mouse.up()
        expect(self.page.locator("[data-range-zoomed]")).to_have_text("Zoomed")
        return self.linked()

    @contextmanager
    def table(self) -> Iterator[tuple[str, list[list[str]]]]:
        """The depth as a table: the heading of its times, and the cells of its rows."""
        graph = self.page.locator('[data-graph="depth"]')
        graph.get_by_text("View as table").click()
        texts = "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
        yield graph.locator("thead th").first.inner_text(), graph.locator("tbody tr").evaluate_all(texts)
        graph.get_by_text("View as table").click()

    def linked(self) -> list[float]:
        found = re.search(r"\?from=(\S+Z)&to=([^&\s]+Z)", self.page.url)
        assert found, self.page.url
        return [datetime.fromisoformat(text).timestamp() for text in found.groups()]


_PLOT = """document.querySelector('[data-graph="depth"] .js-plotly-plot')"""


@pytest.fixture
def zoned(lake: HistoryLake, open_page: OpenPage) -> Iterator[Zoned]:
    page = open_page(PATH)
    session = page.context.new_cdp_session(page)
    yield Zoned(page, session)
    session.detach()


def link(first_s: int, end_s: int) -> str:
    first, end = (datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%MZ") for second in (first_s, end_s))
    return f"?from={first}&to={end}"


def offset_words(moment: datetime) -> str:
    offset = moment.utcoffset()
    assert offset is not None
    minutes = int(offset.total_seconds() // 60)
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'−' if minutes < 0 else '+'}{hours}{f':{rest:02}' if rest else ''}" if minutes else "UTC"


def test_graphs_are_read_zoomed_typed_linked_and_tabled_in_every_zone(zoned: Zoned) -> None:
    wait_until_live(zoned.page)
    zoned.wait_for_graph()
    with zoned.moved("UTC"):
        _wait_for_place(zoned, "UTC")
    for name in ZONES:
        with zoned.moved(name):
            _live_seconds_are_of_this_clock(zoned, name)
            _a_range_is_of_this_clock(zoned)
            _and_of_utc_on_a_page_in_utc(zoned)
            zoned.page.get_by_role("link", name="15 m").click()


def _wait_for_place(zoned: Zoned, place: str) -> None:
    wait_for(
        f"{place} at the axis",
        lambda: zoned.zone_on_axis().replace("Katmandu", "Kathmandu") == place,
        timeout_s=DRAWING_TIMEOUT_S,
        every_s=0.05,
    )


def _live_seconds_are_of_this_clock(zoned: Zoned, name: str) -> None:
    page = zoned.page
    _wait_for_place(zoned, f"{name.split('/')[1].replace('_', ' ')} ({offset_words(zoned.local(time.time()))})")
    assert zoned.axis()[1] == pytest.approx(time.time(), abs=5)
    ticks = zoned.ticks()
    assert len(ticks) >= 3
    for second, (text, *_) in ticks:
        form = "%H:%M:%S" if len(text) > 5 else "%H:%M"
        assert text in [zoned.words(second + late, form) for late in (-1, 0, 1)]
    (line,) = plotted(page, "depth") or []
    newest = line["x"][-3]
    assert zoned.hover(newest) in [zoned.words(newest + late, "%H:%M:%S") for late in range(-2, 3)]
    # The newest seconds, of which a drag that ends at another time would find nothing.
    first, end = zoned.axis()
    asked = zoned.drag(first + 30, end - 2)
    assert asked == pytest.approx([first + 30, end - 2], abs=4)
    expect(page.locator("[data-range-notice]")).to_be_hidden()
    span = f"{zoned.words(asked[0], '%H:%M:%S')} – {zoned.words(asked[1], '%H:%M:%S')} ·"
    expect(page.locator("[data-range-words]")).to_contain_text(span)
    zoned.wait_for_axis(asked)


def _a_range_is_of_this_clock(zoned: Zoned) -> None:
    page = zoned.page
    first, end = NOW_S // HOUR_S * HOUR_S - 20 * HOUR_S, NOW_S // HOUR_S * HOUR_S - 4 * HOUR_S
    page.get_by_text("Custom…").click()
    fields = page.get_by_label("From"), page.get_by_label("To –")
    assert fields[0].input_value() == zoned.words(zoned.axis()[0], "%Y-%m-%dT%H:%M")
    for field, second in zip(fields, (first, end), strict=True):
        field.fill(zoned.words(second, "%Y-%m-%dT%H:%M"))
    page.get_by_role("button", name="Show this range").click()
    zoned.wait_for_axis([first, end])
    assert zoned.linked() == [first, end]
    is_one_day = zoned.local(first).date() == zoned.local(end).date()
    span = f"{zoned.words(first, '%-d %b %H:%M')} – {zoned.words(end, '%H:%M' if is_one_day else '%-d %b %H:%M')} ·"
    expect(page.locator("[data-range-words]")).to_contain_text(span)
    ticks = zoned.ticks()
    assert len(ticks) >= 4
    date = ""
    for second, (text, *below) in ticks:
        near = zoned.local(round(second / 900) * 900)  # a pixel is two minutes
        assert text == near.strftime("%H:%M")
        # The date stands under the first time and wherever it changes.
        assert [line for line in below if line] == (
            [] if near.strftime("%-d %b") == date else [near.strftime("%-d %b")]
        )
        date = near.strftime("%-d %b")
    point = first + 5 * HOUR_S
    assert zoned.hover(point) in [zoned.words(point + late, "%a %-d %b, %H:%M") for late in range(-180, 181, 60)]

    asked = zoned.drag(first + 4 * HOUR_S, first + 8 * HOUR_S)
    assert asked == pytest.approx([first + 4 * HOUR_S, first + 8 * HOUR_S], abs=180)
    expect(page.locator("[data-range-notice]")).to_be_hidden()
    zoned.wait_for_axis(asked)
    with zoned.table() as (head, rows):
        assert offset_words(zoned.local(first)) in head
        assert rows[0][0] == zoned.words((asked[1] - 60) // 180 * 180, "%-d %b %H:%M")


def _and_of_utc_on_a_page_in_utc(zoned: Zoned) -> None:
    shown = zoned.axis()
    zoned.page.evaluate("document.documentElement.dataset.clock = 'utc'")
    wait_for("UTC", lambda: zoned.zone_on_axis() == "UTC", timeout_s=DRAWING_TIMEOUT_S, every_s=0.05)
    first = datetime.fromtimestamp(shown[0], UTC).strftime("%-d %b %H:%M")
    expect(zoned.page.locator("[data-range-words]")).to_contain_text(f"{first} – ")
    assert zoned.axis() == shown
    for second, (text, *_) in zoned.ticks():
        assert text == datetime.fromtimestamp(round(second / 300) * 300, UTC).strftime("%H:%M")
    zoned.page.evaluate("delete document.documentElement.dataset.clock")


def test_an_hour_that_the_clock_repeats_shows_twice_with_its_offsets_and_a_skipped_one_is_missing(zoned: Zoned) -> None:
    server_url = zoned.page.url.split(PATH)[0]
    with zoned.moved("Europe/Berlin"):
        for change in changes_of_the_clock(BERLIN):
            first, end = change - 3 * HOUR_S, change + 3 * HOUR_S
            zoned.page.goto(f"{server_url}{PATH}{link(first, end)}")
            zoned.wait_for_graph()
            zoned.wait_for_axis([first, end])  # as long as the time was
            before, after = offset_words(zoned.local(change - 1)), offset_words(zoned.local(change))
            assert zoned.zone_on_axis() == f"Berlin ({before} / {after})"
            ticks = [(round(second / 300) * 300, lines) for second, lines in zoned.ticks()]
            assert {later - earlier for (earlier, _), (later, _) in pairwise(ticks)} == {HOUR_S}
            assert [text for _, (text, *_) in ticks] == [zoned.words(second) for second, _ in ticks]
            with_offset = {second: lines[1] for second, lines in ticks if "UTC" in lines[-1]}
            is_autumn = before > after  # from UTC+2 to UTC+1
            assert with_offset == ({change - HOUR_S: before, change: after} if is_autumn else {})
            assert [text for _, (text, *_) in ticks].count("02:00") == (2 if is_autumn else 0)
            for second, offset in with_offset.items():
                assert re.search(r"0[12]:\d\d" + re.escape(f" {offset}") + "$", zoned.hover(second + 300))
            asked = zoned.drag(change - 40 * 60, change + 40 * 60)
            assert asked == pytest.approx([change - 40 * 60, change + 40 * 60], abs=60)
            zoned.wait_for_axis(asked)
            with zoned.table() as (_, rows):
                depths = {moment: depth for moment, depth, *_ in rows}
            for second in range(int(asked[0]), int(asked[1]), 60):
                text = zoned.words(second, "%-d %b %H:%M")
                if is_autumn:
                    text += f" {offset_words(zoned.local(second))}"
                assert depths[text] == str(second // 60 % 60)
