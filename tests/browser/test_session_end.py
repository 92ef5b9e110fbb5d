"""A session ends, and another role begins, under an open page."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import VIEWER_PASSWORD, OpenPage
from tests.support.pages.browser import Complaints, close
from tests.support.pages.console_page import create_channel, open_act, wait_until_live
from tests.support.processes.server import ADMIN_PASSWORD, ROOT, ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

# An open socket asks every 2 s whether its session still holds.
RECHECK_TIMEOUT_MS = 30_000


@pytest.fixture
def contexts(
    browser: Browser, server: ServerProcess, viewer: str, complaints: Complaints
) -> Iterator[list[BrowserContext]]:
    """Two browsers of their own: the shared sessions are not to be ended."""
    made = [browser.new_context(base_url=server.console_url) for _ in range(2)]
    for context in made:
        complaints.watch(context)
    yield made
    for context in made:
        close(context)


def open_as_vera(context: BrowserContext, console_url: str, path: str) -> Page:
    page = context.new_page()
    page.goto(f"/login/?next={path}")
    page.get_by_label("Name").fill("vera")
    page.get_by_label("Password").fill(VIEWER_PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{console_url}{path}")
    wait_until_live(page)
    return page


def give_role(server: ServerProcess, role: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    subprocess.run(
        [sys.executable, "manage.py", "user", "role", "vera", role, f"--data-path={server.data_path}"],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
    )


def test_a_page_says_that_its_session_ended_elsewhere_and_another_role_brings_the_other_back_with_its_buttons(
    contexts: list[BrowserContext], server: ServerProcess
) -> None:
    """Both at once: either is noticed when the socket asks again."""
    leaver, promoted = contexts
    create_channel(server, "promotion", "worker")
    # The list has no graphs, which might fetch what they missed and be refused before the socket is.
    page = open_as_vera(leaver, server.console_url, "/topics/")
    other = open_as_vera(promoted, server.console_url, "/topics/promotion/worker/")
    expect(other.get_by_role("link", name=re.compile("Pause…"))).to_have_count(0)

    elsewhere = leaver.new_page()
    elsewhere.goto("/password/")  # nor has this one
    elsewhere.locator(".who summary").click()
    elsewhere.get_by_role("button", name="Log out").click()
    # It stays open: Chromium has been seen to hang when it closes a page that goes elsewhere at that moment.
    expect(elsewhere).to_have_url(re.compile(r"/login/"))
    page.bring_to_front()
    give_role(server, "operator")
    try:
        expect(page.locator("#freshness")).to_have_text(re.compile("^logged out"), timeout=RECHECK_TIMEOUT_MS)
        expect(other.get_by_role("link", name=re.compile("Pause…"))).to_have_count(1, timeout=RECHECK_TIMEOUT_MS)
        wait_until_live(other)
        expect(page.locator("#messages")).to_contain_text("Your session is over: figures are not updated.")
        page.get_by_role("link", name="Log in again").click()
        expect(page).to_have_url(re.compile(r"/login/\?next=%2Ftopics%2F$"))
        expect(page.get_by_text("Your session is over; log in to go on.")).to_be_visible()
        page.get_by_label("Name").fill("vera")
        page.get_by_label("Password").fill(VIEWER_PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{server.console_url}/topics/")
    finally:
        give_role(server, "viewer")


def test_a_dialog_says_that_the_session_is_over_and_its_form_is_filled_in_again_after_the_log_in(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("/~pause/.*401")
    create_channel(server, "draft", "ink")
    page = open_page("/topics/draft/ink/", graphs=False)
    wait_until_live(page)
    until = f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%dT10:30}"
    dialog = open_act(page, "Pause…")
    dialog.get_by_label("The pause ends").select_option("until")
    dialog.locator("[name=until]").fill(until)
    dialog.get_by_label("Reason").fill("<b>bad</b> & late")
    page.context.clear_cookies(name=re.compile("^penstock_session"))
    expect(dialog.get_by_role("alert")).to_contain_text("Your session is over.")
    dialog.get_by_role("link", name="Log in, and go on with this form").click()
    expect(page.get_by_label("Name")).to_have_value("admin")
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert").filter(has_text="It is filled in as you left it")).to_be_visible()
    expect(page.get_by_label("The pause ends")).to_have_value("until")
    expect(page.locator("[name=until]")).to_have_value(until)
    expect(page.get_by_label("Reason")).to_have_value("<b>bad</b> & late")
    assert not server.channel_stats("draft", "ink")["paused"]
    page.get_by_role("button", name="Pause draft/ink").click()
    expect(page.locator("#messages li")).to_contain_text("Paused draft/ink until")
    assert server.channel_stats("draft", "ink")["paused"]
