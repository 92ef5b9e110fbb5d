"""A page in a cluster: the nodes that are ticked, and those alone, do an act."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.pages.axe import violations
from tests.support.pages.browser import Complaints, close
from tests.support.pages.console_page import (
    create_channel,
    freshness,
    wait_for_figure,
)
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

WAIT_S = 30.0
HEIGHTS = """(cells) => cells.map((cell) => {
  const words = document.createRange();
  words.selectNodeContents(cell);
  return words.getBoundingClientRect().height;
})"""


@pytest.fixture
def node() -> Iterator[FakeNsqd]:
    with FakeNsqd.of(topic("orders", channel("billing", depth=70, message_count=70), message_count=70)) as found:
        yield found


@pytest.fixture
def heard() -> Complaints:
    return Complaints()


@pytest.fixture
def page(browser: Browser, node: FakeNsqd, heard: Complaints, tmp_path: Path) -> Iterator[Page]:
    options = ["--no-pipeline", *(f"--nsqd-http-address={name}{node.address}" for name in ("", "prod="))]
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
    """Without the age, which an overview has."""
    wait_for(f"the header's {text!r}", lambda: freshness(page).split(" · ≤")[0] == text, timeout_s=WAIT_S, every_s=0.1)


# Parts of the header that are cut while a node is silent, the figures are old, and another cluster has a name.
CUT = """() => {
  document.querySelector("#freshness > span").lastChild.data = "11\\u00a0of\\u00a012\\u00a0nodes · 12\\u00a0s";
  const parts = [...document.querySelectorAll(".here, .clusters summary span, #freshness, .header")];
  return parts.filter((part) => part.scrollWidth > part.clientWidth).map((part) => part.className || part.textContent);
}"""


def test_a_phones_header_has_the_names_of_place_and_cluster(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for path in ("/", "/topics/", "/nodes/", "/clients/"):
        page.goto(path)
        wait_for_freshness(page, "live · 2 nodes")
        assert page.evaluate(CUT) == [], path
        assert page.locator(".header").evaluate("(header) => header.offsetHeight") == 52
    page.locator(".here").click(force=True)  # the switch lies over it
    page.get_by_role("link", name="prod", exact=True).click()
    page.wait_for_url("**/clusters/prod/clients/")


def test_buttons_and_reasons_follow_the_nodes_that_have_the_channel(page: Page, node: FakeNsqd) -> None:
    wait_for_freshness(page, "live · 2 nodes")
    acts = page.get_by_role("form", name="Acts on the selected nodes")
    own = page.locator(f'[data-table="by_node"] tbody tr:not([data-key="{node.address}"], [data-key="*"])')
    own.get_by_role("checkbox").check()
    expect(page.get_by_role("link", name="Empty on 2 nodes…")).to_be_visible()
    expect(acts.locator("[data-reasons]")).to_have_attribute("data-reasons", re.compile("is an nsqd and"))

    channels = node.topics["orders"]["channels"]
    node.topics["orders"]["channels"] = []
    expect(page.get_by_role("link", name="Empty…", exact=True)).to_be_visible(timeout=WAIT_S * 1_000)
    expect(acts.locator("[data-reasons]")).to_have_attribute("data-reasons", "{}")
    # The selection stays, and its buttons have the names.
    expect(acts).to_contain_text("1 selected")
    expect(acts.get_by_role("button", name="Empty on ")).to_have_text(f"Empty on {own.get_attribute('data-key')}…")

    node.topics["orders"]["channels"] = channels
    expect(page.get_by_role("link", name="Empty on 2 nodes…")).to_be_visible(timeout=WAIT_S * 1_000)


def test_buttons_that_can_not_be_fetched_are_tried_less_often_and_not_after_a_log_in(
    page: Page, node: FakeNsqd, heard: Complaints
) -> None:
    statuses, fetched, updates = [500, 500, 302], 0, 0

    def answer(route: Route) -> None:
        nonlocal fetched
        if route.request.resource_type != "fetch":
            route.continue_()
            return
        fetched += 1
        route.fulfill(status=statuses[min(fetched, 3) - 1], headers={"Location": "https://sso.example.org/"})

    def note_update() -> None:
        nonlocal updates
        updates += 1

    def fetched_after(seconds: int) -> int:
        """The page's clock stands but for these seconds: its frames are run here."""
        page.clock.fast_forward(seconds * 1_000)
        for _ in range(3):
            seen, until_s = updates, time.monotonic() + WAIT_S
            while updates == seen and time.monotonic() < until_s:
                page.wait_for_timeout(20)
            assert updates > seen, "no update came"
            page.clock.run_for(50)
        return fetched

    page.route("**/topics/orders/billing/", answer)
    page.on("websocket", lambda socket: socket.on("framereceived", lambda _: note_update()))
    page.clock.install()
    page.reload()
    wait_for_freshness(page, "live · 2 nodes")
    page.clock.pause_at(page.evaluate("Date.now() / 1000") + 5)
    node.topics["orders"]["channels"] = []
    wait_for("the first", lambda: fetched_after(0), timeout_s=WAIT_S)
    assert fetched == 1
    assert [fetched_after(6) for _ in range(3)] == [2, 2, 3]
    assert fetched_after(300) == 3, "it led to a log-in"
    heard.expect("500")


