"""The evening of an operator with three nodes: a consumer group that sees two of them, a channel emptied on the wrong
node, and a node that dies under the open page, which has a row, a line and a colour for each."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.support.fake_nsqd import FakeNsqd, channel, client, topic
from tests.support.pages.axe import violations
from tests.support.pages.browser import Complaints, close
from tests.support.pages.console_page import (
    cell,
    create_channel,
    figure,
    freshness,
    is_marked,
    mark,
    message,
    open_act,
    wait_for_figure,
)
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

WAIT_S = 90.0  # a node that does not answer is called less and less often, at last each minute
WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 360, "height": 740}
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
def nodes() -> Iterator[tuple[FakeNsqd, FakeNsqd]]:
    """Two nsqds with a consumer each."""

    def orders(depth: int) -> dict[str, Any]:
        billing = channel("billing", clients=(client(),), depth=depth, message_count=depth)
        return topic("orders", billing, message_count=depth)

    with ExitStack() as stack:
        first, second = (FakeNsqd.of(orders(depth)) for depth in (70, 20))
        for one in (first, second):
            stack.enter_context(one)
        yield first, second


@pytest.fixture
def console(nodes: tuple[FakeNsqd, FakeNsqd], tmp_path: Path) -> Iterator[ServerProcess]:
    """This server has the channel and three messages, and no consumer."""
    options = ["--no-pipeline", *(f"--nsqd-http-address={one.address}" for one in nodes)]
    with ServerProcess(tmp_path / "data", options=options) as server:
        create_channel(server, "orders", "billing")
        server.http("POST", "/mpub?topic=orders", b"one\ntwo\nthree")
        yield server


@pytest.fixture
def page(browser: Browser, console: ServerProcess) -> Iterator[Page]:
    heard = Complaints()
    context = browser.new_context(base_url=console.console_url, color_scheme="dark", viewport=WIDE)
    heard.watch(context)
    made = context.new_page()
    made.goto("/login/?next=/")
    made.get_by_label("Name").fill(ADMIN_USER)
    made.get_by_label("Password").fill(ADMIN_PASSWORD)
    made.get_by_role("button", name="Log in").click()
    yield made
    close(context)
    heard.check()


def wait_for_freshness(page: Page, text: str) -> None:
    wait_for(f"the header's {text!r}", lambda: freshness(page).startswith(text), timeout_s=WAIT_S, every_s=0.1)


def look_at(page: Page, *sides: tuple[Literal["light", "dark"], ViewportSize]) -> None:
    """Themes and sizes, one after another. Graphs take the new width a moment later."""
    for scheme, size in sides:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)

        def fits(width: int = size["width"]) -> bool:
            return bool(page.evaluate("document.scrollingElement.scrollWidth") == width)

        wait_for(f"a page as wide as a window of {size['width']}", fits, timeout_s=WAIT_S, every_s=0.1)
        assert violations(page, colours_only=True) == [], f"{page.url}, {scheme}, {size['width']} px"


def test_the_evening_of_an_operator_with_three_nodes(
    page: Page, console: ServerProcess, nodes: tuple[FakeNsqd, FakeNsqd]
) -> None:
    own, (first, second) = f"127.0.0.1:{console.http_port}", nodes
    consumers_see_two_of_three(page, own)
    page.goto("/topics/orders/billing/")
    an_act_goes_to_one_node_and_is_undone(page, own, nodes)
    each_node_has_its_line_and_colour(page, first)
    a_node_dies_and_returns(page, second)


def consumers_see_two_of_three(page: Page, own: str) -> None:
    row = page.locator('[data-table="urgent"] tr[data-key="orders/billing"]')
    expect(row.locator("td.state")).to_have_text("consumers on 2 of 3")
    banner = page.locator("[data-banner]")
    expect(banner.locator("strong")).to_have_text("orders/billing: consumers are connected to 2 of 3 nodes.")
    expect(banner).to_contain_text(f"None on {own}. 3 messages wait there.")
    look_at(page, ("light", NARROW), ("dark", NARROW), ("light", WIDE), ("dark", WIDE))
    banner.get_by_role("link", name=f"Open {own}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(own)
    assert cell(page, "node_channels", "orders/billing", "clients") == "0"


def an_act_goes_to_one_node_and_is_undone(page: Page, own: str, nodes: tuple[FakeNsqd, FakeNsqd]) -> None:
    dialog = open_act(page, "Empty on 3 nodes")
    expect(dialog).to_contain_text("93 messages will be removed.")
    expect(dialog).to_contain_text("What can be undone differs by node.")
    for one in nodes:
        row = dialog.get_by_role("listitem").filter(has_text=one.address)
        expect(row).to_contain_text("this can't be undone: it is an nsqd and has no trash")
        row.get_by_role("checkbox").uncheck()
    expect(dialog.get_by_role("listitem").filter(has_text=own)).to_contain_text("this can be undone for")
    dialog.get_by_label("Type orders/billing to confirm").fill("orders/billing")
    dialog.get_by_role("button", name="Empty orders/billing on the ticked nodes").click()
    assert message(page) == f"{own}: Emptied orders/billing: removed 3 messages. Undo"
    wait_for("the node's empty channel", lambda: cell(page, "by_node", own, "depth") == "0", timeout_s=WAIT_S)
    assert [cell(page, "by_node", one.address, "depth") for one in nodes] == ["70", "20"]
    page.locator("#messages").get_by_role("link", name="Undo").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    wait_for("its messages", lambda: cell(page, "by_node", own, "depth") == "3", timeout_s=WAIT_S)
    assert all(one.acts == [] for one in nodes), "the wrong node was emptied, and no other"


def each_node_has_its_line_and_colour(page: Page, node: FakeNsqd) -> None:
    column = f"waiting@{node.address}"

    def colours() -> set[str]:
        return set(page.evaluate(COLOURS, column))

    wait_for("one colour", lambda: len(colours()) == 1, timeout_s=WAIT_S, every_s=0.2)


def a_node_dies_and_returns(page: Page, node: FakeNsqd) -> None:
    in_flight = page.locator('[data-empty-of="in_flight"]')
    expect(in_flight).to_have_text("No message is in flight.")
    wait_for_freshness(page, "live · 3 nodes")
    mark(page)
    node.channel("orders", "billing")["depth"] = 40
    wait_for_figure(page, "depth", "113")

    node.__exit__(None, None, None)
    wait_for_freshness(page, "live · 2 of 3 nodes")
    wait_for_figure(page, "depth", "≥ 73")
    expect(page.locator("[data-silence]")).to_contain_text("1 of 3 nodes not answering for")
    expect(page.locator("[data-silence] a")).to_have_text(node.address)
    expect(in_flight).to_have_text(f"Which messages are in flight is unknown until {node.address} answers.")
    assert cell(page, "by_node", node.address, "depth") == "40", "its last answer"
    wait_for("the hatched time", lambda: page.evaluate(IS_HATCHED), timeout_s=WAIT_S, every_s=0.2)
    look_at(page, ("light", NARROW), ("dark", WIDE))
    assert violations(page) == []
    an_act_names_the_node_that_did_not_do_it(page, node)

    node.__enter__()
    wait_for_freshness(page, "live · 3 nodes")
    wait_for_figure(page, "depth", "113")
    expect(page.locator("[data-silence]")).to_be_empty()
    expect(in_flight).to_have_text("No message is in flight.")
    expect(page.locator("[data-chips]")).to_contain_text("paused on 2 of 3")
    assert page.evaluate(IS_HATCHED), "what was missing then is missing still"
    assert is_marked(page), "all of it came to the page that was open"
    assert figure(page, "oldest") == "–", "an nsqd reports no ages"


def an_act_names_the_node_that_did_not_do_it(page: Page, node: FakeNsqd) -> None:
    dialog = open_act(page, "Pause on 3 nodes")
    row = dialog.get_by_role("listitem").filter(has=page.get_by_role("checkbox"), has_text=node.address)
    expect(row).to_contain_text("it does not answer; it had 40 messages")
    dialog.get_by_role("button", name="Pause orders/billing on the ticked nodes").click()
    expect(dialog.get_by_role("heading")).to_have_text("Pause channel orders/billing: done on 2 of 3 nodes")
    failed = dialog.get_by_role("listitem").filter(has_text=node.address)
    expect(failed).to_contain_text("Nothing was done to orders/billing")
    dialog.get_by_role("link", name="Close").click()
