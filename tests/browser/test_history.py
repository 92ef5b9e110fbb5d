"""Ranges of the past on the real server: files of days gone by, the picker, zooming, "back", and the live edge."""

import csv
import re
import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.lakes.history_lake import HistoryLake, window
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import LIVE_TIMEOUT_S, create_channel, double_click, wait_until_live
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

DRAWING_TIMEOUT_S = 30.0
PATH = "/topics/past/line/"
HOUR_S, DAY_S = 3_600, 86_400
# A minute of 90 requeues a second, amid an interval of the table for a day. It lies within the last day at every hour.
BURST_S = int(time.time()) // HOUR_S * HOUR_S - 3 * HOUR_S + 7 * 60


@pytest.fixture(scope="module")
def lake(server: ServerProcess) -> Iterator[HistoryLake]:
    """Ten days of hours and two of minutes, up to some minutes ago; depth is 1,000 and more, now it is 3."""
    now_s = int(time.time())
    day_s = now_s // DAY_S * DAY_S
    made = HistoryLake(server.data_path)
    steady: dict[str, Any] = {"depth": (900, 4_000, 1_000), "messages": 600, "latency": [{"b": 100, "n": 7}]}

    def rows(first_s: int, end_s: int, step_s: int) -> list[dict[str, Any]]:
        return [window(t, "past", "line", **steady) for t in range(first_s, end_s, step_s)]

    def minutes(first_s: int, end_s: int) -> list[dict[str, Any]]:
        made = rows(first_s, end_s, 60)
        for row in made:
            if row["t"] == BURST_S:
                row["requeued"] = 5_400
        return made

    made.add("hours", rows(day_s - 10 * DAY_S, day_s, HOUR_S))
    made.add("minutes", minutes(day_s - 2 * DAY_S, day_s))
    if now_s - 180 > day_s:
        made.add("minutes", minutes(day_s, now_s // 60 * 60 - 120))
    create_channel(server, "past", "line")
    server.http("POST", "/mpub?topic=past", b"1\n2\n3")
    yield made
    shutil.rmtree(made.directory)


def line(page: Page, graph: str, name: str) -> dict[str, Any] | None:
    """What plotly drew of a line: its points' times (Unix seconds) and values, and the axis; None until it is drawn."""
    found: dict[str, Any] | None = page.evaluate(
        """([graph, name]) => {
          const plot = document.querySelector(`[data-graph="${graph}"] .js-plotly-plot`);
          const line = plot && plot.data.find((one) => one.name === name);
          const ends = plot && plot._fullLayout.xaxis.range;
          return line ? {x: [...line.x], y: [...line.y], first: ends[0], end: ends[1]} : null;
        }""",
        [graph, name],
    )
    return found


def span_s(page: Page) -> float:
    """How long the depth graph's axis is; 0 until it is drawn."""
    drawn = line(page, "depth", "depth")
    return drawn["end"] - drawn["first"] if drawn else 0.0


def points(page: Page, graph: str, name: str) -> int:
    drawn = line(page, graph, name)
    return len(drawn["x"]) if drawn else 0


def wait_for_span(page: Page, seconds: float) -> None:
    wait_for(
        f"a graph of {seconds} s",
        lambda: span_s(page) == pytest.approx(seconds, rel=0.02),
        timeout_s=DRAWING_TIMEOUT_S,
        every_s=0.1,
    )


def chosen(page: Page) -> list[str]:
    return [" ".join(text.split()) for text in page.locator('.segments [aria-current="true"]').all_inner_texts()]


@pytest.fixture
def page(lake: HistoryLake, open_page: OpenPage) -> Page:
    opened = open_page(f"{PATH}?range=24h")
    wait_until_live(opened)
    wait_for_span(opened, DAY_S)
    return opened


def drag(page: Page, graph: str, first: float, end: float) -> None:
    """Drag over a graph, from one share of its width to another."""
    area = page.locator(f'[data-graph="{graph}"] .nsewdrag').first
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * first, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, box["y"] + box["height"] * 0.5, steps=5)
    page.mouse.up()


def test_a_range_shows_what_was_before_the_live_seconds_and_goes_on_with_them(page: Page) -> None:
    wait_for(
        "what the engine says now, on average over this minute",
        lambda: 0 < ((line(page, "depth", "depth") or {"y": [0]})["y"][-1] or 0) <= 3,
        timeout_s=LIVE_TIMEOUT_S,
        every_s=0.2,
    )
    drawn = line(page, "depth", "depth")
    assert drawn is not None
    assert len(drawn["x"]) == pytest.approx(1440, abs=2)
    assert drawn["y"][0] == 1_000, "what the files say of a day ago"
    ages_s = drawn["x"][-1] - drawn["x"][0]
    assert ages_s == pytest.approx(DAY_S, abs=180), "older than the fifteen minutes of live seconds"
    known = page.evaluate(
        """() => document.querySelector('[data-graph="depth"] .js-plotly-plot').data.filter((one) => one.fill).length"""
    )
    assert known == 1, "least to most is a band behind the line"
    expect(page.locator('[data-graph="depth"] .legend')).to_contain_text("peak 4,000")
    expect(page.locator("[data-range-words]")).to_contain_text("a point a minute")
    end = drawn["end"]
    wait_for(
        "two seconds more",
        lambda: (line(page, "depth", "depth") or drawn)["end"] >= end + 2,
        timeout_s=LIVE_TIMEOUT_S,
        every_s=0.2,
    )


def test_the_newest_rate_does_not_stand_out_while_it_has_but_some_seconds(page: Page) -> None:
    drawn = page.evaluate(
        """async () => {
          const { steadyRates } = await import(`${document.body.dataset.root}static/history_drawing.js`);
          const rates = (weight, last, grows = true) => steadyRates(
            { columns: { a: [10, 10, last] }, weights: { a: [60, 60, weight] }, step_s: 60, grows }, "a");
          return [rates(1, 600), rates(30, 0), rates(60, 4), rates(1, 600, false), rates(0, null)].map((all) => all[2]);
        }"""
    )
    assert drawn == [pytest.approx((600 + 59 * 10) / 60), 5, 4, 600, None]


def test_latency_is_a_graph_of_ranges_only(page: Page) -> None:
    latency = page.locator('[data-graph="latency"]')
    latency.scroll_into_view_if_needed()
    wait_for("the latencies", lambda: line(page, "latency", "99 %"), timeout_s=DRAWING_TIMEOUT_S, every_s=0.1)
    drawn = line(page, "latency", "99 %")
    assert drawn is not None
    assert drawn["y"][0] == pytest.approx(4.95, abs=0.01)
    # It is recorded by the minute: unlike the live values beside it, the newest one has its time.
    expect(latency.locator(".legend")).to_contain_text(
        re.compile(r"median 5\.0 ms at .*[0-9]{2}:[0-9]{2} · peak 5\.0 ms")
    )
    page.get_by_role("link", name="15 m").click()
    expect(latency).to_be_hidden()


def test_another_range_is_a_click_and_back_is_the_one_before(page: Page) -> None:
    page.get_by_role("link", name="7 d").click()
    wait_for_span(page, 7 * DAY_S)
    assert page.url.endswith("?range=7d")
    assert chosen(page) == ["7 d"]
    drawn = line(page, "depth", "depth")
    assert drawn is not None
    assert len(drawn["x"]) == pytest.approx(168, abs=2)
    page.get_by_role("link", name="15 m").click()
    wait_for("the live graph", lambda: 0 < span_s(page) <= 900, timeout_s=DRAWING_TIMEOUT_S, every_s=0.1)
    assert chosen(page) == ["15 m live"]
    page.go_back()
    wait_for_span(page, 7 * DAY_S)
    page.go_back()
    wait_for_span(page, DAY_S)
    assert chosen(page) == ["24 h"]
    page.reload()
    wait_for_span(page, DAY_S)


def test_a_drag_zooms_all_graphs_and_the_url_and_is_undone(page: Page) -> None:
    page.get_by_role("link", name="7 d").click()
    wait_for_span(page, 7 * DAY_S)
    drag(page, "depth", 0.75, 0.95)
    wait_for_span(page, 0.2 * 7 * DAY_S)
    zoomed = page.url
    assert re.search(r"\?from=\d{4}-\d\d-\d\dT\d\d:\d\dZ&to=\d{4}-\d\d-\d\dT\d\d:\d\dZ$", zoomed)
    assert chosen(page) == []
    # The finer level is fetched: minutes, not hours.
    wait_for("finer points", lambda: points(page, "depth", "depth") > 900, timeout_s=DRAWING_TIMEOUT_S, every_s=0.1)
    # The graphs are drawn one after the other.
    wait_for(
        "the same of the other graph",
        lambda: points(page, "in_flight", "in flight") == points(page, "depth", "depth"),
        timeout_s=DRAWING_TIMEOUT_S,
        every_s=0.1,
    )
    drag(page, "depth", 0.4, 0.6)
    wait_for_span(page, 0.04 * 7 * DAY_S)
    assert page.url != zoomed
    page.go_back()
    wait_for_span(page, 7 * DAY_S)
    assert page.url.endswith("?range=7d"), "one step back undoes the zoom, however often it was made finer"
    drag(page, "depth", 0.5, 0.9)
    wait_for_span(page, 0.4 * 7 * DAY_S)
    page.get_by_role("link", name="Undo the zoom").click()
    wait_for_span(page, 7 * DAY_S)
    drag(page, "depth", 0.5, 0.9)
    wait_for_span(page, 0.4 * 7 * DAY_S)
    double_click(page, "depth")
    wait_for_span(page, 7 * DAY_S)


def test_a_span_is_typed_in_local_time_and_refused_with_a_reason(page: Page, complaints: Complaints) -> None:
    complaints.expect("/api/history/.*400")
    summary = page.get_by_text("Custom…")
    summary.focus()
    page.keyboard.press("Enter")
    first, end = page.get_by_label("From"), page.get_by_label("To –")
    expect(first).to_be_visible()
    page.keyboard.press("Escape")
    expect(first).to_be_hidden()
    summary.click()
    # As this browser's clock shows it.
    day = page.evaluate("() => new Date(Date.now() - 86400000 * 1.5).toISOString().slice(0, 10)")
    first.fill(f"{day}T06:00")
    end.fill(f"{day}T09:00")
    page.get_by_role("button", name="Show this range").click()
    wait_for_span(page, 3 * HOUR_S)
    expected = page.evaluate("(text) => new Date(text).toISOString().slice(0, 16)", f"{day}T06:00")
    assert f"from={expected}Z" in page.url
    summary.click()
    end.fill(f"{day}T05:00")
    page.get_by_role("button", name="Show this range").click()
    expect(page.locator("[data-range-notice]")).to_contain_text("is not before to")
    page.get_by_role("link", name="24 h").click()
    wait_for_span(page, DAY_S)
    expect(page.locator("[data-range-notice]")).to_be_hidden()


def test_what_is_typed_as_the_form_opens_stays(page: Page) -> None:
    """However late the browser tells that it is open."""
    typed = page.evaluate(
        """async () => {
            const details = document.querySelector(".range-span");
            const form = details.querySelector("form");
            const told = new Promise((resolve) => details.addEventListener("toggle", resolve, { once: true }));
            details.querySelector("summary").click();
            const filled = form.elements.from.value;
            form.elements.from.value = "2026-01-02T03:04";
            await told;
            return [Boolean(filled), form.elements.from.value];
        }"""
    )
    assert typed == [True, "2026-01-02T03:04"]


def test_a_server_that_fails_is_told_and_tried_again(page: Page, complaints: Complaints) -> None:
    complaints.expect("/api/history/.*503")
    broken = {"is": True}

    def answer(route: Any) -> None:
        if broken["is"]:
            route.fulfill(status=503, json={"ok": False, "message": "A file of the history is missing."})
        else:
            route.continue_()

    page.route("**/api/history/**", answer)
    page.get_by_role("link", name="6 h").click()
    notice = page.locator("[data-range-notice]")
    expect(notice).to_contain_text("A file of the history is missing.")
    broken["is"] = False
    page.get_by_role("button", name="Try again").click()
    wait_for_span(page, 6 * HOUR_S)
    expect(notice).to_be_hidden()


def test_a_range_before_the_history_says_so(page: Page) -> None:
    first_s = int(time.time()) // DAY_S * DAY_S - 30 * DAY_S
    at = [time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(first_s + offset)) for offset in (0, 4 * DAY_S)]
    page.goto(f"{PATH}?from={at[0]}&to={at[1]}")
    expect(page.locator("[data-range-notice]")).to_contain_text("Nothing was recorded in this range: history begins at")


