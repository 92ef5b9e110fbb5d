"""Lists as CSV: the rows of all pages that the filter has, and nothing that a spreadsheet runs."""

import csv

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.support.pages.console_page import create_channel, message, open_act
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]


def downloaded(page: Page, name: str) -> tuple[str, list[list[str]]]:
    """The file's name, and its rows."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name).click()
    return download.value.suggested_filename, list(csv.reader(download.value.path().read_text().splitlines()))


def test_a_list_is_downloaded_with_all_its_pages_and_its_filter(
    server: ServerProcess, open_page: OpenPage, storage_kind: str
) -> None:
    wanted = [f"listed.{number:02}" for number in range(60)]
    for topic in [*wanted, "another"]:
        server.http("POST", f"/topic/create?topic={topic}")
    server.http("POST", "/mpub?topic=listed.07", b"\n".join([b"x"] * 1_204))
    page = open_page("/topics/?q=listed&number=2", graphs=False)
    name, (head, *rows) = downloaded(page, "Topics as CSV")
    assert name.startswith("penstock-Topics-")
    assert {"Topic", "Depth"} <= set(head)
    assert not {"", "Act", "Select"} & set(head)
    assert sorted(row[head.index("Topic")] for row in rows) == wanted
    assert [row[head.index("Depth")] for row in rows if row[head.index("Topic")] == "listed.07"] == ["1204"]
    # Each of two lists of a page has its own rows: one has pages, the other is downloaded once.
    for topic in wanted[:30]:
        create_channel(server, topic, "all")
    page.goto(f"{server.console_url}/?show=all&number=2")
    expect(page.locator('[data-text="page"]')).to_have_text("21–30 of 30")
    _, rows = downloaded(page, "Channels as CSV")
    assert sorted(row[0] for row in rows[1:]) == [f"{topic} / all" for topic in wanted[:30]]
    if storage_kind == "log":
        _, rows = downloaded(page, "The log as CSV")
        assert len(rows) == page.locator('[data-table="log"] tr').count()


def test_a_cell_that_a_spreadsheet_would_run_is_text(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "spread", "sheet")
    page = open_page("/topics/spread/sheet/", graphs=False)
    dialog = open_act(page, "Pause…")
    dialog.get_by_label("Reason").fill('=HYPERLINK("http://127.0.0.1:1/"&A1, "look")')
    dialog.get_by_role("button", name="Pause").last.click()
    message(page)
    page.goto(f"{server.console_url}/audit/?object=spread/sheet")
    _, (head, *rows) = downloaded(page, "Audit as CSV")
    assert head[0] == "When (UTC)"
    assert rows[0][head.index("Reason")] == '\'=HYPERLINK("http://127.0.0.1:1/"&A1, "look")'
    assert {row[head.index("Object")] for row in rows} == {"spread/sheet"}
    # What looks like a number in another's text stays as it was written.
    server.http("POST", "/channel/pause?topic=spread&channel=sheet&reason=1,2,3")
    page.goto(f"{server.console_url}/audit/?object=spread/sheet")
    _, (head, *rows) = downloaded(page, "Audit as CSV")
    assert "1,2,3" in {row[head.index("Reason")] for row in rows}
