"""Graphs under the Content-Security-Policy: drawn, zoomed, exported, redrawn in the dark."""

import re
import struct
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenPage
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import (
    LIVE_TIMEOUT_S,
    create_channel,
    double_click,
    plotted,
    wait_for_figure,
    wait_until_live,
)
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

DRAWING_TIMEOUT_S = 30.0
PNG = b"\x89PNG\r\n\x1a\n"


def layout(page: Page, path: str, graph: str = "depth") -> Any:
    """A part of a graph's layout as plotly holds it now, such as "xaxis.range"."""
    return page.evaluate(
        """([path, graph]) => path.split(".").reduce(
          (part, name) => part[name], document.querySelector(`[data-graph="${graph}"] .js-plotly-plot`)._fullLayout)""",
        [path, graph],
    )


def times(page: Page, graph: str = "depth") -> list[float]:
    """First and last second of a graph's axis."""
    return [float(limit) for limit in layout(page, "xaxis.range", graph)]


def wait_for_times(page: Page, graph: str, expected: list[float]) -> None:
    """The graphs are drawn one after the other."""
    wait_for(f"{expected} in {graph}", lambda: times(page, graph) == expected, timeout_s=LIVE_TIMEOUT_S, every_s=0.1)


def wait_for_newest(page: Page, values: list[int]) -> None:
    """Until the depth graph's newest seconds have these values."""

    def is_drawn() -> bool:
        drawn = plotted(page, "depth")
        return bool(drawn) and drawn[0]["y"][-len(values) :] == values

    wait_for(f"{values} in the graph", is_drawn, timeout_s=DRAWING_TIMEOUT_S, every_s=0.1)


def known_points(page: Page) -> dict[float, float]:
    """What is drawn of the depth graph's last points, by their times, without the seconds that are not known."""
    (drawn,) = plotted(page, "depth") or []
    return {x: y for x, y in zip(drawn["x"], drawn["y"], strict=True) if y is not None}


@pytest.fixture
def page(server: ServerProcess, open_page: OpenPage) -> Page:
    create_channel(server, "drawn", "line")
    server.http("POST", "/channel/empty?topic=drawn&channel=line")
    server.http("POST", "/mpub?topic=drawn", b"1\n2\n3")
    opened = open_page("/topics/drawn/line/")
    wait_until_live(opened)
    wait_for_newest(opened, [3])
    return opened


def test_graphs_come_though_their_seconds_could_not_be_had_at_first(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("status of 503")
    create_channel(server, "late", "line")
    opened = open_page("/topics/late/")
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=503)

    opened.route("**/api/series/**", refuse_once)
    opened.goto(f"{server.console_url}/topics/late/line/")
    wait_for("the graphs", lambda: plotted(opened, "depth"), timeout_s=DRAWING_TIMEOUT_S, every_s=0.1)
    assert refused


def test_a_drag_zooms_the_time_of_all_live_graphs_and_nothing_else(server: ServerProcess, page: Page) -> None:
    assert page.locator('[data-graph="depth"] .js-line').first.get_attribute("d"), "no line is drawn"
    page.set_viewport_size({"width": 1280, "height": 1000})
    wait_for("the other graph", lambda: plotted(page, "in_flight"), timeout_s=DRAWING_TIMEOUT_S, every_s=0.1)
    chip, words = page.locator("[data-range-zoomed]"), page.locator("[data-range-words]")
    expect(chip).to_be_hidden()
    address = page.url
    wait_for_newest(page, [3, 3, 3])  # the drag leaves the last one or two out
    first, end = times(page)
    heights = {name: layout(page, "yaxis.range", name) for name in ("depth", "in_flight")}

    # Not quite level, as hands are, and slow enough for a second to be added meanwhile.
    area = page.locator('[data-graph="depth"] .nsewdrag').first
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.35, box["y"] + box["height"] * 0.4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.4 + 10, steps=3)
    page.wait_for_timeout(1_200)
    page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + box["height"] * 0.4 + 40, steps=3)
    page.mouse.up()

    expect(chip).to_have_text("Zoomed")
    expect(words).to_contain_text("a point a second · live figures go on")
    expect(page.locator('[data-graph="depth"] .legend')).to_contain_text("peak 3")
    found = re.search(r"\?from=(\S+Z)&to=(\S+Z)&step=1s$", page.url)
    assert found, page.url
    asked = [datetime.fromisoformat(time).timestamp() for time in found.groups()]
    assert asked == pytest.approx([first + share * (end - first) for share in (0.35, 0.99)], abs=5)
    for name, height in heights.items():
        wait_for_times(page, name, asked)
        assert layout(page, "yaxis.range", name) == height, f"the drag changed what {name} is measured by"

    # The figures go on, the view stays, and its address shows the same again.
    shown = known_points(page)
    server.http("POST", "/mpub?topic=drawn", b"4\n5")
    wait_for_figure(page, "depth", "5")
    assert known_points(page) == shown
    page.reload()
    wait_for("the graph again", lambda: plotted(page, "depth"), timeout_s=DRAWING_TIMEOUT_S, every_s=0.1)
    wait_for_times(page, "depth", asked)
    # A second that the page missed is known when it comes anew.
    assert known_points(page).items() >= shown.items()
    expect(chip).to_have_text("Zoomed")

    # A link, "back" and two clicks lead out of it.
    page.get_by_role("link", name="Back to live").click()
    expect(chip).to_be_hidden()
    wait_for("live seconds", lambda: times(page)[1] > end, timeout_s=LIVE_TIMEOUT_S, every_s=0.1)
    page.go_back()
    wait_for_times(page, "depth", asked)
    page.go_back()
    expect(chip).to_be_hidden()
    assert page.url == address
    page.go_forward()
    wait_for_times(page, "in_flight", asked)
    double_click(page, "in_flight")
    expect(chip).to_be_hidden()
    wait_for("live seconds", lambda: times(page)[1] > end, timeout_s=LIVE_TIMEOUT_S, every_s=0.1)


