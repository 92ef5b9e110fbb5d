"""What axe finds on the pages and dialogs of the console, in both themes and two widths: nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from playwright.sync_api import Page, ViewportSize, expect

from admin_console.permissions.table import ACTS, PAGES
from queue_engine.service.identity.token_file import TokenFile
from tests.browser.conftest import OpenPage
from tests.browser.pages import ConsolePage, pages_of
from tests.support.lakes.pipeline_lake import planned_replay
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.axe import small_targets, violations
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import create_channel, open_act
from tests.support.pages.urls import AT_LOOKUPDS, CLIENT, NODE
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

# High enough for graphs to be drawn: they are where they are in view.
WIDE: ViewportSize = {"width": 1440, "height": 1200}
NARROW: ViewportSize = {"width": 360, "height": 2400}
TOPIC, CHANNEL, REPLAY = "access", "lane", "20260301-143000-7f3a"
KWARGS = (
    (),
    ("topic",),
    ("topic", "channel"),
    ("topic", "channel", "message"),
    ("topic", "cursor"),
    ("job",),
    ("replay",),
    ("topic", "trash"),
    ("token",),
    ("node",),
    ("node", "client"),
)
TRASHED = "trashed"  # a topic of the log on every server: another kind has no trash
ASKED = {"topic": TOPIC, "channel": CHANNEL, "job": "archive", "replay": REPLAY, "cursor": "archive", "message": "0"}
ASKED |= {"node": NODE, "client": CLIENT}
# Their paths are those of a run: the list of each, and the link to its first row's page.
OF_A_ROW = {"client": ("/clients/", "connections"), "node": ("/nodes/", "nodes")}
# Every act's form is looked at in its dialog; the page that it is without scripts needs to be seen once.
LOOKED_AT = tuple(
    page
    for page in (*pages_of(TOPIC, CHANNEL), ConsolePage("replay", f"/pipeline/replays/{REPLAY}/"))
    if not page.act and (not page.name.startswith("confirm-") or page.name == "confirm-empty-topic")
)


def complaints_about(page: Page, within: str = "") -> list[str]:
    """In both themes and widths, from the width that there is. A theme changes colours and nothing else."""
    found = []
    for size in (WIDE, NARROW) if page.viewport_size == WIDE else (NARROW, WIDE):
        if page.viewport_size != size:
            page.set_viewport_size(size)
        for theme in ("light", "dark") if size == WIDE else ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            lines = violations(page, within, colours_only=theme == "dark")
            if theme == "light":
                lines += small_targets(page)
            found += [f"{size['width']} px, {theme}: {line}" for line in lines]
    return found


def path_of(name: str, trash: int = 0, token: str = "") -> str:
    """The path of a page or an act: about the topic, channel, job, replay, cursor or message of ASKED, about an entry
    in the trash, or about a token."""
    for names in KWARGS:
        asked = {**ASKED, "token": token}
        if "trash" in names:
            asked |= {"topic": TRASHED, "trash": str(trash)}
        try:
            return reverse(name, kwargs={each: asked[each] for each in names})
        except NoReverseMatch:
            continue
    raise AssertionError(f"no path of {name} is known here")


def open_dialog(page: Page, url: str) -> None:
    """As a click on a link to it does, wherever that stands."""
    page.evaluate(
        """(url) => {
          const link = document.createElement("a");
          Object.assign(link, {href: url, textContent: "Open"}).dataset.dialog = "";
          document.querySelector("main").append(link);
          link.click();
          link.remove();
        }""",
        url,
    )
    page.get_by_role("dialog").wait_for()


def set_details(page: Page, *, is_open: bool) -> None:
    page.evaluate("(open) => { for (const each of document.querySelectorAll('details')) each.open = open; }", is_open)


@pytest.fixture(scope="module")
def busy_channel(server: ServerProcess) -> Iterator[None]:
    """One with a consumer, messages in flight, waiting and deferred, and with a replay."""
    create_channel(server, TOPIC, CHANNEL)
    create_channel(server, TOPIC, "alone")  # nobody consumes it: the pages have something to say
    planned_replay(Path(server.data_path) / "pipeline", REPLAY, topic=TOPIC)
    with NsqSocket(server.tcp_port) as consumer:
        consumer.identify(client_id="billing-worker-eu-west-1", user_agent="pynsq/0.9.1")
        consumer.subscribe(TOPIC, CHANNEL, rdy=2)
        server.http("POST", f"/mpub?topic={TOPIC}", b"1\n2\n3")
        server.http("POST", f"/pub?topic={TOPIC}&defer=3600000", b"later")
        yield


def expect_none(found: dict[str, list[str]]) -> None:
    lines = [f"{name}, {line}" for name, lines in found.items() for line in lines]
    assert not lines, "\n".join(lines)


@pytest.mark.timeout(300)  # all pages; axe takes its time where the processors are busy
def test_axe_finds_nothing_on_any_page(
    server: ServerProcess, busy_channel: None, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("nothing-is-called-so/.*404")
    complaints.expect("/audit/.*403")
    tabs = {user: open_page("/login/", user=user, graphs=False, viewport=WIDE) for user in ("", "admin", "vera")}
    with_graphs = open_page("/login/", viewport=WIDE)
    found = {}
    for wanted in LOOKED_AT:
        has_graphs = wanted.name in ("overview", "channel")
        page = with_graphs if has_graphs else tabs[wanted.user]
        page.goto(wanted.path)
        expect(page.locator("h1").first).to_be_visible()
        if has_graphs:
            page.locator(".js-plotly-plot").first.wait_for()
        found[wanted.name] = complaints_about(page)
        if wanted.name == "channel":
            set_details(page, is_open=True)
            page.locator(".figure details table").first.wait_for()
            found["what opens on it"] = complaints_about(page, "details")
            set_details(page, is_open=False)
            page.set_viewport_size(NARROW)
            page.locator(".acts-button").click()
            found["acts behind their button"] = complaints_about(page, ".actions")
        if has_graphs:
            page.goto("/password/")  # graphs that nobody looks at are drawn every second
    with NsqSocket(server.tcp_port) as consumer:
        consumer.subscribe(TOPIC, CHANNEL)
        for name, (path, table) in OF_A_ROW.items():
            page.goto(path)
            page.locator(f"[data-table={table}] td.name a").first.click()
            expect(page.locator("[data-table=facts]")).to_be_visible()
            found[name] = complaints_about(page)
    # Made when the database fails; here it is only shown.
    html = render_to_string("unavailable.html", {"status": 503, "sentence": "The disk is full."})
    page.route("**/unavailable/", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.goto("/unavailable/")
    found["unavailable"] = complaints_about(page)
    expect_none(found)


@pytest.fixture(scope="module")
def trash(server: ServerProcess) -> int:
    """The id of a deleted channel of TRASHED."""
    server.http("POST", f"/topic/create?topic={TRASHED}&storage=log")
    create_channel(server, TRASHED, "gone")
    server.http("POST", f"/channel/delete?topic={TRASHED}&channel=gone")
    entries = json.loads(server.http("GET", "/trash"))["entries"]
    return int(next(entry["id"] for entry in entries if entry["topic"] == TRASHED))


@pytest.fixture(scope="module")
def token(server: ServerProcess) -> str:
    """The id of a token; the server lets programs in without one."""
    file = TokenFile(server.data_path)
    return file.create("deploy", ["publish"], ["orders.*"], expires_ms=0, by="admin", now_ms=1_700_000_000_000)[0].id


@pytest.mark.timeout(300)
def test_axe_finds_nothing_in_any_dialog(
    busy_channel: None, trash: int, token: str, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("/topics/~create/.*400")
    page = open_page("/topics/", graphs=False, viewport=WIDE)
    dialog = open_act(page, "New topic…")
    dialog.get_by_label("Name").fill("not a name")
    dialog.get_by_role("button", name="Create topic").click()
    page.get_by_role("alert").wait_for()
    found = {"what is wrong in a form": complaints_about(page)}
    page.goto(f"/topics/{TOPIC}/~archive-on/")
    page.get_by_role("button", name="Archive").click()
    expect(page.locator("#messages li")).to_be_visible()
    found["what was done"] = complaints_about(page, "main")
    page.goto("/password/")  # the least page to have under them
    complaints.expect("~create/.*net::ERR_FAILED")
    page.route("**/topics/~create/", lambda route: route.abort())
    open_dialog(page, path_of("create_topic"))
    found["no answer"] = complaints_about(page, "dialog")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.unroute_all()
    open_dialog(page, path_of("create_topic"))
    page.route("**/topics/~create/", lambda route: route.abort())
    page.get_by_role("dialog").get_by_label("Name").fill("lost")
    page.get_by_role("button", name="Create topic").click()
    page.get_by_role("alert").wait_for()
    found["no answer to a form"] = complaints_about(page, "dialog")
    page.get_by_role("dialog").get_by_role("link", name="Cancel", exact=True).click()
    page.unroute_all()
    for act in ACTS:
        if act in AT_LOOKUPDS:
            continue  # there is no nsqlookupd here; their forms are those of revoke_token and delete_trash
        open_dialog(page, path_of(act, trash, token))
        found[act] = complaints_about(page, "dialog")
        page.get_by_role("dialog").locator("[data-close]").click()  # Cancel; Close where nothing can be done
    expect_none(found)


def test_every_page_is_among_those_that_are_looked_at() -> None:
    """Acts are taken from the table of permissions itself."""
    paths = {page.path.partition("?")[0] for page in LOOKED_AT}
    missing = {name for name in PAGES if path_of(name) not in paths}
    assert missing == {"logout", "clock", *OF_A_ROW}, (
        "logging out leads to the log-in, the choice of a clock back to its page"
    )