def graph_table(page: Page, graph: str) -> tuple[list[str], list[list[str]]]:
    place = page.locator(f'[data-graph="{graph}"]')
    place.scroll_into_view_if_needed()
    place.get_by_text("View as table").click()
    place.get_by_role("table").wait_for()
    rows: list[list[str]] = place.locator("tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    place.get_by_text("View as table").click()
    return rows[0], rows[1:]


def test_a_row_of_the_table_has_all_of_its_interval(page: Page) -> None:
    head, rows = graph_table(page, "trouble")
    assert head[3:] == ["requeued, messages", "requeued, messages/s"]
    assert [row[3:] for row in rows if row[3] not in ("0", "–")] == [["5,400", "6"]], "in a quarter of an hour"
    head, rows = graph_table(page, "depth")
    assert head[1:] == ["depth, minimum", "depth, mean", "depth, maximum"]
    assert rows[-10][1:] == ["900", "1,000", "4,000"]
    head, rows = graph_table(page, "rates")
    assert head[1:3] == ["received, messages", "received, messages/s"]
    assert rows[-10][1:3] == ["9,000", "10"]


def test_a_graph_is_downloaded_with_units_and_zone(page: Page) -> None:
    trouble = page.locator('[data-graph="trouble"]')
    with page.expect_download() as download:
        trouble.get_by_role("button", name="as CSV").click()
    assert re.fullmatch(r"penstock-past-line-trouble-\d{8}T\d{6}Z\.csv", download.value.suggested_filename)
    head, *rows = csv.reader(download.value.path().read_text().splitlines())
    assert head[0].replace("Katmandu", "Kathmandu") == "Time, Kathmandu (UTC+5:45)"
    units = ["messages/s", "messages", "messages/s", "messages"]
    assert head[1:] == [
        f"{name}, {unit}" for name, unit in zip(["timed out"] * 2 + ["requeued"] * 2, units, strict=True)
    ]
    assert len(rows) == pytest.approx(1440, abs=2), "a point a row"
    [burst] = [row for row in rows if row[4] == "5400"]
    assert datetime.fromisoformat(burst[0]).timestamp() == BURST_S
    assert burst[0].endswith("+05:45")
    assert burst[3] == "90"


def test_without_a_script_a_range_is_a_link_and_a_table(lake: HistoryLake, open_page: OpenPage) -> None:
    page = open_page(PATH, java_script_enabled=False)
    page.get_by_role("link", name="6 h").click()
    expect(page).to_have_url(re.compile(r"\?range=6h$"))
    assert chosen(page) == ["6 h"]
    page.goto(f"{PATH}?range=6h&as=table")
    table = page.get_by_label("The range as a table").get_by_role("table")
    expect(table.get_by_role("columnheader", name="Depth, mean")).to_be_visible()
    expect(table.locator("tbody tr").nth(20)).to_contain_text("1,000")


def test_graphs_are_of_all_nodes_or_of_one(lake: HistoryLake, page: Page) -> None:
    """The last test of the file: its server has another node from here on."""
    end_s = int(time.time()) // 60 * 60 - 240
    silent_s = end_s - HOUR_S
    with FakeNsqd.of(topic("past", channel("line", depth=50))) as other:
        names = (("past", "line"), ("", ""))
        steps = [t for t in range(end_s - 6 * HOUR_S, end_s, 60) if not silent_s <= t < silent_s + 600]
        lake.add("minutes", [window(t, *of, node=other.address, depth=50.0) for t in steps for of in names])
        lake.add("minutes", [window(t, node="here") for t in range(end_s - 6 * HOUR_S, end_s, 60)])
        page.set_viewport_size({"width": 1280, "height": 2_000})  # graphs out of sight are not drawn
        page.goto("/nodes/~addresses/")
        page.locator("[name=nsqds]").fill(other.address)
        page.locator("form button[type=submit]").last.click()
        expect(page).to_have_url(re.compile("/nodes/$"))
        # A page from before the node's first answer loads itself again, which would end another load that had begun.
        page.locator("[data-silence]").wait_for(state="attached")
        page.goto(f"{PATH}?range=6h")
        expect(page.locator('[data-graph="depth_nodes"]')).to_contain_text(other.address)
        wait_for_span(page, 6 * HOUR_S)
        drawn = line(page, "depth", "depth")
        assert drawn is not None
        assert drawn["y"][30] == 1_050
        wait_for("the node's line", lambda: points(page, "depth_nodes", other.address) > 0)
        expect(page.locator("[data-range-notice]")).to_have_text(
            "Hatched: not every node was recorded there, so counts are the least that they can be."
        )
        nodes = page.locator(".range-nodes")
        nodes.locator("summary").click()
        nodes.get_by_role("link", name=other.address).click()
        expect(page).to_have_url(re.compile(rf"range=6h&node={other.address.replace(':', '%3A')}$"))
        expect(nodes.locator("summary")).to_have_text(other.address)
        wait_for("its depth", lambda: (line(page, "depth", "depth") or {"y": [0] * 31})["y"][30] == 50)
        # Another range is of the same node, its last fifteen minutes come from the history, too.
        page.locator('[data-preset="1h"]').click()
        expect(page).to_have_url(re.compile(r"range=1h&node="))
        wait_for_span(page, HOUR_S)
        page.locator('[data-preset="15m"]').click()
        wait_for_span(page, 900)
        drawn = line(page, "depth", "depth")
        assert drawn is not None
        assert set(drawn["y"]) - {None} == {50}
        nodes.locator("summary").click()
        nodes.get_by_role("link", name="All nodes").click()
        expect(page).to_have_url(re.compile(r"\?range=15m$"))
        wait_for("live figures", lambda: points(page, "depth", "depth") == 900, timeout_s=LIVE_TIMEOUT_S)
