"""Two more servers for pictures: one with programs, nsqlookupds and an archive, one on which nothing was done yet."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Page

from queue_engine.lake.archive.listing import ArchiveListing
from queue_engine.service.identity.token_file import TokenFile
from tests.browser.act_forms import OF_PROGRAMS, forms
from tests.browser.pages import ConsolePage
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.daemon_process import DaemonProcess
from tests.support.processes.lookup_process import LookupProcess
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

SPARK_TIMEOUT_S = 400.0  # beside whatever else this machine does
LOST_TIMEOUT_MS = 60_000
_COUNT = 5_000
_DAY_MS = 86_400_000


@contextmanager
def programs(directory: Path) -> Iterator[tuple[ServerProcess, tuple[ConsolePage, ...]]]:
    """A server and its pages: an archive with a replay that waits and one that ran, tokens in each state, acts from a
    time without a console, an nsqlookupd that answers and one that is gone."""
    with DaemonProcess(directory / "data", options=["--storage=log"]) as daemon:
        for number in range(3):
            daemon.http("POST", f"/topic/create?topic=night.{number}")
        daemon.http("POST", "/topic/delete?topic=night.2")
    with ExitStack() as running:
        lookup, lost = (running.enter_context(LookupProcess()) for _ in range(2))
        options = [f"--lookupd-tcp-address={one.tcp_address}" for one in (lookup, lost)]
        options += ["--broadcast-address=127.0.0.1", "--allow-anonymous=true"]
        server = running.enter_context(ServerProcess(directory / "data", options=options))
        for topic in ("clicks", "gone"):
            server.http("POST", f"/topic/create?topic={topic}&storage=log")
            server.http("POST", f"/channel/create?topic={topic}&channel=reports")
        for first in range(0, _COUNT, 1_000):
            bodies = [b'{"number":%d,"amount":%d}' % (number, number % 100) for number in range(first, first + 1_000)]
            server.http("POST", "/mpub?topic=clicks", b"\n".join(bodies))
        server.http("POST", "/topic/delete?topic=gone")
        known = {
            "trash": str(next(one["id"] for one in _trash(server) if one["topic"] == "gone")),
            "token": _tokens(server),
            "node": f"127.0.0.1:{server.http_port}",
            "replay": _archive_with_replays(server),
        }
        wait_for("both registrations", lambda: lookup.producer_ports("clicks") and lost.producer_ports("clicks"))
        lookup.post("/topic/create?topic=lonely")
        lookup.post("/channel/create?topic=clicks&channel=lonely")
        lost.stop()
        yield server, pages_of_programs(known)


def pages_of_programs(known: dict[str, str]) -> tuple[ConsolePage, ...]:
    """known: what the paths of act_forms.py leave open."""
    replay = f"/pipeline/replays/{known['replay']}/"
    return (
        ConsolePage("pipeline-archived", "/pipeline/"),
        ConsolePage("pipeline-viewer", "/pipeline/", user="vera"),
        ConsolePage("topic-archived", "/topics/clicks/"),
        ConsolePage("replay-planned", replay),
        ConsolePage("replay-viewer", replay, user="vera"),
        ConsolePage("lookups", "/lookup/"),
        ConsolePage("tokens-some", "/tokens/"),
        ConsolePage("audit-file", "/audit/?from=file"),
        ConsolePage("trash-some", "/trash/"),
        *forms(OF_PROGRAMS, **known),
        ConsolePage("token-made", "/tokens/~create/", steps=_token_made),
        ConsolePage("replay-ran", replay, steps=_replay_ran),
    )


@contextmanager
def nothing_done(directory: Path) -> Iterator[tuple[ServerProcess, tuple[ConsolePage, ...]]]:
    """A server that was started for the first time a moment ago, and its pages. The last one sees it end."""
    places = ("overview", "topics", "trash", "pipeline", "lookup", "audit", "tokens")

    def lose(page: Page) -> None:
        server.stop()
        page.locator("#connection:not(:empty)").wait_for(timeout=LOST_TIMEOUT_MS)

    with ServerProcess(directory / "data", options=["--no-pipeline"]) as server:
        yield (
            server,
            (
                *(ConsolePage(f"empty-{name}", "/" if name == "overview" else f"/{name}/") for name in places),
                ConsolePage("empty-overview-viewer", "/", user="vera"),
                ConsolePage("session-over", "/topics/", user="vera", steps=_session_over),
                ConsolePage("server-lost", "/", steps=lose, once=True),
            ),
        )


def _trash(server: ServerProcess) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = json.loads(server.http("GET", "/trash"))["entries"]
    return entries


def _tokens(server: ServerProcess) -> str:
    """One that is valid, whose id is returned, one that expired, one that was revoked, and one with a long name."""
    file, now_ms = TokenFile(server.data_path), time.time_ns() // 1_000_000
    file.create(
        "old-exporter", ["consume"], ["*"], expires_ms=now_ms - _DAY_MS, by="admin", now_ms=now_ms - 9 * _DAY_MS
    )
    file.create("intern", ["publish", "consume", "administer"], ["*"], expires_ms=0, by="admin", now_ms=now_ms)
    file.revoke("intern", by="admin", now_ms=now_ms)
    name = "billing-service-of-the-northern-warehouse"
    file.create(
        name, ["publish", "consume"], ["orders.*", "payments.*", "mails.*"], expires_ms=0, by="admin", now_ms=now_ms
    )
    token, _ = file.create(
        "deploy", ["publish"], ["orders.*"], expires_ms=now_ms + 90 * _DAY_MS, by="admin", now_ms=now_ms
    )
    return token.id


def _archive_with_replays(server: ServerProcess) -> str:
    """Archives the topic's messages, and plans a replay, whose name is returned."""
    client = ConsoleClient(server.console_port)
    client.log_in()
    path = "/topics/clicks/~archive-on/"
    client.post(path, {}, form_path=path)
    listing = ArchiveListing(server.data_path / "pipeline")
    wait_for(
        "the archive",
        lambda: sum(one.rows for one in listing.read()[0]) == _COUNT,
        timeout_s=SPARK_TIMEOUT_S,
        every_s=1,
    )
    client.close()  # the server has, by now; the next request opens it again
    path = "/pipeline/~replay/"
    fields = {"topic": "clicks", "target": "clicks", "expression": "body.amount >= 90 and not replayed"}
    answer = client.post(path, fields, form_path=path)
    replay = answer.headers["location"].rstrip("/").rpartition("/")[2]
    page = f"/pipeline/replays/{replay}/"
    wait_for("the plan", lambda: ">planned<" in client.get(page).text, timeout_s=SPARK_TIMEOUT_S, every_s=1)
    client.close()
    return replay


def _token_made(page: Page) -> None:
    page.locator("[name=token_name]").fill(f"deploy-{time.time_ns()}")
    page.get_by_label("publish messages").check()
    page.get_by_role("button", name="Create token").click()
    page.locator("#secret").wait_for()


def _replay_ran(page: Page) -> None:
    state = page.locator('[data-table="progress"] [data-cell="state"]')
    if "planned" in state.inner_text():
        if page.locator(".acts-button").is_visible():
            page.locator(".acts-button").click()
        page.get_by_role("link", name="Run…").click()
        with page.expect_navigation():
            page.get_by_role("dialog").locator("button[type=submit]").click()
    wait_for("the replay to end", lambda: "done" in state.inner_text(), timeout_s=SPARK_TIMEOUT_S, every_s=1)


def _session_over(page: Page) -> None:
    # What tells that this browser was logged in stays: it outlives the session.
    page.context.clear_cookies(name=re.compile("^penstock_session"))
    page.reload()
