"""The pipeline in the browser, on a server with a real worker: a topic is archived, and published again.

One server and so one Spark for the tests of this file: starting it takes most of their time. They follow each other.
"""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, StorageState, expect

from queue_engine.lake.archive.listing import ArchiveListing
from queue_engine.lake.archive.rounds import BUSY_MESSAGES
from tests.browser.conftest import OpenPage
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import (
    cell,
    create_channel,
    figure,
    figure_note,
    is_marked,
    mark,
    message,
    open_act,
    wait_for_figure,
    wait_until_live,
)
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.slow(reason="drives the real Chromium"),
    pytest.mark.browser,
    pytest.mark.spark,
    pytest.mark.timeout(900),
]

SPARK_TIMEOUT_S = 240.0  # beside whatever else this machine does
FIRST = 3_000
SECOND = BUSY_MESSAGES  # fewer would wait for the next round
FEW = 1_000
PUBLISHED = FIRST + SECOND
AMOUNTS = 100  # body.amount goes from 0 up to this, again and again
MATCHING = PUBLISHED // 4
RATE = 20
BURST_S = 15  # what a rate may be ahead by


@pytest.fixture(scope="module")
def server(storage_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of this file's own, with a topic of two channels and its first messages."""
    # Spark beside other tests is not to wait for them.
    with ServerProcess(tmp_path_factory.mktemp("pipeline") / "data", options=["--worker-nice=0"]) as running:
        create_channel(running, "orders", "billing")
        create_channel(running, "orders", "mail")
        publish(running, FIRST)
        yield running
        assert "Traceback" not in running.log


@pytest.fixture(scope="module")
def sessions(server: ServerProcess) -> dict[str, StorageState]:
    return {}


@pytest.fixture
def pipeline(server: ServerProcess, open_page: OpenPage) -> Page:
    """The pipeline's page, live, with everything archived that was published."""
    page = open_page("/pipeline/", graphs=False)
    if page.locator('[data-table="archived"] tr[data-key^="orders/"]').count() == 0:
        switch_the_archive_on(page)
    wait_for_archived(page, archived_by(server))
    return page


def publish(server: ServerProcess, count: int) -> None:
    for first in range(0, count, 1_000):
        bodies = [b'{"number":%d,"amount":%d}' % (number, number % AMOUNTS) for number in range(first, first + 1_000)]
        server.http("POST", "/mpub?topic=orders", b"\n".join(bodies))


def archived_by(server: ServerProcess) -> int:
    """What is to be archived: what replays have published is left out."""
    return FIRST if server.topic_stats("orders")["message_count"] == FIRST else PUBLISHED


def switch_the_archive_on(page: Page) -> None:
    page.goto("/topics/orders/")
    wait_until_live(page)
    dialog = open_act(page, "Archive…")
    expect(dialog).to_contain_text("Its channels and consumers are not affected.")
    with page.expect_navigation():
        dialog.get_by_role("button", name="Archive orders").click()
    assert message(page) == f"Switched the archive of orders on: {FIRST:,} messages to archive."
    page.get_by_role("link", name="Pipeline").click()
    expect(page.get_by_role("heading", name="Pipeline", exact=True)).to_be_visible()
    wait_until_live(page)


def key_of_orders(page: Page) -> str:
    return page.locator('[data-table="archived"] tr[data-key^="orders/"]').get_attribute("data-key") or ""


def bar(page: Page, table: str, row: str) -> tuple[float, float]:
    """A bar's value and end, as the browser draws them; zeros for one that is not shown."""
    value, end = page.evaluate(
        """([table, row]) => {
          const drawn = document.querySelector(`[data-table="${table}"] tr[data-key="${row}"] progress`);
          return drawn?.checkVisibility({visibilityProperty: true}) ? [drawn.value, drawn.max] : [0, 0];
        }""",
        [table, row],
    )
    return float(value), float(end)


def wait_for_archived(page: Page, count: int) -> None:
    """Until the bar of the topic and that of the job are full, and say so."""
    row = key_of_orders(page)
    wait_for(
        f"{count:,} archived messages",
        lambda: bar(page, "archived", row) == (count, count) and bar(page, "jobs", "archive") == (count, count),
        timeout_s=SPARK_TIMEOUT_S,
        every_s=0.5,  # each look takes time that Spark has to wait for
    )
    assert cell(page, "archived", row, "progress").strip() == f"{count:,} messages"
    assert cell(page, "archived", row, "waiting") == "0"
    assert cell(page, "jobs", "archive", "progress").strip() == "100 %"
    assert cell(page, "jobs", "archive", "error") == ""


def test_a_topic_is_archived_and_the_page_follows_it_live(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page("/pipeline/", graphs=False)
    expect(page.get_by_text("No topic is archived")).to_be_visible()
    expect(page.get_by_text("New replay…")).to_be_hidden()
    switch_the_archive_on(page)
    mark(page)
    wait_for(
        "the topic to be counted",
        lambda: figure_note(page, "archived") == "messages of 1 topic",
        timeout_s=SPARK_TIMEOUT_S,
    )
    wait_for_archived(page, FIRST)
    wait_for_figure(page, "worker", "up")
    assert figure(page, "archived") == f"{FIRST:,}"
    # An archive that has begun takes what comes, and the page is told of each step. A few are gathered for a while.
    publish(server, FEW)
    row = key_of_orders(page)
    wait_for(
        "the bar to be told of the new ones",
        lambda: bar(page, "archived", row)[1] == FIRST + FEW,
        timeout_s=SPARK_TIMEOUT_S,
        every_s=0.05,
    )
    publish(server, SECOND - FEW)
    wait_for_archived(page, PUBLISHED)
    wait_for_figure(page, "oldest", "none")
    assert is_marked(page), "all of it came without a reload"
    assert cell(page, "archived", row, "offsets") == f"0 – {PUBLISHED - 1:,}"
    assert cell(page, "archived", row, "gaps") == "none lost"
    (archived,), broken = ArchiveListing(server.data_path / "pipeline").read()
    assert (archived.rows, archived.damaged_count, broken) == (PUBLISHED, 0, [])
    assert server.topic_stats("orders")["message_count"] == PUBLISHED


def test_an_expression_that_is_none_gets_its_sentence_and_stays_in_the_form(
    pipeline: Page, complaints: Complaints
) -> None:
    complaints.expect("/pipeline/~replay/.*400")
    pipeline.set_viewport_size({"width": 1440, "height": 900})
    dialog = open_act(pipeline, "New replay…")
    assert dialog.evaluate("(element) => element.scrollHeight <= element.clientHeight"), "all fields are in sight"
    dialog.get_by_label("Publish to topic").fill("orders")
    dialog.get_by_label("Expression").fill("body.amount >= and 5")
    dialog.get_by_role("button", name="Plan the replay").click()
    expect(dialog.get_by_role("alert")).to_have_text(
        re.compile(
            r"Expression: character 16: 'and' stands where a column, .* is expected, in \"body.amount >= ▸and 5\"\."
        )
    )
    expect(pipeline.get_by_label("Expression")).to_have_value("body.amount >= and 5")
    expect(pipeline.get_by_label("Publish to topic")).to_have_value("orders")


def test_a_replay_is_planned_run_at_its_rate_and_cancelled(server: ServerProcess, pipeline: Page) -> None:
    if archived_by(server) < PUBLISHED:
        publish(server, SECOND)
        wait_for_archived(pipeline, PUBLISHED)
    page = pipeline
    dialog = open_act(page, "New replay…")
    expect(dialog).to_contain_text("This is a dry run")
    dialog.get_by_label("Archived topic").select_option("orders")
    dialog.get_by_label("Publish to topic").fill("orders")
    dialog.get_by_label("Expression").fill(f"body.amount >= {AMOUNTS * 3 // 4} and not replayed")
    dialog.get_by_label("Rate limit, messages/s").fill(str(RATE))
    with page.expect_navigation():
        dialog.get_by_role("button", name="Plan the replay").click()
    assert "/pipeline/replays/" in page.url
    wait_until_live(page)
    mark(page)

    # The dry run: nothing is published by it.
    would_publish = page.get_by_role("strong").filter(has_text=f"This would publish {MATCHING:,} messages.")
    expect(would_publish).to_be_visible(timeout=SPARK_TIMEOUT_S * 1000)
    assert figure(page, "messages") == f"{MATCHING:,}"
    receivers = page.locator('[data-table="receivers"] tbody tr')
    assert receivers.all_inner_texts() == ["billing", "mail"]
    assert cell(page, "progress", "progress", "state") == "planned"
    expect(page.get_by_role("link", name="Cancel…")).to_be_hidden()
    assert server.topic_stats("orders")["message_count"] == PUBLISHED

    dialog = open_act(page, "Run…")
    expect(dialog).to_contain_text("They go to the channels billing and mail.")
    started_s = time.monotonic()
    with page.expect_navigation():
        dialog.get_by_role("button", name=f"Publish {MATCHING:,} messages to orders").click()
    wait_until_live(page)
    mark(page)
    shares = set()

    def moved() -> bool:
        value, end = bar(page, "progress", "progress")
        assert end in (0, MATCHING)
        shares.add(value)
        return len(shares) >= 4

    wait_for("the bar to move", moved, timeout_s=SPARK_TIMEOUT_S, every_s=0.1)
    assert max(shares) <= RATE * (time.monotonic() - started_s + BURST_S), "no faster than was asked for"
    expect(page.get_by_role("link", name="Run…")).to_be_hidden()
    assert is_marked(page)

    dialog = open_act(page, "Cancel…")
    expect(dialog).to_contain_text("published so far stay published")
    with page.expect_navigation():
        dialog.get_by_role("button", name="Cancel the replay").click()
    wait_until_live(page)
    wait_for(
        "the word",
        lambda: cell(page, "progress", "progress", "state") == "cancelled",
        timeout_s=SPARK_TIMEOUT_S,
        every_s=0.1,
    )
    # What was under way when it was cancelled has come; then nothing does, for as long as five steps took before.
    sent = 0

    def is_told() -> bool:
        nonlocal sent
        sent = server.topic_stats("orders")["message_count"] - PUBLISHED
        return figure(page, "done") == f"{sent:,}"

    wait_for("the page and the engine to agree", is_told, timeout_s=SPARK_TIMEOUT_S, every_s=0.1)
    assert 0 < sent < MATCHING
    agreed_s = time.monotonic()
    wait_for("five steps", lambda: time.monotonic() > agreed_s + 5, every_s=0.2)
    assert server.topic_stats("orders")["message_count"] == PUBLISHED + sent
    for channel in ("billing", "mail"):
        assert server.channel_stats("orders", channel)["depth"] == PUBLISHED + sent
    assert figure(page, "done") == f"{sent:,}"
    expect(page.get_by_role("link", name="Cancel…")).to_be_hidden()
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.get_by_role("button", name="Acts")).to_be_hidden()  # there is none now
    page.goto("/pipeline/")
    replays = page.locator('[data-table="replays"] tbody tr')
    expect(replays).to_have_count(1)
    expect(replays.first).to_contain_text("cancelled")
    expect(replays.first).to_contain_text("orders → orders")
