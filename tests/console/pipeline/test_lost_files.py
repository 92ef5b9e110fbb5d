"""An archive whose table or files are lost, and what the page offers to mend it."""

import re
from pathlib import Path

import pytest
from django.test import Client

from queue_engine.service.runner import EngineRunner
from tests.console.pipeline.pages import row, shown, switch_on
from tests.support.lakes.pipeline_lake import archived_topic
from tests.support.pages.console import client_of, make_user, see

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("is_partial", "words", "label", "banner", "question"),
    [
        (False, "table lost", "New table…", "the table of its archive is lost", "all messages still in the log"),
        (
            True,
            "files missing",
            "Write missing files…",
            "files of its archive are missing",
            "messages of these files that the log still has are written again, once",
        ),
    ],
)
def test_an_archive_whose_table_or_files_are_lost_says_so_and_offers_to_mend_it(
    engine: EngineRunner,
    browser: Client,
    lake: Path,
    is_partial: bool,
    words: str,
    label: str,
    banner: str,
    question: str,
) -> None:
    switch_on(lake)
    engine.calls.publish("orders", [b"x"] * 5).result(30)
    engine.calls.create_cursor("orders", cursor="archive").result(30)
    cursor = see(engine).topics[0].cursors[0]
    archived_topic(
        lake, "orders", cursor.number, cursor.id_base, is_lost=True, is_partial=is_partial, error="It is gone."
    )
    html = shown(browser)
    said = row(html, "archived", f"orders/{cursor.number}-{cursor.id_base:x}")
    assert said.startswith(f"orders ▲ {words} +1 3,000 messages")
    assert said.endswith(label)
    assert "It is gone." in html
    page = browser.get("/topics/orders/").content.decode()
    assert "It is gone." in page[page.index(f"Not archived: {banner}.") :][:400]
    grace = client_of(make_user("grace"))
    admin = grace.get("/topics/orders/").content.decode()
    # Among the acts, and in the banner.
    shown_acts = re.findall(r'<a [^>]*href="/topics/orders/~archive-again/"[^>]*>[^<]*', admin)
    assert [one.rpartition(">")[2] for one in shown_acts if " hidden" not in one] == [label, label]
    assert 'href="/topics/orders/~archive-again/"' not in page
    asked = grace.get("/topics/orders/~archive-again/").content.decode()
    assert question in asked
    # The title and the button have the words of the act.
    assert len(re.findall(rf">\s*{label.rstrip('…')} (?:for|of) orders\s*<", asked)) >= 2
    assert ("these messages are given up for good" in asked) == is_partial
