"""Without JavaScript: not live, and everything else."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import audit_row, create_channel, figure, message, topology
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]


def test_pages_show_figures_and_say_that_they_stand_still(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "still", "water")
    server.http("POST", "/mpub?topic=still", b"1\n2\n3")
    page = open_page("/topics/still/water/", java_script_enabled=False)
    assert figure(page, "depth") == "3"
    # Chromium without scripts, as playwright has it, keeps the words for such readers out of sight, but has them.
    assert "Figures are not updated without JavaScript" in page.content()
    page.goto("/topics/still/")
    assert figure(page, "waiting") == "3"
    page.get_by_role("link", name="water").click()
    expect(page.get_by_role("heading", name="water")).to_be_visible()
    page.get_by_role("searchbox", name="Search topics").fill("still")
    with page.expect_navigation():  # nothing may be asked of a page that is on its way elsewhere
        page.get_by_role("searchbox", name="Search topics").press("Enter")

    def knows_the_topic() -> bool:
        page.reload()  # lists are up to a second old, and are not updated
        return page.get_by_role("table").get_by_role("link", name="still").count() == 1

    wait_for("the list to know the topic", knows_the_topic)


def test_an_act_goes_through_a_page_of_its_own(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("/~delete/.*400")
    create_channel(server, "plain", "form")
    page = open_page("/topics/plain/", java_script_enabled=False)
    page.get_by_role("link", name="Pause…").first.click()
    expect(page.get_by_role("heading", name="Pause plain")).to_be_visible()
    assert page.url.endswith("/topics/plain/~pause/")
    page.get_by_label("Reason").fill("no script")
    page.get_by_role("button", name="Pause plain").click()
    assert message(page).startswith("Paused plain")
    assert topology(server, "plain")["paused"] is True
    assert audit_row(page, "plain")["Reason"] == "no script"
    page.get_by_role("link", name="Delete…").click()
    page.get_by_label("to confirm").fill("plane")
    page.get_by_role("button", name="Delete plain").click()
    expect(page.get_by_role("alert")).to_contain_text("'plane' is not plain. Nothing was done.")
    page.get_by_label("to confirm").fill("plain")
    page.get_by_role("button", name="Delete plain").click()
    assert message(page).startswith("Deleted plain")
    assert topology(server, "plain") is None
