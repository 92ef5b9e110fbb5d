"""A channel's page in a cluster: each node has its row, line and colour, and a node that dies marks the page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.pages.axe import violations
from tests.support.pages.browser import Complaints, close
from tests.support.pages.console_page import (
    cell,
    create_channel,
    figure,
    freshness,
    is_marked,
    mark,
    wait_for_figure,
)
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

WAIT_S = 30.0
# The colours of a line's dot in the legend, of that in the table, and of the line itself.
COLOURS = """(column) => {
  const button = document.querySelector(`[data-graph="depth_nodes"] [data-column="${column}"]`);
  const plot = document.querySelector('[data-graph="depth_nodes"] .plot');
  const name = column.split("@")[1];
  return [
    getComputedStyle(button, "::before").backgroundColor,
    getComputedStyle(document.querySelector(`tr[data-key="${name}"] .dot`)).backgroundColor,
    plot.data?.find((line) => line.name === name)?.line.color,
  ];
}"""
# Only graphs in view are drawn.
IS_HATCHED = """() => {
  const plot = document.querySelector('[data-graph="depth"] .plot');
  plot.scrollIntoView();
  return plot.data?.some((line) => line.yaxis === "y2");
}"""


@pytest.fixture
def node() -> Iterator[FakeNsqd]:
    with FakeNsqd.of(topic("orders", channel("billing", depth=70, message_count=70), message_count=70)) as found:
        yield found


@pytest.fixture
def page(browser: Browser, node: FakeNsqd, tmp_path: Path) -> Iterator[Page]:
    options = ["--no-pipeline", f"--nsqd-http-address={node.address}"]
    heard = Complaints()
    with ServerProcess(tmp_path / "data", options=options) as server:
        create_channel(server, "orders", "billing")
        context = browser.new_context(base_url=server.console_url)
        heard.watch(context)
        made = context.new_page()
        made.goto("/login/?next=/topics/orders/billing/")
        made.get_by_label("Name").fill(ADMIN_USER)
        made.get_by_label("Password").fill(ADMIN_PASSWORD)
        made.get_by_role("button", name="Log in").click()
        yield made
        close(context)
    heard.check()


def wait_for_freshness(page: Page, text: str) -> None:
    wait_for(f"the header's {text!r}", lambda: freshness(page) == text, timeout_s=WAIT_S, every_s=0.1)


def test_a_node_that_dies_marks_an_open_page_and_one_that_returns_clears_it(page: Page, node: FakeNsqd) -> None:
    wait_for_freshness(page, "live · 2 nodes")
    wait_for_figure(page, "depth", "70")
    assert cell(page, "by_node", node.address, "depth") == "70"
    column = f"waiting@{node.address}"

    def colours() -> set[str]:
        return set(page.evaluate(COLOURS, column))

    wait_for("one colour", lambda: len(colours()) == 1, timeout_s=WAIT_S, every_s=0.2)
    mark(page)
    node.channel("orders", "billing")["depth"] = 90
    wait_for_figure(page, "depth", "90")

    node.answers["/stats"] = (503, {}, b'{"message":"EXITING"}')
    wait_for_freshness(page, "live · 1 of 2 nodes")
    wait_for_figure(page, "depth", "≥ 0")
    expect(page.locator("[data-silence]")).to_contain_text("1 of 2 nodes not answering for")
    expect(page.locator("[data-silence] a")).to_have_text(node.address)
    assert cell(page, "by_node", node.address, "depth") == "90", "its last answer"
    wait_for("the hatched time", lambda: page.evaluate(IS_HATCHED), timeout_s=WAIT_S, every_s=0.2)
    assert violations(page) == []

    del node.answers["/stats"]
    wait_for_freshness(page, "live · 2 nodes")
    wait_for_figure(page, "depth", "90")
    expect(page.locator("[data-silence]")).to_be_empty()
    assert page.evaluate(IS_HATCHED), "what was missing then is missing still"
    assert is_marked(page), "all of it came to the page that was open"
    assert figure(page, "oldest") == "–", "an nsqd reports no ages"
