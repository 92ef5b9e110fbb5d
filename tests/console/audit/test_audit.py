"""The audit list: rows are only added, acts over the HTTP API are in it, and it can be searched."""

import http.client
import json
import logging
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import DatabaseError, connection
from django.test import Client, RequestFactory

from admin_console.audit.chain import append
from admin_console.audit.engine_acts import row_of
from admin_console.audit.models import AuditRow, Phase, Verdict
from admin_console.audit.record import NotAuditedError, begin_act, intent_of, set_row_buffer
from admin_console.audit.writer import AuditWriter
from admin_console.database.base import DatabaseWrapper
from admin_console.database.journals import JOURNALS
from admin_console.gateway.embedded import EmbeddedGateway
from admin_console.gateway.gateway import set_gateway
from admin_console.views.audit import PAGE_ROWS
from admin_console.vocabulary.private_files import set_aside
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.engine.engine_calls import ENGINE_ACTS
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.options.options import Options
from tests.console.audit.test_chain import manage
from tests.support.pages.console import client_of, make_user
from tests.support.processes.server import ROOT, ServerProcess
from tests.support.waiting import wait_for


def row(number: int = 0, **fields: object) -> AuditRow:
    """A result of ada's, unless said otherwise."""
    values: dict[str, object] = {
        "act_id": f"act{number}",
        "phase": Phase.RESULT,
        "at_ms": 1_700_000_000_000 + number,
        "actor": "ada",
        "role": "admin",
        "via": "console",
        "action": "pause_channel",
        "topic": "orders",
        "channel": "billing",
        "verdict": "done",
        "message": f"sentence {number}.",
    }
    return AuditRow(**(values | fields))


# What the engine reports beside its acts: of paths that read, of an option, of the trash.
FURTHER_ACTS = {"read_messages", "release_lease", "change_option", "expire_trash", "give_up_trash"}
DETAILS = {
    "bodies": (b"x",),
    "rate": 5,
    "max_attempts": 3,
    "offset": 7,
    "lease": "lease-1",
    "option": "log_level",
    "value": "debug",
}


def test_each_act_that_the_engine_reports_makes_a_sentence() -> None:
    act = ActRecord("", "orders", "billing", "192.0.2.1:5", "", Outcome(depth=2, created=True), details=DETAILS)
    sentences = {name: row_of(replace(act, action=name)).message for name in ENGINE_ACTS.keys() | FURTHER_ACTS}
    assert {name: text for name, text in sentences.items() if not re.fullmatch(r"\S.+\.", text)} == {}
    assert sentences["release_lease"] == "Released the lease lease-1 of orders: it holds no messages any more."
    assert sentences["change_option"] == "Changed log_level to debug, until the next start."


def test_an_act_whose_sentence_fails_keeps_its_row_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    writer = AuditWriter()
    with caplog.at_level(logging.ERROR):
        writer.tell(ActRecord("move_cursor", "orders", "copy", "192.0.2.1:5", "", Outcome(depth=2)))
    assert writer.waiting_count == 1
    assert [(record.getMessage(), record.exc_info is not None) for record in caplog.records] == [
        ("audit row without message action=move_cursor topic=orders channel=copy", True)
    ]


@pytest.fixture
def client(db: None) -> Client:
    return client_of(make_user("reader", Role.OPERATOR))


def test_the_user_whom_a_token_claims_to_act_for_stands_beside_it_and_is_no_actor(client: Client) -> None:
    pause = ActRecord("pause_topic", "orders", "", "192.0.2.1:5", "", Outcome(), actor="ops", on_behalf_of="<i>alice")
    option = replace(pause, action="change_option", topic="", details=DETAILS, on_behalf_of="alice")
    append([row_of(pause), row_of(option), row_of(replace(pause, actor="", on_behalf_of=""))])
    page = client.get("/audit/").content.decode()
    assert (page.count(">token ops, for &lt;i&gt;alice<"), page.count(">token ops, for alice<")) == (1, 1)
    assert page.count("alice") == 2, "neither the object nor the outcome"
    assert "alice" not in client.get("/audit/", {"actor": "alice"}).content.decode().partition("<table")[2]
    assert client.get("/audit/", {"actor": "token ops"}).content.decode().count("token ops, for") == 2