def test_one_message_is_no_thousand_thousandths(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "single", "line")
    server.http("POST", "/channel/empty?topic=single&channel=line")
    page = open_page("/topics/single/line/")
    wait_until_live(page)
    # Of a channel's first second there is no rate. A line at nothing has no other figure beside it.
    expect(page.locator('[data-graph="depth"] .ytick')).to_have_text(["0"], timeout=DRAWING_TIMEOUT_S * 1000)
    server.http("POST", "/pub?topic=single", b"1")
    expect(page.locator('[data-graph="depth"] .ytick')).to_have_text(["0", "1"], timeout=DRAWING_TIMEOUT_S * 1000)
    rates = page.locator('[data-graph="rates"]')
    rates.scroll_into_view_if_needed()

    def has_rate() -> bool:
        if any(value for line in plotted(page, "rates") or [] for value in line["y"]):
            return True
        server.http("POST", "/pub?topic=single", b"1")  # the server may have missed the second of the one before
        return False

    wait_for("a rate", has_rate, timeout_s=DRAWING_TIMEOUT_S, every_s=2)
    # One in a second that took longer is less than one a second, and more in a shorter one.
    ticks = rates.locator(".ytick").all_text_contents()
    assert ticks
    assert all(re.fullmatch(r"\d+(\.\d+)?", text) for text in ticks), ticks


def test_a_graph_is_exported_as_png(page: Page, tmp_path: Path) -> None:
    graph = page.locator('[data-graph="depth"]')
    graph.locator(".plot").hover()
    with page.expect_download() as download:
        graph.locator('.modebar-btn[data-title*="Download"]').click()
    path = tmp_path / "graph.png"
    download.value.save_as(path)
    content = path.read_bytes()
    assert content.startswith(PNG)
    width, height = struct.unpack(">II", content[16:24])
    assert width > 300, (width, height)
    assert height > 100, (width, height)
    assert download.value.suggested_filename.endswith(".png")


def test_a_line_is_hidden_and_shown_from_the_legend_and_read_as_a_table(page: Page) -> None:
    graph = page.locator('[data-graph="in_flight"]')
    graph.scroll_into_view_if_needed()
    wait_for("the graph", lambda: plotted(page, "in_flight"), timeout_s=DRAWING_TIMEOUT_S, every_s=0.1)
    deferred = graph.get_by_role("button", name=re.compile("^deferred"))
    deferred.click()
    expect(deferred).to_have_attribute("aria-pressed", "false")
    shown = (
        """() => document.querySelector('[data-graph="in_flight"] .js-plotly-plot').data.map((line) => line.visible)"""
    )
    assert page.evaluate(shown) == [True, False]
    deferred.click()
    assert page.evaluate(shown) == [True, True]
    depth = page.locator('[data-graph="depth"]')
    depth.get_by_text("View as table").click()
    newest = depth.get_by_role("table").locator("tbody tr").first
    expect(newest.locator("td").last).to_have_text("3")
    # The table stands in the plot's place, so that the graph beside it keeps its height.
    expect(depth.locator(".plot")).to_be_hidden()
    heights = [one.evaluate("(one) => one.offsetHeight") for one in (depth, graph)]
    assert abs(heights[0] - heights[1]) <= 1
    assert heights[0] < 300
    depth.get_by_text("View as table").click()
    expect(depth.locator(".plot .main-svg").first).to_be_visible()
    width = depth.locator(".plot").evaluate("(plot) => plot.clientWidth")
    assert abs(depth.locator(".plot .main-svg").first.evaluate("(drawing) => drawing.clientWidth") - width) <= 1


def test_the_theme_changes_the_graph_without_a_reload(page: Page) -> None:
    light = layout(page, "font.color")
    page.emulate_media(color_scheme="dark")
    wait_for("other colours", lambda: layout(page, "font.color") != light, timeout_s=LIVE_TIMEOUT_S, every_s=0.1)
    page.emulate_media(color_scheme="light")
    wait_for("the first ones", lambda: layout(page, "font.color") == light, timeout_s=LIVE_TIMEOUT_S, every_s=0.1)
