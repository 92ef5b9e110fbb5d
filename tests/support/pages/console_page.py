"""Reads a page of the console as a person sees it."""

import re
from typing import Any

from playwright.sync_api import Locator, Page

from tests.support.processes.server import ServerProcess
from tests.support.topology import written
from tests.support.waiting import wait_for

LIVE_TIMEOUT_S = 30.0  # a frame comes every second; a machine may be busy with other tests as well


def create_channel(server: ServerProcess, topic: str, channel: str) -> None:
    """Make a channel, and its topic where it is missing."""
    server.http("POST", f"/topic/create?topic={topic}")
    server.http("POST", f"/channel/create?topic={topic}&channel={channel}")


def figure(page: Page, name: str) -> str:
    """The large value of one of the stats."""
    return page.locator(f'[data-stat="{name}"] dd').first.inner_text()


def figure_note(page: Page, name: str) -> str:
    """The small words under it."""
    return page.locator(f'[data-stat="{name}"] dd').nth(1).inner_text()


def cell(page: Page, table: str, row: str, column: str) -> str:
    """A cell of a live table, by the row's key and the column's name."""
    return page.locator(f'[data-table="{table}"] tr[data-key="{row}"] [data-cell="{column}"]').inner_text()


def wait_for_figure(page: Page, name: str, text: str) -> None:
    wait_for(f"{name} to show {text!r}", lambda: figure(page, name) == text, timeout_s=LIVE_TIMEOUT_S, every_s=0.1)


def freshness(page: Page) -> str:
    """The header's word about how old the figures are."""
    return " ".join(page.locator("#freshness").inner_text().split())


def wait_until_live(page: Page, timeout_s: float = LIVE_TIMEOUT_S) -> None:
    wait_for("a live page", lambda: freshness(page).startswith("live"), timeout_s=timeout_s, every_s=0.1)


def mark(page: Page) -> None:
    """Leave a mark in the page that a reload would take away."""
    page.evaluate("window.penstockTestMark = true")


def is_marked(page: Page) -> bool:
    return bool(page.evaluate("window.penstockTestMark === true"))


def message(page: Page) -> str:
    """The sentence on the page after an act."""
    found = page.locator("#messages li")
    found.first.wait_for()
    return " ".join(found.first.inner_text().split())


def open_act(page: Page, name: str, within: Locator | None = None) -> Locator:
    """Click an act's button; the dialog that asks about it. In a narrow window the acts lie behind a button."""
    link, acts = (
        (within or page).get_by_role("link", name=re.compile(name)).first,
        page.get_by_role("button", name="Acts"),
    )
    if not link.is_visible() and acts.is_visible():
        acts.click()
    link.click()
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    return dialog


def topology(server: ServerProcess, topic: str) -> dict[str, Any] | None:
    """A topic as the data directory has it; None when it has none. What is in the trash is not there."""
    for found in written(server.data_path)["topics"]:
        if found["name"] == topic and not found.get("trash"):
            return found | {"channels": [channel for channel in found["channels"] if not channel.get("trash")]}
    return None


def double_click(page: Page, graph: str) -> None:
    """Click twice into a graph: again, where a busy machine makes them two single clicks."""
    area = page.locator(f'[data-graph="{graph}"] .nsewdrag').first
    page.evaluate(
        """(graph) => {
          window.isDoubleClicked = false;
          const plot = document.querySelector(`[data-graph="${graph}"] .js-plotly-plot`);
          plot.once("plotly_doubleclick", () => { window.isDoubleClicked = true; });
        }""",
        graph,
    )

    def is_heard() -> bool:
        area.dblclick()
        return bool(page.evaluate("window.isDoubleClicked"))

    wait_for("the two clicks to be heard", is_heard, timeout_s=LIVE_TIMEOUT_S)


def audit_row(page: Page, object_name: str) -> dict[str, str]:
    """The newest row about a topic or channel, fetched beside the open page: column heading → text."""
    table: dict[str, list[str]] = page.evaluate(
        """async (name) => {
          const answer = await fetch(`${document.body.dataset.root}audit/?object=${encodeURIComponent(name)}`);
          const table = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main table");
          const texts = (cells) => [...cells].map((cell) => cell.textContent);
          return {
            heads: texts(table.querySelectorAll("thead th")),
            cells: texts(table.querySelector("tbody tr").querySelectorAll("td")),
          };
        }""",
        object_name,
    )
    heads, cells = ([" ".join(text.split()) for text in table[part]] for part in ("heads", "cells"))
    return dict(zip(heads, cells, strict=True))


def plotted(page: Page, graph: str) -> list[dict[str, Any]] | None:
    """The lines that plotly drew: each name and its last 60 points (x in Unix seconds, y). None until it is drawn."""
    found: list[dict[str, Any]] | None = page.evaluate(
        """(name) => {
          const plot = document.querySelector(`[data-graph="${name}"] .js-plotly-plot`);
          return plot && plot.data.map((line) => ({name: line.name, x: line.x.slice(-60), y: line.y.slice(-60)}));
        }""",
        graph,
    )
    return found