def test_acts_go_to_the_nodes_that_are_ticked(page: Page, node: FakeNsqd) -> None:
    wait_for_freshness(page, "live · 2 nodes")
    own = page.locator('[data-table="by_node"] tbody tr').first
    if own.get_attribute("data-key") == node.address:
        own = page.locator('[data-table="by_node"] tbody tr').nth(1)
    own_name = own.get_attribute("data-key") or ""
    acts = page.get_by_role("form", name="Acts on the selected nodes")
    expect(acts).to_be_hidden()
    expect(page.get_by_role("link", name="Empty on 2 nodes…")).to_be_visible()

    # By keyboard; the names stand on the buttons, and the reason for the act that an nsqd lacks.
    box = page.get_by_role("checkbox", name=f"Select {node.address}", exact=True)
    box.focus()
    box.press("Space")
    expect(acts).to_contain_text("1 selected")
    expect(acts.get_by_role("button", name=f"Empty on {node.address}…")).to_be_enabled()
    attempts = acts.get_by_role("button", name="Max attempts…")
    expect(attempts).to_be_disabled()
    attempts.click(force=True)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(acts).to_contain_text(f"{node.address} is an nsqd and")
    page.get_by_role("checkbox", name=f"Select {own_name}", exact=True).check()
    expect(acts.get_by_role("button", name="Max attempts on ")).to_have_text(f"Max attempts on {own_name}…")
    both = ", ".join(sorted([node.address, own_name]))
    expect(acts.get_by_role("button", name="Pause on ")).to_have_text(f"❚❚ Pause on {both}…")

    assert violations(page) == []

    # Live updates leave the ticks. On a phone the bar leaves room for the rows.
    page.set_viewport_size({"width": 360, "height": 740})
    node.channel("orders", "billing")["depth"] = 75
    wait_for_figure(page, "depth", "75")
    expect(acts).to_contain_text("2 selected")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.get_by_role("checkbox", name=f"Select {own_name}", exact=True).uncheck()
    acts.get_by_role("button", name="Pause on ").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text(f"Pause orders/billing on {node.address}")
    dialog.get_by_role("button", name="Pause orders/billing").click()
    wait_for("the pause", lambda: node.channel("orders", "billing")["paused"], timeout_s=WAIT_S)
    expect(page.locator("#messages")).to_contain_text("Paused orders/billing", timeout=WAIT_S * 1000)

    # The node's own page acts there alone.
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"/nodes/{node.address}/")
    # The long row of its limits breaks no name of a fact.
    names = page.locator('[data-table="facts"] td[data-cell="what"]')
    assert max(names.evaluate_all(HEIGHTS)) < 30
    page.get_by_role("checkbox", name="Select orders/billing").check()
    page.get_by_role("form", name="Acts on the selected channels").get_by_role("button", name="Empty…").click()
    dialog.get_by_label("Type 1 channel to confirm").fill("1 channel")
    dialog.get_by_role("button", name=f"Empty 1 channel on {node.address}").click()
    expect(dialog).to_contain_text("Emptied 1 channel")
    assert node.channel("orders", "billing")["depth"] == 0
    assert [one.path for one in node.acts] == ["/channel/pause", "/channel/empty"]