@pytest.mark.slow(reason="starts a process")
def test_database_refuses_to_change_or_remove_a_row(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity=0", "--settings=admin_console.settings"],
        check=True,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PENSTOCK_DATA_PATH": str(tmp_path)},
    )
    with sqlite3.connect(tmp_path / "console.sqlite3") as database:
        database.execute(
            "INSERT INTO admin_console_auditrow (act_id, phase, at_ms, actor, role, address, via, action, topic,"
            " channel, detail, reason, verdict, message, counts)"
            " VALUES ('a', 'event', 1, 'ada', '', '', 'console', 'log_in', '', '', '', '', 'done', '', '{}')"
        )
        with pytest.raises(sqlite3.IntegrityError, match="audit rows are never changed"):
            database.execute("UPDATE admin_console_auditrow SET actor = 'eve'")
        with pytest.raises(sqlite3.IntegrityError, match="audit rows are never removed"):
            database.execute("DELETE FROM admin_console_auditrow")
        assert database.execute("SELECT actor FROM admin_console_auditrow").fetchall() == [("ada",)]


def page_of(client: Client) -> str:
    """The list, wherever the lines of its template end."""
    return " ".join(client.get("/audit/").content.decode().split()).replace(" >", ">")


def test_list_is_newest_first_and_says_who_what_where_and_why(client: Client) -> None:
    row(1).save()
    row(2, actor="grace", role="operator", address="192.0.2.7", reason="card network down", message="Second.").save()
    page = page_of(client)
    for text in (
        "grace",
        "operator",
        "192.0.2.7",
        "pause channel",
        "orders/<wbr>billing",
        "Second.",
        "card network down",
    ):
        assert text in page
    assert page.index("Second.") < page.index("sentence 1.")
    row(3, message="", topic="", channel="", detail="grace").save()
    page = page_of(client)
    assert page.count('class="text blank" data-label="Outcome">–<') == 1  # a narrow card leaves it out
    assert "2023-11-14 22:13:20" in page


def test_a_token_with_the_name_of_a_user_is_told_apart(client: Client) -> None:
    row(1, message="by the user").save()
    row(2, message="by the token", via="http-api", role="").save()
    row(3, message="by the client", via="tcp", role="").save()
    page = client.get("/audit/").content.decode()
    for words in (">ada <small>", ">token ada<", ">client ada<"):
        assert page.count(words) == 1, words
    for wanted, found in (("token+ada", "by the token"), ("client+ada", "by the client"), ("token+eve", "")):
        page = client.get(f"/audit/?actor={wanted}").content.decode()
        assert [one for one in ("by the user", "by the token", "by the client") if one in page] == [found][: len(found)]


def test_intent_is_shown_only_while_it_has_no_result(client: Client) -> None:
    row(1, phase=Phase.INTENT, verdict="", message="the finished intent").save()
    row(1, message="the result").save()
    row(2, phase=Phase.INTENT, verdict="", reason="the lost intent").save()
    page = client.get("/audit/").content.decode()
    assert "the result" in page
    assert "the finished intent" not in page
    assert "the lost intent" in page
    assert "no result" in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("actor=grace", {"by grace"}),
        ("action=delete_topic", {"deletion"}),
        ("object=orders", {"by ada", "by grace", "deletion"}),
        ("object=orders/billing", {"by ada", "by grace"}),
        ("object=nowhere", set()),
        ("actor=ada&action=delete_topic&object=orders", {"deletion"}),
    ],
)
def test_filters(client: Client, query: str, found: set[str]) -> None:
    row(1, message="by ada").save()
    row(2, message="by grace", actor="grace").save()
    row(3, message="deletion", action="delete_topic", channel="").save()
    page = client.get(f"/audit/?{query}").content.decode()
    assert {text for text in ("by ada", "by grace", "deletion") if text in page} == found
    assert ("No act matches this filter." in page) == (not found)


