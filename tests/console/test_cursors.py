"""Pipeline cursors in the console: what a topic's page shows of them, and the acts that begin and end them."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.gateway.act_sentences import sentence_of
from admin_console.gateway.pipeline import Pipeline, set_pipeline
from admin_console.hub.hub import LiveState
from admin_console.screens.build import Request, build_screen
from admin_console.screens.cursors import cursor_table
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import Outcome
from queue_engine.engine.acts.log_acts import Target
from queue_engine.service.runner import EngineRunner
from queue_engine.wire.cursor import CursorGapStats, CursorStats
from tests.support.pages.console import client_of, make_user
from tests.support.pages.snapshots import topic

pytestmark = pytest.mark.django_db

JSON = {"Accept": "application/json"}
ON, OFF = "/topics/orders/~archive-on/", "/topics/orders/~archive-off/"
AGAIN = "/topics/orders/~archive-again/"
DELETE = "/topics/orders/~cursors/copy/~delete/"


def cursors(engine: EngineRunner) -> dict[str, CursorStats]:
    return {one.cursor: one for one in engine.calls.cursors().result(30).cursors}


def text_of(answer: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


def last_result() -> AuditRow:
    intent, result = AuditRow.objects.order_by("-id")[:2][::-1]
    assert (intent.phase, result.phase, intent.act_id) == ("intent", "result", result.act_id)
    return result


def shown(html: str, label: str) -> bool:
    """Whether the page offers this act now."""
    (button,) = re.findall(rf"<(?:a|span) class=\"button[^>]*>{label}<", html)
    return " hidden" not in button


def test_the_archive_is_switched_on_from_the_oldest_message_or_from_now_on(
    client: Client, engine: EngineRunner
) -> None:
    question = text_of(client.get(ON))
    assert "Archive orders" in question
    assert "The log keeps every message of the topic until it is archived" in question
    assert "the oldest message in the log messages published from now on" in question
    answer = client.post(ON, {"start": "start"}, headers=JSON)
    assert answer.json()["message"] == "Switched the archive of orders on: 5 messages to archive."
    assert cursors(engine)["archive"].offset == 0
    row = last_result()
    assert (row.action, row.object_name, row.verdict) == ("archive_on", "orders", "done")
    assert row.detail == "from the oldest message in the log"
    again = client.post(ON, {"start": "end"}, headers=JSON)
    assert (
        again.json()["message"]
        == "The archive of orders was on already, with 5 messages to archive; nothing was changed."
    )
    assert "It is on already, with 5 messages still to be archived" in text_of(client.get(ON))
    client.post(OFF, {"typed_name": "orders/archive"})
    client.post(ON, {"start": "end"})
    assert cursors(engine)["archive"].offset == 5


@pytest.mark.parametrize(("name", "lake"), [("p%20q", ""), ("data", "a|b/lake")])
def test_where_no_table_can_lie_the_archive_is_refused_with_the_reason(
    client: Client, engine: EngineRunner, tmp_path: Path, name: str, lake: str
) -> None:
    set_pipeline(Pipeline(tmp_path / name, archive_place=str(tmp_path / lake) if lake else ""))
    try:
        answer = client.post(ON, {"start": "start"}, headers=JSON)
        assert f"No table can lie below {tmp_path / (lake or name)}: the library" in text_of(client.get(ON))
    finally:
        set_pipeline(None)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(f"No table can lie below {tmp_path / (lake or name)}: the library")
    assert answer.json()["message"].endswith("name another one with --lake or --data-path. Nothing was done.")
    assert cursors(engine) == {}


def test_who_says_nothing_gets_everything_there_is(client: Client, engine: EngineRunner) -> None:
    client.post(ON)
    assert cursors(engine)["archive"].offset == 0
    client.post(OFF, {"typed_name": "orders/archive"})
    answer = client.post(ON, {"start": "middle"}, headers=JSON)
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "'middle' is neither start nor end. Nothing was done.",
    )
    assert cursors(engine) == {}


def test_switching_off_tells_exactly_what_is_given_up_first(client: Client, engine: EngineRunner) -> None:
    assert client.get(OFF).status_code == 404
    engine.calls.create_cursor("orders", cursor="archive").result(30)
    engine.calls.move_cursor("orders", cursor="archive", number=1, offset=2).result(30)
    question = text_of(client.get(OFF))
    assert "This gives up 3 messages that are not archived." in question
    refused = client.post(OFF, {"typed_name": "orders"}, headers=JSON)
    assert (refused.status_code, list(cursors(engine))) == (400, ["archive"])
    answer = client.post(OFF, {"typed_name": "orders/archive", "reason": "moved"}, headers=JSON)
    assert (
        answer.json()["message"] == "Switched the archive of orders off. It gave up 3 messages that are not archived."
    )
    assert cursors(engine) == {}
    row = last_result()
    assert (row.action, row.detail, row.reason, row.counts) == ("archive_off", "cursor archive", "moved", {"depth": 3})
    late = client.post(OFF, {"typed_name": "orders/archive"}, headers=JSON)
    assert (late.status_code, late.json()["code"]) == (404, "CURSOR_NOT_FOUND")
    assert late.json()["message"] == "Nothing was done to orders: cursor orders/archive does not exist."


def test_an_archive_whose_table_is_lost_begins_again_also_further_back(client: Client, engine: EngineRunner) -> None:
    assert client.get(AGAIN).status_code == 404
    engine.calls.create_cursor("orders", cursor="archive").result(30)
    engine.calls.move_cursor("orders", cursor="archive", number=1, offset=4, lake="0b7f").result(30)
    question = text_of(client.get(AGAIN))
    assert "all messages still in the log are archived again, each once" in question
    refused = client.post(AGAIN, {"typed_name": "orders", "start": "start"}, headers=JSON)
    assert (refused.status_code, cursors(engine)["archive"].offset) == (400, 4)
    answer = client.post(AGAIN, {"typed_name": "orders/archive", "start": "start"}, headers=JSON)
    assert answer.json()["message"] == "The archive of orders begins again, with 5 messages to archive."
    one = cursors(engine)["archive"]
    assert (one.offset, one.lake, one.gaps) == (0, "", ())
    assert (last_result().action, last_result().detail) == ("archive_again", "from the oldest message in the log")
    client.post(AGAIN, {"typed_name": "orders/archive", "start": "end"})
    assert cursors(engine)["archive"].offset == 5


def test_any_cursor_can_be_deleted(client: Client, engine: EngineRunner) -> None:
    assert client.get(DELETE).status_code == 404
    engine.calls.create_cursor("orders", cursor="copy", start=Target(offset=4)).result(30)
    assert "This gives up 1 message that is not read." in text_of(client.get(DELETE))
    answer = client.post(DELETE, {"typed_name": "orders/copy"})
    assert (answer.status_code, answer["Location"]) == (302, "/topics/orders/")
    assert cursors(engine) == {}
    assert last_result().message == "Deleted the pipeline cursor orders/copy. It gave up 1 message that is not read."


def test_the_page_of_a_topic_shows_its_cursors_and_the_switch(client: Client, engine: EngineRunner) -> None:
    page = client.get("/topics/orders/").content.decode()
    assert 'data-when="has_cursors" hidden' in page
    assert (shown(page, "Archive…"), shown(page, "Stop archiving…")) == (True, False)
    engine.calls.create_cursor("orders", cursor="archive", start=Target(offset=1)).result(30)
    page = client.get("/topics/orders/").content.decode()
    assert 'data-when="has_cursors">' in page
    assert (shown(page, "Archive…"), shown(page, "Stop archiving…")) == (False, True)
    (row,) = re.findall(r'<tr data-key="archive">.*?</tr>', page, re.DOTALL)
    assert re.findall(r'data-cell="(?:name|depth|gaps)"[^>]*>([^<]*)<', row) == ["archive", "4", "nothing"]
    assert "/topics/orders/~cursors/archive/~delete/" in row


def test_the_live_page_gets_them_every_second(engine: EngineRunner) -> None:
    engine.calls.create_cursor("orders", cursor="archive").result(30)
    live = LiveState(engine.calls.stats(topic="orders").result(30), {})
    update = orjson.loads(build_screen(Request("topic", Role.ADMIN, topic="orders"), live).update_json())
    assert update["tables"]["cursors"]["keys"] == ["archive"]
    assert update["tables"]["cursors"]["columns"]["depth"] == ["5"]
    flags = update["flags"]
    assert (flags["has_cursors"], flags["archived"], flags["unarchived"]) == (True, True, False)


def test_deleting_a_topic_tells_what_its_cursors_give_up(client: Client, engine: EngineRunner) -> None:
    assert "pipeline cursor" not in text_of(client.get("/topics/orders/~delete/"))
    engine.calls.create_cursor("orders", cursor="archive", start=Target(offset=2)).result(30)
    engine.calls.create_cursor("orders", cursor="done", start=Target(word="end")).result(30)
    asked = text_of(client.get("/topics/orders/~delete/"))
    assert "Its pipeline cursor archive gives up 3 messages that are not archived." in asked
    assert "pipeline cursor done" not in asked


def test_a_topic_of_another_storage_has_a_disabled_switch_that_says_why(client: Client, engine: EngineRunner) -> None:
    engine.calls.create_topic("old", storage="diskqueue").result(30)
    page = client.get("/topics/old/").content.decode()
    assert re.search(r"aria-disabled=\"true\" title=\"topic old has storage kind diskqueue: [^>]*>Archive…<", page)
    assert not shown(page, "Stop archiving…")
    assert page.count(">Topic old has storage kind diskqueue: ") == 1
    answer = client.get("/topics/old/~archive-on/")
    assert answer.status_code == 404
    assert "Topic old has storage kind diskqueue: only topics of the log can be archived." in text_of(answer)
    refused = client.post("/topics/old/~archive-on/", headers=JSON)
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_STORAGE")
    assert "topic old has storage kind diskqueue" in refused.json()["message"]


def test_an_operator_switches_on_and_only_an_admin_off(engine: EngineRunner) -> None:
    operator = client_of(make_user("olga", Role.OPERATOR))
    assert operator.post(ON, headers=JSON).status_code == 200
    for path in (OFF, "/topics/orders/~cursors/archive/~delete/"):
        assert operator.get(path).status_code == 403
        assert operator.post(path, {"typed_name": "orders/archive"}, headers=JSON).status_code == 403
    assert list(cursors(engine)) == ["archive"]
    page = operator.get("/topics/orders/").content.decode()
    assert "/topics/orders/~cursors/archive/~delete/" not in page
    assert client_of(make_user("vera", Role.VIEWER)).get(ON).status_code == 403


def cursor(**given: Any) -> CursorStats:
    figures: dict[str, Any] = {
        "cursor": "archive",
        "topic": "orders",
        "number": 1,
        "id_base": 1,
        "offset": 1_000,
        "end_offset": 13_304,
        "synced_offset": 13_304,
        "oldest_offset": 0,
        "depth": 12_304,
        "lag_bytes": 9 << 30,
        "retention_bytes": 10 << 30,
        "created_ms": 1_700_000_000_000,
        "is_warned": False,
    }
    return CursorStats(**(figures | given))


def cells(one: CursorStats) -> dict[str, Any]:
    (row,) = cursor_table(None, topic("orders", storage="log", cursors=(one,)), Role.ADMIN).rows
    return {column.name: cell for column, cell in row.cells}


def test_a_cursor_near_its_limit_has_a_chip_in_words() -> None:
    calm = cells(cursor())
    assert calm["state"].chips == ()
    assert (calm["depth"].text, calm["kept"].text, calm["kept"].tone) == ("12,304", "9.0 GiB", "")
    warned = cells(cursor(is_warned=True))
    (chip,) = warned["state"].chips
    assert (chip.text, chip.tone) == ("▲ 90 % of its limit", "warning")
    assert chip.title == "9.0 GiB of 10.0 GiB are held; beyond that it gives up messages"
    assert warned["kept"].tone == "warning"


def test_what_a_cursor_gave_up_is_told() -> None:
    gaps = (CursorGapStats(0, 300, "retention", 1), CursorGapStats(400, 1_000, "lost", 2))
    told = cells(cursor(gaps=gaps))["gaps"]
    assert (told.text, told.tone) == ("2 gaps, the last: offsets 400 to 999 (lost)", "danger")
    assert told.title == "offsets 0 to 299 (retention), 400 to 999 (lost)"


@pytest.mark.parametrize(
    ("action", "outcome", "sentence"),
    [
        (
            "create_cursor",
            Outcome(created=True, depth=5),
            "Created the pipeline cursor orders/copy: 5 messages to read.",
        ),
        (
            "create_cursor",
            Outcome(depth=5),
            "The pipeline cursor orders/copy was there already; nothing was changed.",
        ),
        (
            "delete_cursor",
            Outcome(),
            "Deleted the pipeline cursor orders/copy. It gave up nothing: it has read every message.",
        ),
    ],
)
def test_acts_over_http_are_told_in_a_sentence(action: str, outcome: Outcome, sentence: str) -> None:
    assert sentence_of(action, "orders", "copy", {}, outcome) == sentence
