"""What comes again and again from one source is counted: a flood is a few rows."""

from dataclasses import replace

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow, Phase
from admin_console.audit.record import set_row_buffer
from admin_console.audit.repeated_acts import RepeatedRows
from admin_console.audit.writer import AuditWriter
from admin_console.security.origin import SameOriginSockets
from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.service.act_file.repeated_acts import FAILURE, SEVERAL, source_of
from tests.console.audit.test_audit import row
from tests.support.clock import ManualClock
from tests.support.pages.console import make_user
from tests.support.waiting import wait_for


def failure(number: int = 0, *, address: str = "192.0.2.9:5", action: str = "empty_topic") -> ActRecord:
    return ActRecord(action, f"t{number}", "", address, "TOKEN_REQUIRED: the token is missing or wrong", None)


def look(topic: str = "orders", count: int = 20) -> ActRecord:
    found = Outcome(depth=count)
    return ActRecord("read_messages", topic, "", "127.0.0.1:50000", "", found, at_ms=1_700_000_000_000)


def log_in(name: str, address: str = "203.0.113.9") -> AuditRow:
    fields = {"action": "log_in", "verdict": "failed", "message": "", "topic": "", "channel": "", "role": ""}
    return row(1, phase=Phase.EVENT, actor=name, detail=name, address=address, **fields)


def test_a_flood_of_failures_is_five_rows_and_one_when_the_minute_is_over() -> None:
    acts = RepeatedRows()
    assert [acts.take(failure(), 100.0 + number / 100) for number in range(1_000)] == [False] * 5 + [True] * 995
    assert acts.close_windows(159.9) == []
    [told] = acts.close_windows(160.0)
    assert (told.action, told.via, told.address, told.topic) == ("empty_topic", "http-api", "192.0.2.9", "t0")
    assert (told.phase, told.verdict, told.counts) == ("event", "failed", {"times": 995})
    assert told.message == (
        "995 more failed within a minute, for t0. The last: TOKEN_REQUIRED: the token is missing or wrong"
    )
    assert acts.close_windows(1_000.0) == []
    assert not acts.take(failure(), 1_000.0)  # another minute


def test_guesses_at_many_names_are_one_row_that_says_which() -> None:
    acts = RepeatedRows()
    for number in range(30):
        acts.take(log_in(f"name{number}"), 1.0)
    [told] = acts.close_windows(61.0)
    assert (told.actor, told.detail, told.address) == ("", "", "203.0.113.9")
    assert told.message == (
        "25 more failed within a minute, for name5, name6, name7, name8, name9, name10, name11, name12, name13, "
        "name14 and others."
    )


def test_one_name_stays_the_rows_actor() -> None:
    acts = RepeatedRows()
    for _ in range(7):
        acts.take(log_in("ada"), 1.0)
    [told] = acts.close_windows(61.0)
    assert (told.actor, told.detail, told.message) == ("ada", "ada", "2 more failed within a minute, for ada.")


def test_refusals_of_several_users_at_one_topic_are_nobodys_alone() -> None:
    acts = RepeatedRows()
    for actor in ("ada",) * 5 + ("eve", "ada"):
        acts.take(row(1, phase=Phase.REFUSED, verdict="refused", actor=actor, message="Ask an admin."), 1.0)
    [told] = acts.close_windows(61.0)
    assert (told.actor, told.role, told.topic, told.channel) == ("", "", "orders", "billing")
    assert told.message == ("2 more failed within a minute, for orders/billing, by eve, ada. The last: Ask an admin.")


def test_failures_of_several_tokens_behind_one_address_are_of_none_alone() -> None:
    acts = RepeatedRows()
    for actor in ("padm",) * 5 + ("pub", "", "pub", "padm"):
        acts.take(replace(failure(), actor=actor), 1.0)
    [told] = acts.close_windows(61.0)
    assert told.actor == ""
    assert told.message.startswith("4 more failed within a minute, for t0, by pub, no token, padm. The last: ")


@pytest.mark.parametrize(("actor", "name"), [("padm", ", for padm"), ("", "")])
def test_failures_with_a_channel_and_no_topic_are_named_by_their_token(actor: str, name: str) -> None:
    acts = RepeatedRows()
    for _ in range(11):
        acts.take(replace(failure(), topic="", channel="c", actor=actor, error="MISSING_ARG_TOPIC"), 1.0)
    [told] = acts.close_windows(61.0)
    assert (told.actor, told.message) == (
        actor,
        f"6 more failed within a minute{name}. The last: MISSING_ARG_TOPIC",
    )


