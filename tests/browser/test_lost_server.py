"""The server goes away under an open page, and comes back."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import Complaints
from tests.support.console_page import (
    create_channel,
    figure,
    is_marked,
    mark,
    wait_for_figure,
    wait_until_live,
)
from tests.support.server import ADMIN_PASSWORD, ADMIN_USER, ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.browser]

# The page tries again after 0.25 s, then twice as long each time: a start of 5 s is seen 8 s after the loss.
BACK_TIMEOUT_S = 25.0


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("lost") / "data") as running:
        yield running


def log_in(browser: Browser, server: ServerProcess, complaints: Complaints, path: str) -> Page:
    context = browser.new_context(base_url=server.console_url)
    complaints.watch(context)
    page = context.new_page()
    page.goto(f"/login/?next={path}")
    page.get_by_label("Name").fill(ADMIN_USER)
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"**{path}")
    return page


def expect_loss(page: Page, live_colour: str) -> None:
    """Said at once; a little later the figures turn stale, and stay as they were last known."""
    expect(page.locator("#freshness")).not_to_have_text(re.compile("^live"), timeout=2_000)
    expect(page.locator("#freshness")).to_have_text(re.compile(r"^stale · \d+ s old"))
    assert figure(page, "depth") == "2"
    assert colour_of_depth(page) != live_colour


def colour_of_depth(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.querySelector('[data-figure=depth] dd')).color")
    return colour


def test_a_lost_server_shows_at_once_and_the_page_is_live_again_when_it_is_back(
    browser: Browser, own_server: ServerProcess, complaints: Complaints
) -> None:
    # While nobody listens the browser mentions each try.
    complaints.expect("WebSocket connection to .* failed")
    # And what the page was just fetching when the server went: the graphs' series, or plotly.js itself.
    complaints.allow("/(api/series|static)/.*net::ERR_")
    create_channel(own_server, "lake", "shore")
    own_server.http("POST", "/mpub?topic=lake", b"1\n2")
    page = log_in(browser, own_server, complaints, "/topics/lake/shore/")
    wait_until_live(page)
    wait_for_figure(page, "depth", "2")
    mark(page)
    live_colour = colour_of_depth(page)

    own_server.stop()
    expect_loss(page, live_colour)
    own_server.start()
    wait_until_live(page, BACK_TIMEOUT_S)
    wait_for_figure(page, "depth", "2")
    assert colour_of_depth(page) == live_colour
    own_server.http("POST", "/mpub?topic=lake", b"3\n4\n5")
    wait_for_figure(page, "depth", "5")
    own_server.http("POST", "/channel/empty?topic=lake&channel=shore")
    own_server.http("POST", "/mpub?topic=lake", b"6\n7")
    wait_for_figure(page, "depth", "2")

    own_server.kill9()
    expect_loss(page, live_colour)
    assert is_marked(page), "the page was reloaded"
    page.context.close()
