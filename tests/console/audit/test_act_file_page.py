"""The audit page lists the acts that the engine wrote to its file while no console ran."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from admin_console.views.audit_file import PAGE_ROWS
from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.service.act_file.act_file import NAME, ActFile
from queue_engine.storage.disk.files import Files
from tests.support.pages.console import client_of, make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("created", "sentence"),
    [(True, "Created orders."), (False, "orders was there already; nothing was changed.")],
)
def test_a_topic_that_was_created_is_not_said_to_have_been_there(
    created: bool, sentence: str, tmp_path: Path, settings: Any
) -> None:
    settings.DATA_PATH = tmp_path
    file = ActFile(str(tmp_path), Files())
    file.append(
        [ActRecord("create_topic", "orders", "", "192.0.2.1:5", "", Outcome(created=created), act_id="a", at_ms=1)]
    )
    file.close()
    assert sentence in client_of(make_user()).get("/audit/?from=file").content.decode()


def test_acts_without_a_console_are_shown_and_named(tmp_path: Path, settings: Any) -> None:
    settings.DATA_PATH = tmp_path
    client = client_of(make_user())
    assert "without a console" not in client.get("/audit/").content.decode()
    act = ActRecord("", "orders", "", "192.0.2.1:5", "", None, actor="deploy", at_ms=1_700_000_000_000)
    file = ActFile(str(tmp_path), Files())
    file.append(
        [
            replace(act, action="read_messages", error="NOT_ALLOWED: no", times=12),
            replace(act, act_id="a", action="empty_topic", outcome=Outcome(depth=7), on_behalf_of="<b>alice</b>"),
            replace(act, act_id="b", action="delete_topic", is_intent=True),
            *[replace(act, action="create_topic", outcome=Outcome(created=True))] * PAGE_ROWS,
        ]
    )
    file.close()
    assert 'href="/audit/?from=file"' in client.get("/audit/").content.decode()
    page = client.get("/audit/?from=file").content.decode()
    assert "Acts without a console" in page
    assert page.count("create topic") == PAGE_ROWS
    older = client.get("/audit/?from=file&before=4").content.decode()
    for words in (
        "no result",
        "Emptied orders: removed 7 messages.",
        "NOT_ALLOWED: no",
        "(12 times)",
        ">token deploy<",
        ">token deploy, for &lt;b&gt;alice&lt;/b&gt;<",
    ):
        assert words in older, words
    for details in (b"null", b'{"offset":"far"}'):
        line = b'{"n":4,"at_ms":1,"phase":"event","act":"","action":"move_cursor","topic":"orders","channel":"copy",'
        line += b'"address":"192.0.2.1:5","counts":{},"details":%s}' % details
        with (tmp_path / NAME).open("ab") as opened:
            opened.write(b"%08x %s\n" % (crc32c(line), line))
    newest = client.get("/audit/?from=file").content.decode()
    assert (newest.count("damaged"), newest.count("move cursor")) == (1, 1)
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:30] + b"X" + whole[31:])
    assert "damaged" in client.get("/audit/?from=file&before=3").content.decode()
