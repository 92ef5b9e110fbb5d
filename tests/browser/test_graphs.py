"""Graphs under the Content-Security-Policy: drawn, zoomed, exported, redrawn in the dark."""

import struct
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.support.console_page import LIVE_TIMEOUT_S, create_channel, plotted, wait_until_live
from tests.support.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.browser]

DRAWING_TIMEOUT_S = 15.0
PNG = b"\x89PNG\r\n\x1a\n"


def layout(page: Page, path: str) -> Any:
    """A part of the depth graph's layout as plotly holds it now, such as "xaxis.range"."""
    return page.evaluate(
        """(path) => path.split(".").reduce(
          (part, name) => part[name], document.querySelector('[data-graph="depth"] .js-plotly-plot')._fullLayout)""",
        path,
    )


def milliseconds(page: Page, limits: list[Any]) -> list[float]:
    return page.evaluate("(limits) => limits.map((limit) => new Date(limit).getTime())", limits)


@pytest.fixture
def page(server: ServerProcess, open_page: OpenPage) -> Page:
    create_channel(server, "drawn", "line")
    server.http("POST", "/channel/empty?topic=drawn&channel=line")
    server.http("POST", "/mpub?topic=drawn", b"1\n2\n3")
    opened = open_page("/topics/drawn/line/")
    wait_until_live(opened)
    wait_for("the graphs", lambda: plotted(opened, "depth"), timeout_s=DRAWING_TIMEOUT_S, every_s=0.1)
    return opened


def test_a_graph_is_drawn_zoomed_by_dragging_and_stays_zoomed(page: Page) -> None:
    graph = page.locator('[data-graph="depth"]')
    assert graph.locator(".js-line").get_attribute("d"), "no line is drawn"
    whole = milliseconds(page, layout(page, "xaxis.range"))
    area = graph.locator(".nsewdrag").first
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.5, steps=5)
    page.mouse.up()
    zoomed = milliseconds(page, layout(page, "xaxis.range"))
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.1)
    newest = plotted(page, "depth")[0]["x"][-1]
    wait_for("two seconds more", lambda: plotted(page, "depth")[0]["x"][-1] >= newest + 2000, timeout_s=LIVE_TIMEOUT_S)
    assert milliseconds(page, layout(page, "xaxis.range")) == pytest.approx(zoomed, abs=1), "new data moved the zoom"
    # Two clicks bring the whole back.
    area.dblclick()
    wait_for(
        "the whole graph again",
        lambda: (
            (limits := milliseconds(page, layout(page, "xaxis.range")))[1] - limits[0]
            == pytest.approx(whole[1] - whole[0], abs=10_000)
        ),
        timeout_s=LIVE_TIMEOUT_S,
    )


def test_one_message_is_no_thousand_thousandths(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "single", "line")
    server.http("POST", "/channel/empty?topic=single&channel=line")
    page = open_page("/topics/single/line/")
    wait_until_live(page)
    # Of a channel's first second there is no rate.
    expect(page.locator('[data-graph="depth"] .ytick')).to_have_count(5, timeout=DRAWING_TIMEOUT_S * 1000)
    server.http("POST", "/pub?topic=single", b"1")
    for name, ticks in (("depth", ["0", "1"]), ("rates", ["0", "0.5", "1"])):
        graph = page.locator(f'[data-graph="{name}"]')
        graph.scroll_into_view_if_needed()
        expect(graph.locator(".ytick")).to_have_text(ticks, timeout=DRAWING_TIMEOUT_S * 1000)


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
    deferred = graph.get_by_role("button", name="deferred")
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
    assert newest.locator("td").nth(1).inner_text() == "3"


def test_the_theme_changes_the_graph_without_a_reload(page: Page) -> None:
    light = layout(page, "font.color")
    page.emulate_media(color_scheme="dark")
    wait_for("other colours", lambda: layout(page, "font.color") != light, timeout_s=LIVE_TIMEOUT_S, every_s=0.1)
    page.emulate_media(color_scheme="light")
    wait_for("the first ones", lambda: layout(page, "font.color") == light, timeout_s=LIVE_TIMEOUT_S, every_s=0.1)
