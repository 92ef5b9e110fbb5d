"""The server goes away under an open page, and comes back."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from queue_engine.storage.disk_queue.store import KIND as DISK_QUEUE
from queue_engine.storage.log_store.log_topic_store import KIND as LOG
from queue_engine.vocabulary.options.option import flag_of
from tests.browser.conftest import OpenPage
from tests.support.pages.axe import violations
from tests.support.pages.browser import Complaints, close
from tests.support.pages.console_page import (
    LIVE_TIMEOUT_S,
    create_channel,
    figure,
    is_marked,
    mark,
    open_act,
    wait_for_figure,
    wait_until_live,
)
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

# The page tries again after 0.25 s, then twice as long each time: a start of 5 s is seen 8 s after the loss.
BACK_TIMEOUT_S = 60.0
DISABLED = '[aria-disabled="true"]'  # what a kind of topic can't do stays so
SENTENCE = re.compile(
    r"The server does not answer\. All figures are from (\d\d:\d\d:\d\d) UTC\+5:45, "
    r"and no act can be done until it answers again\."
)


# The page's newest socket, by a name.
KEEP_SOCKET = """
window.WebSocket = class extends WebSocket {
  constructor(url) {
    super(url);
    window.socketOfPage = this;
  }
};
"""


@pytest.fixture
def own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    """One of each storage kind."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                ServerProcess(
                    tmp_path_factory.mktemp("lost") / "data",
                    options=["--no-pipeline", f"{flag_of('storage')}={kind}"],
                )
            )
            for kind in (LOG, DISK_QUEUE)
        ]


def log_in(browser: Browser, server: ServerProcess, complaints: Complaints, path: str) -> Page:
    context = browser.new_context(base_url=server.console_url)
    context.add_init_script(KEEP_SOCKET)
    complaints.watch(context)
    page = context.new_page()
    page.goto(f"/login/?next={path}")
    page.get_by_label("Name").fill(ADMIN_USER)
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{server.console_url}{path}")
    return page


def expect_not_live(page: Page) -> None:
    """Said as soon as the socket is closed."""

    def said_when_closed() -> str:
        is_open, text = page.evaluate(
            "() => [socketOfPage.readyState === WebSocket.OPEN, document.getElementById('freshness').textContent]"
        )
        return "" if is_open else text

    assert not wait_for("the socket's end", said_when_closed, timeout_s=LIVE_TIMEOUT_S).startswith("live")


def expect_said(page: Page, before_s: float, after_s: float) -> None:
    """A sentence says since when the figures are old, and every act is refused with it. The server was lost between
    these moments, Unix."""
    said = page.locator("#connection")
    expect(said).to_have_text(SENTENCE)
    assert said.get_attribute("role") == "alert"
    since = SENTENCE.fullmatch(said.inner_text())
    assert since is not None
    since_s = page.evaluate("(clock) => new Date(`${new Date().toDateString()} ${clock}`) / 1000", since.group(1))
    assert before_s - LIVE_TIMEOUT_S < since_s < after_s, "the time of the last figures"
    act = page.get_by_role("link", name="Empty…")
    expect(act).to_have_attribute("aria-disabled", "true")
    # A click by force: playwright waits for what is disabled.
    act.click(force=True)
    expect(said).to_have_text(SENTENCE)
    expect(page.get_by_role("dialog")).to_have_count(0)


def expect_stale(page: Page, live_colour: str) -> None:
    """A little later the figures turn stale, and stay as they were last known."""
    expect(page.locator("#freshness")).to_have_text(re.compile(r"^stale · (\d+m )?\d+ ?s old"))
    assert figure(page, "depth") == "2"
    assert colour_of_depth(page) != live_colour


def colour_of_depth(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.querySelector('[data-stat=depth] dd')).color")
    return colour


@pytest.mark.timeout(300)  # two servers stop, start and are killed
def test_a_lost_server_shows_at_once_and_the_page_is_live_again_when_it_is_back(
    browser: Browser, own_servers: list[ServerProcess], complaints: Complaints
) -> None:
    # While nobody listens the browser mentions each try.
    complaints.expect("WebSocket connection to .* failed")
    # And what the page was just fetching when the server went: the graphs' series, or plotly.js itself.
    # While the server starts, its console answers 503.
    complaints.allow("/(api/series|static)/.*(net::ERR_|status of 503)")
    complaints.allow("~requeue/.*(net::ERR_|Failed)")
    pages, live_colours, disabled_counts = [], [], []
    for server in own_servers:
        create_channel(server, "lake", "shore")
        server.http("POST", "/mpub?topic=lake", b"1\n2")
        page = log_in(browser, server, complaints, "/topics/lake/shore/")
        wait_for_figure(page, "depth", "2")
        wait_until_live(page)
        live_colours.append(colour_of_depth(page))
        disabled_counts.append(page.locator(DISABLED).count())
        mark(page)
        pages.append(page)

    before_s = time.time()
    for server, page in zip(own_servers, pages, strict=True):
        server.stop()
        # In the moment before the loss is seen, a click must not lead away to a page that is not there.
        page.get_by_role("link", name="Requeue in flight…").click(force=True)
        expect_not_live(page)
    after_s = time.time()
    for page, live_colour in zip(pages, live_colours, strict=True):
        expect_stale(page, live_colour)
        expect_said(page, before_s, after_s)
    for theme in ("dark", "light"):
        pages[0].emulate_media(color_scheme=theme)
        assert violations(pages[0], ".top") == []
    for server in own_servers:
        server.start()
    for server, page, live_colour, disabled in zip(own_servers, pages, live_colours, disabled_counts, strict=True):
        wait_until_live(page, BACK_TIMEOUT_S)
        wait_for_figure(page, "depth", "2")
        wait_for("live figures' colour", lambda: colour_of_depth(page) == live_colour, timeout_s=LIVE_TIMEOUT_S)  # noqa: B023
        assert is_marked(page), "the page was left"
        expect(page.locator("#connection")).to_be_hidden()
        expect(page.locator("#live-summary")).to_have_text("The figures are live again.")
        expect(page.locator(DISABLED)).to_have_count(disabled)
        server.http("POST", "/mpub?topic=lake", b"3\n4\n5")
        wait_for_figure(page, "depth", "5")
        server.http("POST", "/channel/empty?topic=lake&channel=shore")
        server.http("POST", "/mpub?topic=lake", b"6\n7")
        wait_for_figure(page, "depth", "2")

    for page in pages:
        open_act(page, "Requeue in flight…")
    for server, page in zip(own_servers, pages, strict=True):
        server.kill9()
        expect_not_live(page)
    for page, live_colour in zip(pages, live_colours, strict=True):
        expect_stale(page, live_colour)
        # The dialog covers the page: it says so itself, and stays.
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("alert")).to_have_text(SENTENCE)
        dialog.locator('[type="submit"]').click(force=True)
        expect(dialog.get_by_role("alert")).to_have_text(SENTENCE)
        assert is_marked(page), "the page was reloaded"
        close(page.context)


def test_without_a_socket_the_page_says_that_acts_can_be_done(open_page: OpenPage, server: ServerProcess) -> None:
    """A proxy may let no sockets through."""
    create_channel(server, "socketless", "line")
    # In a tab that no other test gets: nothing takes such a route back.
    page = open_page("/password/", graphs=False).context.new_page()
    page.route_web_socket("**/ws/live/", lambda socket: socket.close())
    page.goto("/topics/socketless/line/")
    expect(page.locator("#connection")).to_have_text(
        re.compile("^The live figures have stopped: all figures are from .*. The server answers, acts can be done.$")
    )
    open_act(page, "Empty…")
