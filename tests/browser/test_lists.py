"""Each choice of a list and of its graphs keeps the others, and so do live updates."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.support.pages.console_page import create_channel, is_marked, mark, wait_until_live
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]


def rows(page: Page, table: str = "urgent") -> list[str]:
    found = page.locator(f'[data-table="{table}"] tbody tr').evaluate_all("rows => rows.map(row => row.dataset.key)")
    return [str(key) for key in found]


def test_choices_of_a_list_and_of_its_graphs_keep_each_other(server: ServerProcess, open_page: OpenPage) -> None:
    for topic, depth in (("rivers", 3), ("creeks", 7), ("brooks", 5)):
        create_channel(server, topic, "gauge")
        server.http("POST", f"/mpub?topic={topic}", b"\n".join([b"rain"] * depth))
    page = open_page("/?range=1h&q=gauge")
    wait_until_live(page)
    page.get_by_role("link", name=re.compile("^✓? ?All ")).click()
    page.locator('th[data-head="depth"] a').click()
    expect(page).to_have_url(re.compile(r"/\?q=gauge&show=all&sort=-depth&range=1h$"))
    expect(page.locator('[data-table="urgent"] th[aria-sort="descending"]')).to_have_text(re.compile("Depth.↓"))
    assert rows(page) == ["creeks/gauge", "brooks/gauge", "rivers/gauge"]
    page.get_by_role("link", name="6 h", exact=True).click()
    expect(page).to_have_url(re.compile(r"/\?q=gauge&show=all&sort=-depth&range=6h$"))
    page.get_by_role("button", name="Choose channels").click()
    fields = page.get_by_label(re.compile(r"^Channel \d of the graph$"))
    for number in range(4):
        fields.nth(number).fill("rivers/gauge" if number == 2 else "")
    page.get_by_role("button", name="Draw these").click()
    expect(page).to_have_url(re.compile("draw=rivers%2Fgauge"))
    for part in ("range=6h", "sort=-depth", "show=all", "q=gauge"):
        assert part in page.url
    legend = page.locator('[data-graph="waiting"] .legend .label')
    expect(legend).to_have_text(["rivers/gauge"])
    # Updates keep the order, and the lines: the socket asks for the same as the link.
    wait_until_live(page)
    mark(page)
    server.http("POST", "/mpub?topic=rivers", b"\n".join([b"rain"] * 9))
    depth = page.locator('tr[data-key="rivers/gauge"] [data-cell="depth"]')
    expect(depth).to_have_text("12")
    page.mouse.move(0, 0)
    wait_for("the deepest first", lambda: rows(page)[0] == "rivers/gauge", timeout_s=20, every_s=0.2)
    expect(legend).to_have_text(["rivers/gauge"])
    assert is_marked(page), "the page was reloaded"


def test_lists_are_filtered_sorted_and_named_without_a_script(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "ponds", "frogs")
    create_channel(server, "lakes", "swans")
    server.http("POST", "/channel/pause?topic=lakes&channel=swans")
    page = open_page("/", java_script_enabled=False)
    page.get_by_role("link", name=re.compile("^Paused ")).click()
    page.wait_for_url("**show=paused**")

    def shows_the_paused() -> bool:
        page.reload()  # figures are up to a second old, and are not updated
        return rows(page) == ["lakes/swans"]

    wait_for("the paused channel", shows_the_paused, timeout_s=20, every_s=0.3)
    expect(page.locator(".filter[aria-current]")).to_have_text(re.compile(r"^✓ Paused\s+1$"))
    page.goto("/topics/?show=paused")
    page.get_by_role("searchbox", name="Filter by name").fill("lak")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=lak**")
    page.locator('th[data-head="name"] a').click()
    page.wait_for_url("**sort=**")
    assert rows(page, "topics") == ["lakes"]
    expect(page.locator('[data-table="topics"] th[aria-sort="ascending"]')).to_have_text(re.compile("Topic.↑"))
    assert "show=paused" in page.url
    assert "q=lak" in page.url