def test_refusals_of_one_user_at_many_topics_stay_his() -> None:
    acts = RepeatedRows()
    for number in range(8):
        acts.take(row(1, phase=Phase.REFUSED, verdict="refused", topic=f"t{number}", channel=""), 1.0)
    [told] = acts.close_windows(61.0)
    assert (told.actor, told.role, told.topic) == ("ada", "admin", "")


def test_sources_and_actions_are_counted_apart() -> None:
    acts = RepeatedRows()
    for _ in range(6):
        acts.take(failure(address="192.0.2.1:1"), 1.0)
        acts.take(failure(address="192.0.2.2:1"), 1.0)
        acts.take(failure(address="192.0.2.2:2", action="delete_topic"), 1.0)
    assert sorted((one.address, one.action, one.counts["times"]) for one in acts.close_windows(61.0)) == [
        ("192.0.2.1", "empty_topic", 1),
        ("192.0.2.2", "delete_topic", 1),
        ("192.0.2.2", "empty_topic", 1),
    ]


def test_more_sources_than_are_kept_are_counted_together() -> None:
    """Ten thousand guesses from a thousand addresses."""
    acts = RepeatedRows()
    rows_at_once = 0
    for number in range(10_000):
        address = f"10.0.{number % 1_000 // 250}.{number % 250}:1"
        rows_at_once += not acts.take(failure(address=address), 1.0 + number / 1_000)
    assert rows_at_once == FAILURE.rows_at_once_max == 60
    told = acts.close_windows(71.0)
    assert len(told) == FAILURE.windows_max + 1 == 101
    assert sum(one.counts["times"] for one in told) == 10_000 - 60
    assert [one.counts["times"] for one in told if one.address == SEVERAL] == [9_000]
    assert not acts.take(failure(), 71.0)  # the next minute


def test_looks_of_a_reader_are_one_row_and_then_one_in_ten_minutes() -> None:
    acts = RepeatedRows()
    assert [acts.take(look(), 1.0) for _ in range(4)] == [False, True, True, True]
    assert not acts.take(look("clicks"), 1.0)
    assert acts.close_windows(600.9) == []
    [told] = acts.close_windows(601.0)
    moments = {"first_ms": 1_700_000_000_000, "last_ms": 1_700_000_000_000}
    assert (told.topic, told.verdict, told.counts) == ("orders", "done", {"times": 3, "messages": 60} | moments)
    assert told.message == (
        "3 more within ten minutes, 2023-11-14 22:13:20 UTC to 2023-11-14 22:13:20 UTC. "
        "The last: Looked at 20 messages of orders."
    )


def test_looks_by_a_token_name_the_user_of_its_claim_where_all_claim_him() -> None:
    acts = RepeatedRows()
    by_topic = {
        "a": [("console", "alice")] * 3,
        "b": [("console", "alice"), ("console", "bob"), ("console", "alice"), ("console", "alice")],
        "c": [("console", "alice"), ("console", "alice"), ("backup", "alice")],
    }
    for topic, users in by_topic.items():
        for actor, user in users:
            acts.take(replace(look(topic), actor=actor, on_behalf_of=user), 1.0)
    for number in range(7):
        acts.take(replace(failure(number), actor="console", on_behalf_of="alice"), 1.0)
    told = {row.topic: (row.who, row.detail) for row in acts.close_windows(601.0)}
    assert told == {
        "a": ("token console, for alice", "for alice"),
        "b": ("token console", ""),
        "c": ("", ""),
        "": ("token console, for alice", "for alice"),  # failures at several topics
    }


@pytest.mark.parametrize(
    "act",
    [
        ActRecord("delete_topic", "orders", "", "127.0.0.1:1", "", Outcome()),
        ActRecord("create_topic", "orders", "", "127.0.0.1:1", "", Outcome(created=True)),
        row(1),
        row(1, verdict="failed"),  # what came of an act of somebody who is logged in
        row(1, phase=Phase.EVENT, action="log_in"),
    ],
)
def test_each_change_and_each_act_of_a_person_is_a_row(act: ActRecord | AuditRow) -> None:
    acts = RepeatedRows()
    assert not any(acts.take(act, 1.0) for _ in range(20))


