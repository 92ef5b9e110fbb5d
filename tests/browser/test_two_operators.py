"""Two browsers at once: what one does is said in the other, before and after it confirms an older question."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.test_acts import confirm, expect_refused, press
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import LIVE_TIMEOUT_S, create_channel, open_act, wait_until_live
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

SOON_MS = LIVE_TIMEOUT_S * 1_000


def test_an_untouched_dialog_takes_no_other_pause_away(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("~pause/.*409")
    create_channel(server, "twin", "left")
    first, second = (open_page("/topics/twin/left/", graphs=False) for _ in range(2))
    for page in (first, second):
        wait_until_live(page)
    late = open_act(second, "Pause…")
    early = open_act(first, "Pause…")
    early.get_by_label("The pause ends").select_option("15m")
    confirm(early, "Pause twin/left", Reason="bad deploy")
    # It is said before anybody confirms, and the older question is not done.
    expect(late.get_by_role("alert")).to_contain_text("Paused twin/left for 15m", timeout=SOON_MS)
    press(late, "Pause twin/left")
    expect_refused(late, "twin/left changed after this was shown.")
    expect_refused(late, "Nothing was done.")
    expect(late.get_by_role("heading")).to_have_text("Change the pause of twin/left")
    expect(late.get_by_label("Reason")).to_have_value("bad deploy")
    channel = next(one for one in server.topic_stats("twin")["channels"] if one["channel_name"] == "left")
    assert channel["paused"] is True
    confirm(late, "Change the pause of twin/left", Reason="still bad")
    expect(second.locator("#messages")).to_contain_text("Changed the pause of twin/left")


def test_a_channel_that_is_deleted_behind_a_dialog_is_said_there_and_on_the_page(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("/topics/shaft/deep/.*404")
    complaints.expect("/shaft/deep/~messages/.*net::ERR_FAILED")
    complaints.allow("favicon.*net::ERR_FAILED")
    create_channel(server, "shaft", "deep")
    first, second = (open_page("/topics/shaft/deep/", graphs=False) for _ in range(2))
    third = open_page("/topics/shaft/deep/~messages/", graphs=False)  # has no socket
    for page in (first, second):
        wait_until_live(page)
    third.route("**/*", lambda route: route.abort())
    expect(third.locator("#connection")).to_contain_text("The server does not answer.", timeout=SOON_MS)
    third.unroute("**/*")
    dialog = open_act(second, "Empty…")
    confirm(open_act(first, "Delete…"), "Delete shaft/deep", Type="shaft/deep")
    alert = dialog.get_by_role("alert")
    expect(alert).to_contain_text("There is no channel shaft/deep.", timeout=SOON_MS)
    expect(alert).to_contain_text("admin: Deleted shaft/deep")
    expect(dialog.get_by_role("button", name="Empty shaft/deep")).to_be_disabled()
    expect(second.locator("#freshness")).to_have_text(re.compile("^deleted · "))
    expect(second.locator("body")).to_have_class(re.compile("is-stale"))
    dialog.get_by_role("link", name="Cancel").click()
    # It asks again once the server answers.
    told = third.locator("#messages li")
    expect(told).to_contain_text("admin: Deleted shaft/deep", timeout=SOON_MS)
    expect(told.get_by_role("link", name="Reload the page")).to_be_visible()
    gone = second.locator("#content")
    expect(gone).to_contain_text("There is no channel shaft/deep", timeout=SOON_MS)
    expect(gone).to_contain_text(": Deleted shaft/deep")
