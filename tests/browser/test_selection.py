"""Rows of a list are selected, and one act is done on all of them."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.support.pages.console_page import create_channel, wait_until_live
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]


def select(page: Page, *names: str) -> None:
    for name in names:
        page.get_by_role("checkbox", name=f"Select {name}", exact=True).check()


def paused(server: ServerProcess, topic: str, *channels: str) -> list[bool]:
    return [bool(server.channel_stats(topic, channel)["paused"]) for channel in channels]


def test_selected_channels_are_paused_together_and_what_failed_is_asked_again(
    server: ServerProcess, open_page: OpenPage
) -> None:
    for channel in ("red", "green", "blue"):
        create_channel(server, "tints", channel)
    page = open_page("/topics/tints/", graphs=False)
    wait_until_live(page)
    acts = page.get_by_role("form", name="Acts on the selected channels")
    expect(acts).to_be_hidden()
    select(page, "red", "green", "blue")
    expect(acts).to_contain_text("3 selected")
    # Updates come every second; the selection stays.
    server.http("POST", "/pub?topic=tints", b"a message")
    expect(page.locator('tr[data-key="red"] [data-cell="depth"]')).to_have_text("1")
    expect(acts).to_contain_text("3 selected")
    acts.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("tints/green: 1 message, 0 consumers")
    create_channel(server, "other", "red")
    server.http("POST", "/channel/delete?topic=tints&channel=blue")
    # The dialog says at once what is about its own names.
    expect(dialog.get_by_role("alert")).to_contain_text("Deleted tints/blue")
    expect(dialog.get_by_role("alert")).not_to_contain_text("other")
    dialog.get_by_role("button", name="Pause 3 channels").click()
    expect(dialog).to_contain_text("Paused 2 of 3 channels")
    assert paused(server, "tints", "red", "green") == [True, True]
    dialog.get_by_role("button", name="Pause the 1 left again…").click()
    expect(dialog).to_contain_text("tints/blue: it no longer exists")
    dialog.get_by_role("link", name="Cancel").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Unselect").click()
    expect(acts).to_be_hidden()

    # More names than proxies take in a link.
    many = [f"{number:02}-".ljust(64, "x") for number in range(61)]
    for channel in many:
        server.http("POST", f"/channel/create?topic=tints&channel={channel}")
    expect(page.locator(f'tr[data-key="{many[-1]}"]')).to_be_attached()
    page.get_by_role("checkbox", name="Select all that the list shows").check()
    page.get_by_role("checkbox", name="Select red", exact=True).uncheck()
    expect(acts).to_contain_text("62 selected")
    with page.expect_request(lambda request: request.method == "POST") as asked:
        acts.get_by_role("button", name="Resume…").click()
    assert "?" not in asked.value.url
    expect(dialog.get_by_role("heading")).to_have_text("Resume 62 channels")


def test_all_that_match_are_offered_once_the_page_is_selected(server: ServerProcess, open_page: OpenPage) -> None:
    for number in range(25):
        create_channel(server, "wide", f"c{number:02}")
    page = open_page("/?show=all&q=wide/", graphs=False)
    wait_until_live(page)
    expect(page.locator('[data-text="page"]')).to_have_text("1–20 of 25")
    offered = page.get_by_role("checkbox", name="Select all 25 that match")
    page.get_by_role("checkbox", name="Select wide/c00").check()
    expect(offered).to_be_hidden()
    page.get_by_role("checkbox", name="Select all that the list shows").check()
    offered.check()
    expect(page.locator(".selected-acts")).to_contain_text("All 25 selected")
    page.get_by_role("checkbox", name="Select wide/c00").uncheck()
    expect(offered).to_be_hidden()
    expect(page.locator(".selected-acts")).to_contain_text("19 selected")
    page.get_by_role("checkbox", name="Select wide/c00").check()
    expect(offered).not_to_be_checked()
    offered.check()
    page.locator(".selected-acts").get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Pause 25 channels").click()
    expect(dialog).to_contain_text("and 5 more are done")
    assert paused(server, "wide", "c00", "c24") == [True, True]
    dialog.get_by_role("button", name="Undo: resume 25 channels…").click()
    dialog.get_by_role("button", name="Resume 25 channels", exact=True).click()
    expect(dialog).to_contain_text("Resumed 25 channels")
    assert paused(server, "wide", "c00", "c24") == [False, False]


def test_all_rows_are_selected_and_resumed_without_a_script(server: ServerProcess, open_page: OpenPage) -> None:
    for channel in ("one", "two"):
        create_channel(server, "plain", channel)
        server.http("POST", f"/channel/pause?topic=plain&channel={channel}")
    page = open_page("/topics/plain/", java_script_enabled=False)
    select(page, "one", "two")
    page.get_by_role("button", name="Resume…").click()
    expect(page.get_by_role("heading", name="Resume 2 channels")).to_be_visible()
    page.get_by_role("button", name="Resume 2 channels").click()
    expect(page.get_by_role("heading", name="Resumed 2 channels")).to_be_visible()
    wait_for("both to be resumed", lambda: paused(server, "plain", "one", "two") == [False, False])