def test_topics_that_come_and_go_with_a_client_and_those_that_were_there_are_counted() -> None:
    acts = RepeatedRows()
    made = ActRecord("create_topic", "t#ephemeral", "", "127.0.0.1:1", "", Outcome(created=True))
    there = ActRecord("create_topic", "t", "", "127.0.0.1:1", "", Outcome())
    for act in (made, there):
        assert [acts.take(act, 1.0) for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.9:5", "192.0.2.9"),
        ("192.0.2.9", "192.0.2.9"),
        ("[2001:db8::1]:4151", "2001:db8::/64"),
        ("2001:db8:0:0:9::1", "2001:db8::/64"),
        ("unix", "unix"),
        ("", ""),
    ],
)
def test_a_source_is_an_address_without_its_port(address: str, source: str) -> None:
    assert source_of(address) == source


@pytest.mark.django_db(transaction=True)
def test_a_flood_reaches_the_list_as_a_few_rows_when_its_window_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_console.audit.writer.CLOSE_EVERY_S", 0.05)
    clock = ManualClock()
    writer = AuditWriter(lambda: clock.monotonic_ns() / 1e9)
    writer.start()
    try:
        for _ in range(10_000):
            writer.tell(failure())
        wait_for("the first rows", lambda: AuditRow.objects.count() == 5)
        clock.advance(ms=60_000)
        wait_for("the row of the others", lambda: AuditRow.objects.count() == 6)
    finally:
        writer.stop(timeout_s=30)
    assert AuditRow.objects.get(counts__times=9_995).verdict == "failed"
    assert writer.lost_count == 0


@pytest.mark.django_db(transaction=True)
def test_guessed_passwords_are_a_few_rows_and_the_stop_writes_what_was_counted() -> None:
    make_user("ada")
    writer = AuditWriter()
    writer.start()
    client = Client()
    try:
        for _ in range(4):
            client.post("/login/", {"username": "ada", "password": "wrong"})
        for number in range(4):
            client.post("/login/", {"username": f"name{number}", "password": "wrong"})
        assert AuditRow.objects.filter(action="log_in").count() == 5
    finally:
        writer.stop(timeout_s=30)
    assert [one.counts for one in AuditRow.objects.filter(action="log_in").order_by("id")] == [{}] * 5 + [{"times": 3}]


async def test_sockets_of_foreign_pages_are_in_the_list() -> None:
    passed, answers = [], []

    async def application(*_: object) -> None:
        passed.append(True)

    async def receive() -> None: ...

    async def send(message: object) -> None:
        answers.append(message)

    sockets = SameOriginSockets(application, paths=["/live/"], origin="", allowed_hosts=["localhost"])
    writer = AuditWriter()
    set_row_buffer(writer)
    try:
        for path, origin in (
            ("/live/", b"http://localhost"),
            ("/live/", b"https://evil.example"),
            ("/x/", b"http://e"),
        ):
            headers = [(b"host", b"localhost"), (b"origin", origin)]
            await sockets({"path": path, "headers": headers, "client": ("203.0.113.9", 5)}, receive, send)
    finally:
        set_row_buffer(None)
    assert (len(passed), len(answers), writer.waiting_count) == (1, 2, 1)
    told = writer._rows[0]
    assert (told.action, told.address) == ("foreign_request", "203.0.113.9")
    assert told.message == "A page of https://evil.example tried to open the socket /live/."


@pytest.mark.django_db(transaction=True)
def test_forms_of_foreign_pages_are_in_the_list() -> None:
    client = Client(enforce_csrf_checks=True)
    origin = {"HTTP_ORIGIN": "https://evil.example"}
    assert client.post("/login/", {"username": "ada", "password": "x"}, **origin).status_code == 403
    told = AuditRow.objects.get()
    assert (told.action, told.verdict) == ("foreign_request", "refused")
    assert told.message == (
        "Origin checking failed - https://evil.example does not match any trusted origins. (POST /login/)"
    )
    assert client.post("/login/", {"username": "ada", "password": "x"}).status_code == 403
    assert AuditRow.objects.count() == 1  # a token that is missing is nothing foreign