def test_pages_follow_each_other_without_gap_or_double(client: Client) -> None:
    AuditRow.objects.bulk_create([row(number) for number in range(PAGE_ROWS * 2 + 5)])
    seen: list[str] = []
    url = "/audit/?actor=ada"
    while url:
        context = client.get(url).context
        seen.extend(line.row.message for line in context["lines"])
        url = context["older_url"]
    assert seen == [f"sentence {number}." for number in reversed(range(PAGE_ROWS * 2 + 5))]


@pytest.mark.parametrize("query", ["before=x", "before=-1", "before=99999999999999999999", "before=²", "actor=%00"])
def test_hostile_query_is_harmless(client: Client, query: str) -> None:
    assert client.get(f"/audit/?{query}").status_code == 200


def test_texts_of_others_stay_text(client: Client) -> None:
    row(1, reason="<script>alert(1)</script>", message="<img src=x onerror=alert(1)>").save()
    page = client.get("/audit/").content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_viewer_may_not_read_it(db: None) -> None:
    assert client_of(make_user(role=Role.VIEWER)).get("/audit/").status_code == 403


def test_empty_list_says_what_will_be_in_it(client: Client) -> None:
    assert "No act yet." in client.get("/audit/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_writer_writes_what_was_handed_over_before_it_stops() -> None:
    writer = AuditWriter()
    writer.start()
    for number in range(450):
        writer.tell(ActRecord("empty_topic", f"t{number}", "", "192.0.2.9:5", "", Outcome(depth=number)))
    writer.tell(ActRecord("delete_topic", "gone", "", "192.0.2.9:5", "TOPIC_NOT_FOUND", None))
    writer.stop(timeout_s=30)
    assert writer.lost_count == 0
    rows = list(AuditRow.objects.order_by("id"))
    assert [each.topic for each in rows] == [f"t{number}" for number in range(450)] + ["gone"]
    assert (rows[7].via, rows[7].verdict, rows[7].counts) == ("http-api", "done", {"depth": 7})
    assert (rows[-1].verdict, rows[-1].message) == ("failed", "TOPIC_NOT_FOUND")


@pytest.mark.django_db(transaction=True)
def test_writer_keeps_its_connection_from_act_to_act(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    get_new_connection = DatabaseWrapper.get_new_connection

    def counted(wrapper: DatabaseWrapper, parameters: dict[str, object]) -> object:
        opened.append(threading.current_thread().name)
        return get_new_connection(wrapper, parameters)

    monkeypatch.setattr(DatabaseWrapper, "get_new_connection", counted)
    writer = AuditWriter()
    writer.start()
    for number in range(20):
        kept = threading.Event()
        writer.begin(intent(f"act{number}"), lambda _, kept=kept: kept.set())
        assert kept.wait(15)
    writer.stop(timeout_s=30)
    assert opened.count("audit-writer") == 1


@pytest.mark.django_db
def test_kept_connection_follows_a_database_that_was_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "console.sqlite3"
    kept = DatabaseWrapper({**connection.settings_dict, "NAME": str(path)}, "kept")
    try:
        for _ in range(2):
            with kept.cursor() as cursor:
                cursor.execute("CREATE TABLE seen (name)")
            opened = kept.connection
            kept.close_if_file_moved()
            assert kept.connection is opened
            set_aside(path, JOURNALS)
            kept.close_if_file_moved()
            assert kept.connection is None
    finally:
        kept.close()


@pytest.mark.django_db(transaction=True)
def test_writer_goes_on_after_rows_that_can_not_be_encoded() -> None:
    writer = AuditWriter()
    writer.start()
    writer.tell(ActRecord("empty_topic", "half of a character: \ud800", "", "", "", Outcome()))
    wait_for("the row to be counted as lost", lambda: writer.lost_count == 1)
    writer.tell(ActRecord("empty_topic", "orders", "", "", "", Outcome()))
    writer.stop(timeout_s=30)
    assert [each.topic for each in AuditRow.objects.all()] == ["orders"]


def test_writer_counts_what_it_can_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_console.audit.writer.HTTP_ROWS_MAX", 2)
    writer = AuditWriter()
    for _ in range(5):
        writer.tell(ActRecord("empty_topic", "t", "", "", "", Outcome()))
    assert writer.lost_count == 3


def test_rows_of_the_http_api_leave_room_for_those_of_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_console.audit.writer.HTTP_ROWS_MAX", 2)
    monkeypatch.setattr("admin_console.audit.writer.ROWS_MAX", 3)
    writer = AuditWriter()
    for _ in range(4):
        writer.tell(ActRecord("empty_topic", "t", "", "", "", Outcome()))
    writer.keep(row(1))
    assert (writer.waiting_count, writer.lost_count) == (3, 2)
    writer.keep(row(2))
    assert (writer.waiting_count, writer.lost_count) == (3, 3)


def intent(act_id: str = "act") -> ActRecord:
    return ActRecord("delete_topic", "orders", "", "127.0.0.1:5", "", None, act_id=act_id, is_intent=True)


@pytest.mark.django_db(transaction=True)
def test_an_act_over_http_is_begun_once_its_row_is_in_the_database() -> None:
    seen: list[tuple[bool, int]] = []
    writer = AuditWriter()
    writer.start()
    writer.begin(intent(), lambda is_kept: seen.append((is_kept, AuditRow.objects.filter(act_id="act").count())))
    wait_for("the act to be begun", lambda: bool(seen))
    writer.tell(ActRecord("delete_topic", "orders", "", "127.0.0.1:5", "", Outcome(), act_id="act"))
    writer.stop(timeout_s=30)
    assert seen == [(True, 1)]
    rows = list(AuditRow.objects.order_by("id").values_list("act_id", "phase", "verdict"))
    assert rows == [("act", "intent", ""), ("act", "result", "done")]


@pytest.mark.django_db(transaction=True)
def test_an_act_over_http_whose_row_the_database_can_not_take_is_not_done() -> None:
    seen: list[bool] = []
    writer = AuditWriter()
    writer.start()
    bad = ActRecord("delete_topic", "half of a character: \ud800", "", "", "", None, act_id="bad", is_intent=True)
    writer.begin(bad, seen.append)
    wait_for("the answer", lambda: bool(seen))
    writer.stop(timeout_s=30)
    assert seen == [False]


@pytest.mark.django_db(transaction=True)
def test_a_disk_that_refuses_keeps_no_act_from_being_done_until_memory_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise DatabaseError from error

    monkeypatch.setattr("admin_console.audit.writer.append", refused)
    monkeypatch.setattr("admin_console.audit.record.append", refused)
    monkeypatch.setattr("admin_console.audit.writer.HTTP_ROWS_MAX", 3)
    monkeypatch.setattr("admin_console.audit.writer.INTENT_ROWS_MAX", 4)
    seen: list[bool] = []
    writer = AuditWriter()
    writer.start()
    try:
        for number in range(4):
            writer.begin(intent(f"act{number}"), seen.append)
            wait_for("the answer", lambda before=number: len(seen) > before)
        assert (seen, writer.has_room) == ([True, True, True, False], False)
        # Of the console, whose acts have a room of their own, and whose results are kept in any case.
        request = RequestFactory().get("/")
        request.user = AnonymousUser()
        act = begin_act(intent_of(request, "pause_topic", topic="orders"))
        with pytest.raises(NotAuditedError):
            begin_act(intent_of(request, "pause_topic", topic="orders"))
        act.finish(Verdict.DONE, "Paused orders.")
        assert (writer.waiting_count, writer.lost_count) == (5, 0)
        monkeypatch.undo()
    finally:
        writer.stop(timeout_s=30)
    assert AuditRow.objects.count() == 5


def test_a_person_reads_that_an_act_is_not_done_and_nothing_is_shown(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin_console.audit.writer.INTENT_ROWS_MAX", 0)
    writer = AuditWriter()
    writer.refusal = "the disk is full"
    set_row_buffer(writer)
    set_gateway(EmbeddedGateway(EngineRunner(Options()), Options()))
    try:
        shown = client.get("/topics/orders/~messages/")
        paused = client.post("/topics/orders/~pause/", headers={"Accept": "application/json"})
    finally:
        set_row_buffer(None)
        set_gateway(None)
    assert shown.status_code == 503
    assert "No message was shown: the disk refuses the audit list" in shown.content.decode()
    assert (paused.status_code, paused.json()["code"]) == (503, "NOT_AUDITED")


def test_page_says_how_many_rows_wait_and_how_many_were_lost(client: Client) -> None:
    writer = AuditWriter()
    writer.refusal, writer.lost_count = "the disk is full", 1_234
    writer.keep(row(1))
    set_row_buffer(writer)
    try:
        page = client.get("/audit/").content.decode()
    finally:
        set_row_buffer(None)
    assert "1 audit row waits in memory until the disk takes it (the disk is full)." in page
    assert "1,234 were lost: memory keeps 10,000 at most." in page
    assert "No act yet." not in page


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path)
    process.start()
    yield process
    process.stop()


@pytest.mark.slow(reason="starts a real server")
def test_acts_over_the_http_api_are_audited_with_their_address(server: ServerProcess) -> None:
    api = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    for path in ("/topic/create?topic=orders", "/topic/pause?topic=orders", "/topic/delete?topic=nowhere"):
        api.request("POST", path)
        api.getresponse().read()
    api.close()

    def rows() -> list[tuple[str, ...]]:
        with sqlite3.connect(server.data_path / "console.sqlite3") as database:
            return database.execute(
                "SELECT action, topic, verdict, message, address FROM admin_console_auditrow"
                " WHERE via = 'http-api' AND phase != 'intent' ORDER BY id"
            ).fetchall()

    wait_for("three audit rows", lambda: len(rows()) == 3)
    assert [found[:4] for found in rows()] == [
        ("create_topic", "orders", "done", "Created orders."),
        ("pause_topic", "orders", "done", "Paused orders: its messages stay at the topic, 0 so far."),
        ("delete_topic", "nowhere", "failed", "TOPIC_NOT_FOUND"),
    ]
    assert all(found[4].startswith("127.0.0.1") for found in rows())
    with closing(sqlite3.connect(server.data_path / "console.sqlite3")) as database:
        # What was done is told before and after; what could not be done was never begun.
        phases = database.execute(
            "SELECT group_concat(phase) FROM admin_console_auditrow WHERE via = 'http-api'"
            " GROUP BY act_id ORDER BY min(id)"
        ).fetchall()
    assert phases == [("intent,result",), ("intent,result",), ("event",)]


@pytest.mark.slow(reason="starts a real server")
def test_a_kill_between_a_row_and_the_file_that_names_it_is_no_fault(server: ServerProcess) -> None:
    def newest() -> int:
        with closing(sqlite3.connect(server.data_path / "console.sqlite3")) as database:
            return database.execute("SELECT coalesce(max(id), 0) FROM admin_console_auditrow").fetchone()[0]

    def verified() -> "subprocess.CompletedProcess[str]":
        return manage(server.data_path, "audit", "verify")

    def act(number: int) -> None:
        before = newest()
        server.http("POST", f"/topic/create?topic=t{number}")
        wait_for("its row", lambda: newest() > before)

    def named() -> int:
        return json.loads((server.data_path / "audit-head").read_text())["id"]

    act(1)
    server.stop()
    assert named() == newest()
    older = (server.data_path / "audit-head").read_bytes()
    server.start()
    act(2)
    server.kill9()
    if named() == newest():  # the machine stalled, and the server had the time
        (server.data_path / "audit-head").write_bytes(older)
    assert named() < newest()
    assert (verified().returncode, verified().stderr) == (0, "")
    server.start()
    wait_for("the file to name the newest row", lambda: named() == newest())
    server.kill9()
    with closing(sqlite3.connect(server.data_path / "console.sqlite3")) as database, database:
        database.execute("DROP TRIGGER audit_row_is_never_removed")
        database.execute("DELETE FROM admin_console_auditrow WHERE id = (SELECT max(id) FROM admin_console_auditrow)")
    told = verified()
    assert told.returncode == 1
    assert "was removed: the file beside the database names row" in told.stderr
