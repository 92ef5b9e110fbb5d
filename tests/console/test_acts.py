"""Every act, on the real engine: asked first, done, told in a sentence with numbers, audited before and after."""

import concurrent.futures
import re
import threading
from collections.abc import Sequence
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.test import Client

from admin_console.audit import record
from admin_console.audit.models import AuditRow
from admin_console.gateway import embedded
from admin_console.gateway.gateway import EngineUnavailableError, get_gateway, set_gateway
from queue_engine.delivery.stats import ChannelStats, TopicStats
from queue_engine.engine.acts.topic_acts import COUNTS_TOLERANCE
from queue_engine.engine.engine_calls import EngineCalls
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.errors import ClosedError
from queue_engine.vocabulary.options.options import Options
from tests.support.nsq_socket import NsqSocket

pytestmark = pytest.mark.django_db

JSON = {"Accept": "application/json"}


def topic_stats(engine: EngineRunner, topic: str = "orders") -> TopicStats | None:
    found = engine.calls.stats(topic=topic).result(30).topics
    return found[0] if found else None


def channel_stats(engine: EngineRunner, topic: str = "orders", channel: str = "billing") -> ChannelStats | None:
    stats = topic_stats(engine, topic)
    return next((one for one in stats.channels if one.channel_name == channel), None) if stats else None


def subscribed(engine: EngineRunner, ready: int) -> NsqSocket:
    """A consumer of orders/billing that is ready for `ready` messages."""
    consumer = NsqSocket(engine.tcp_address[1])
    consumer.send(b"SUB orders billing\n")
    consumer.expect_ok()
    consumer.send(b"RDY %d\n" % ready)
    return consumer


def consume(engine: EngineRunner, count: int) -> NsqSocket:
    """A consumer of orders/billing that holds `count` messages."""
    consumer = subscribed(engine, count)
    for _ in range(count):
        consumer.read_message()
    return consumer


def post(client: Client, path: str, /, **form: Any) -> dict[str, Any]:
    """The JSON answer to a form, with its status."""
    answer = client.post(path, form, headers=JSON)
    return {**answer.json(), "status": answer.status_code}


def last_rows() -> tuple[AuditRow, AuditRow]:
    """Intent and result of the only act."""
    intent, result = AuditRow.objects.order_by("id")
    assert (intent.phase, result.phase) == ("intent", "result")
    assert intent.act_id == result.act_id
    return intent, result


def test_create_topic_and_channel(client: Client, engine: EngineRunner) -> None:
    answer = client.post("/topics/~create/", {"topic": "invoices"})
    assert (answer.status_code, answer["Location"]) == (302, "/topics/invoices/")
    answer = client.post("/topics/invoices/~create-channel/", {"channel": "archive#ephemeral"})
    assert answer["Location"] == "/topics/invoices/archive%23ephemeral/"
    assert channel_stats(engine, "invoices", "archive#ephemeral") is not None
    rows = AuditRow.objects.filter(phase="result").order_by("id")
    assert [(row.action, row.object_name, row.message) for row in rows] == [
        ("create_topic", "invoices", "Created invoices."),
        ("create_channel", "invoices/archive#ephemeral", "Created invoices/archive#ephemeral."),
    ]


def test_creating_what_is_there_says_so(client: Client) -> None:
    assert post(client, "/topics/~create/", topic="orders")["message"] == (
        "orders was there already; nothing was changed."
    )


def test_the_servers_own_topic_is_not_created(client: Client, engine: EngineRunner) -> None:
    answer = post(client, "/topics/~create/", topic="_penstock.samples")
    assert answer["message"] == (
        "Nothing was done to _penstock.samples: topic name _penstock.samples is reserved: the server keeps its own "
        "samples there, which can only be read."
    )
    assert "_penstock.samples" not in client.get("/topics/").content.decode()


def test_bad_name_is_named_with_the_rule_and_not_audited(client: Client) -> None:
    for name in ("", "a b", "x" * 65, ".", "ü", "a#eternal"):
        answer = client.post("/topics/~create/", {"topic": name})
        assert answer.status_code == 400, name
        assert "is not a topic name: 1 to 64 of letters" in answer.content.decode(), name
        assert not AuditRow.objects.exists(), name


def test_publish_goes_to_the_channel_byte_for_byte(client: Client, engine: EngineRunner) -> None:
    engine.calls.empty_channel("orders", "billing").result(30)
    answer = post(client, "/topics/orders/~publish/", body="grüße\r\nzweite Zeile")
    assert answer["message"] == "Published 1 message of 20 bytes to orders."
    with subscribed(engine, 1) as consumer:
        assert consumer.read_message().body == "grüße\nzweite Zeile".encode()
    assert last_rows()[1].detail == "20 bytes"


def test_publish_with_a_delay_is_deferred(client: Client, engine: EngineRunner) -> None:
    answer = post(client, "/topics/orders/~publish/", body="later", defer="1m30s")
    assert answer["message"] == "Published 1 message of 5 bytes to orders, to be delivered in 90s."
    stats = channel_stats(engine)
    assert stats is not None
    assert stats.deferred_count == 1


def test_publish_with_a_key_is_found_by_it(client: Client, engine: EngineRunner) -> None:
    engine.calls.create_topic("kept", storage="log").result(30)
    answer = post(client, "/topics/kept/~publish/", body="shipped", key=" grüße ")
    assert answer["message"] == "Published 1 message of 7 bytes with key grüße to kept."
    found = engine.calls.find_key("kept", "grüße".encode(), 10).result(30)
    assert [one.body for one in found.page.messages] == [b"shipped"]


def test_a_disk_queue_offers_no_key(client: Client, engine: EngineRunner) -> None:
    engine.calls.create_topic("old", storage="diskqueue").result(30)
    engine.calls.create_topic("kept", storage="log").result(30)
    assert 'name="key"' in client.get("/topics/kept/~publish/").content.decode()
    assert 'name="key"' not in client.get("/topics/old/~publish/").content.decode()
    answer = post(client, "/topics/old/~publish/", body="x", key="k")
    assert "topic old has storage kind diskqueue: only the log keeps keys" in answer["message"]


def test_publish_refuses_in_a_sentence(client: Client) -> None:
    for form, sentence in (
        ({"body": "x", "key": "k" * 256}, "The key has 256 bytes; the most is 255."),
        (
            {"body": "x", "key": "k", "defer": "5s"},
            "A key and a delay are both given: a deferred message has no key.",
        ),
        ({"body": ""}, "The body is empty: a message has at least 1 byte."),
        ({"body": "x" * ((1 << 20) + 1)}, "The body has 1,048,577 bytes; the most is 1,048,576."),
        ({"body": "x", "defer": "5"}, "Delay: '5' is not a duration such as 60s, 500ms or 1m30s."),
        ({"body": "x", "defer": "2h"}, "Delay: 2h is more than 1h."),
    ):
        answer = post(client, "/topics/orders/~publish/", **form)
        assert (answer["status"], answer["message"]) == (400, sentence), form
        assert not AuditRow.objects.exists(), form


@pytest.mark.parametrize(
    ("path", "look"), [("/topics/orders/", topic_stats), ("/topics/orders/billing/", channel_stats)]
)
def test_pause_keeps_the_reason_and_offers_undo(client: Client, engine: EngineRunner, path: str, look: Any) -> None:
    answer = client.post(f"{path}~pause/", {"reason": "card network down"}, follow=True)
    assert look(engine).paused
    undo = re.escape(f"{path}~unpause/?{urlencode({'next': path})}")
    assert re.search(rf'<a href="{undo}&amp;shown=[0-9a-f-]+" data-dialog>Undo</a>', answer.content.decode())
    intent, result = last_rows()
    assert (intent.reason, result.reason, result.verdict) == ("card network down", "card network down", "done")
    assert client.get(f"{path}~unpause/").status_code == 200
    assert post(client, f"{path}~unpause/")["ok"]
    assert not look(engine).paused


def test_the_form_of_an_act_on_an_ephemeral_channel_leads_to_it(client: Client, engine: EngineRunner) -> None:
    engine.calls.create_channel("orders", "short#ephemeral").result(30)
    path = "/topics/orders/short%23ephemeral/~pause/"
    assert f'action="{path}"' in client.get(path).content.decode()
    assert post(client, path)["undo"] == "/topics/orders/short%23ephemeral/~unpause/"
    assert channel_stats(engine, channel="short#ephemeral").paused


def test_empty_topic_leaves_its_channels_unless_they_are_chosen(client: Client, engine: EngineRunner) -> None:
    engine.calls.pause_topic("orders").result(30)
    engine.calls.publish("orders", [b"x", b"y"]).result(30)
    page = client.get("/topics/orders/~empty/").content.decode()
    assert "Only messages at the topic: 2 messages<" in page
    assert "Its channels too: 5 messages<" in page
    answer = post(client, "/topics/orders/~empty/", typed_name="orders")
    assert answer["message"] == "Emptied orders: removed 2 messages."
    assert answer["counts"] == {"depth": 2}
    stats = channel_stats(engine)
    assert stats is not None
    assert stats.depth == 5
    answer = post(client, "/topics/orders/~empty/", typed_name="orders", scope="channels_too")
    assert answer["message"] == "Emptied orders and its 1 channel: removed 5 messages."
    stats = channel_stats(engine)
    assert stats is not None
    assert stats.depth == 0


def test_emptying_a_topic_alone_is_checked_against_its_own_count(client: Client, engine: EngineRunner) -> None:
    """Many messages in its channels are no leave to drop many of its own."""
    engine.calls.pause_topic("orders").result(30)
    page = client.get("/topics/orders/~empty/").content.decode()
    assert re.findall(r'name="(expected\w*)" value="(\d+)"', page) == [("expected", "0"), ("expected_in_all", "5")]
    engine.calls.publish("orders", [b"x"] * (COUNTS_TOLERANCE + 1)).result(30)
    told = {"typed_name": "orders", "expected": "0", "expected_in_all": "1000000"}
    answer = client.post("/topics/orders/~empty/", told, headers=JSON).json()
    assert f"{COUNTS_TOLERANCE + 1:,} messages now, and 0 were expected; nothing was changed" in answer["message"]
    assert post(client, "/topics/orders/~empty/", **told, scope="channels_too")["ok"]


def test_empty_channel_counts_what_waits_is_in_flight_and_deferred(client: Client, engine: EngineRunner) -> None:
    engine.calls.publish("orders", [b"later"], defer_ms=60_000).result(30)
    with consume(engine, 2):
        page = client.get("/topics/orders/billing/~empty/").content.decode()
        assert "6 messages (depth 3, 2 in flight, 1 deferred) will be removed." in page
        assert "<button" in page
        assert "Empty orders/billing</button>" in page
        answer = post(client, "/topics/orders/billing/~empty/", typed_name="orders/billing", reason="test data")
    assert answer["message"] == ("Emptied orders/billing: removed 6 messages (depth 3, 2 in flight, 1 deferred).")
    _, result = last_rows()
    assert result.counts == {"depth": 3, "in_flight": 2, "deferred": 1}
    assert (result.actor, result.role, result.address, result.via) == ("ada", "admin", "127.0.0.1", "console")
    assert result.reason == "test data"


@pytest.mark.parametrize("storage", ["log", "diskqueue"])
def test_the_question_of_emptying_is_true_for_the_storage_kind(
    client: Client, engine: EngineRunner, storage: str
) -> None:
    """What it says of a log topic is done: Rewind brings all back."""
    engine.calls.create_topic("kept", storage=storage).result(30)
    engine.calls.create_channel("kept", "reader").result(30)
    engine.calls.publish("kept", [b"a", b"b", b"c"]).result(30)
    is_logged = storage == "log"
    for path in ("/topics/kept/", "/topics/kept/reader/"):
        page = client.get(f"{path}~empty/").content.decode()
        assert ("This can be undone for 24h: all of it goes to the trash" in page) == is_logged
        assert ("its files are nsqd&#x27;s own" in page) != is_logged
    # Where the topic orders is one of the log, it lies before this one.
    no_room = "This frees no disk space: topic orders needs the same part of the log. Consume or empty orders."
    assert (no_room in page or "back once the trash gives it up." in page) == is_logged
    assert ("This can be undone for 24h" in client.get("/topics/kept/reader/~delete/").content.decode()) == is_logged
    assert ("This can be undone for 24h" in client.get("/topics/kept/~delete/").content.decode()) == is_logged
    assert post(client, "/topics/kept/reader/~empty/", typed_name="kept/reader")["ok"]
    rewind = client.post("/topics/kept/reader/~rewind/", {"place": "start", "confirmed": "0"})
    assert rewind.status_code == (302 if is_logged else 400)
    stats = channel_stats(engine, "kept", "reader")
    assert stats is not None
    assert stats.depth == (3 if is_logged else 0)


def test_delete_channel_and_topic(client: Client, engine: EngineRunner) -> None:
    with consume(engine, 1):
        page = client.get("/topics/orders/billing/~delete/").content.decode()
        assert "1 consumer will be disconnected." in page
        answer = client.post("/topics/orders/billing/~delete/", {"typed_name": "orders/billing"})
    assert answer["Location"] == "/topics/orders/"
    assert channel_stats(engine) is None
    answer = client.post("/topics/orders/~delete/", {"typed_name": "orders"})
    assert answer["Location"] == "/topics/"
    assert topic_stats(engine) is None
    messages = AuditRow.objects.filter(phase="result").order_by("id").values_list("message", flat=True)
    assert list(messages) == [
        "Deleted orders/billing: removed 5 messages (depth 4, 1 in flight), disconnected 1 consumer.",
        "Deleted orders with 0 channels: removed no messages.",
    ]


def test_wrong_name_does_nothing(client: Client, engine: EngineRunner) -> None:
    typed_names = ("", "order", "ORDERS/BILLING", "billing")
    for path, act, typed in product(("/topics/orders/", "/topics/orders/billing/"), ("empty", "delete"), typed_names):
        answer = client.post(f"{path}~{act}/", {"typed_name": typed})
        assert answer.status_code == 400, (path, act, typed)
        assert "Nothing was done." in answer.content.decode(), (path, act, typed)
        stats = channel_stats(engine)
        assert stats is not None
        assert stats.depth == 5, (path, act, typed)
        assert not AuditRow.objects.exists(), (path, act, typed)


def test_requeue_all_one_clients_and_one_message(client: Client, engine: EngineRunner) -> None:
    path = "/topics/orders/billing/~requeue/"
    with consume(engine, 2), consume(engine, 3):
        held = engine.calls.in_flight("orders", "billing").result(30)
        page = client.get(path).content.decode()
        assert "A requeued message may be processed twice" in page
        assert page.count("<option") == 2
        one = held[0]
        engine.calls.pause_channel("orders", "billing").result(30)
        answer = post(client, path, scope="message", message=one.message_id)
        assert answer["message"] == "Requeued 1 message of orders/billing."
        gone = post(client, path, scope="message", message=one.message_id)
        assert (gone["status"], gone["code"], gone["ok"]) == (409, "NOT_IN_FLIGHT", False)
        other = next(each for each in held if each.client_key != one.client_key)
        count = sum(each.client_key == other.client_key for each in held)
        answer = post(client, path, scope="client", client=str(other.client_key))
        assert answer["message"].startswith(f"Requeued {count} message")
        answer = post(client, path)
        assert answer["message"] == f"Requeued {4 - count} message{'' if count == 3 else 's'} of orders/billing."
        stats = channel_stats(engine)
        assert stats is not None
        assert (stats.depth, stats.in_flight_count) == (5, 0)
    details = AuditRow.objects.filter(phase="result").order_by("id").values_list("detail", "verdict")
    assert list(details) == [
        (f"message {one.message_id}", "done"),
        (f"message {one.message_id}", "failed"),
        (f"consumer {other.client_key}", "done"),
        ("", "done"),
    ]


def test_requeue_refuses_what_it_can_not_read(client: Client) -> None:
    for form in (
        {"scope": "client", "client": "x"},
        {"scope": "message", "message": "é" * 16},
        {"scope": "some"},
    ):
        assert client.post("/topics/orders/billing/~requeue/", form).status_code == 400, form
        assert not AuditRow.objects.exists(), form


def test_release_deferred(client: Client, engine: EngineRunner) -> None:
    engine.calls.publish("orders", [b"a", b"b"], defer_ms=60_000).result(30)
    path = "/topics/orders/billing/~release-deferred/"
    assert "2 deferred messages will be due now." in client.get(path).content.decode()
    assert post(client, path)["message"] == "Released 2 deferred messages of orders/billing."
    stats = channel_stats(engine)
    assert stats is not None
    assert (stats.depth, stats.deferred_count) == (7, 0)


def test_question_alone_is_the_content_of_a_dialog(client: Client) -> None:
    answer = client.get("/topics/orders/~delete/", headers={"X-Fragment": "1"}).content.decode()
    assert answer.lstrip().startswith("<form")
    assert "<html" not in answer
    assert "<html" in client.get("/topics/orders/~delete/").content.decode()


def test_a_dialog_gets_its_form_again_or_the_next_page(client: Client, engine: EngineRunner) -> None:
    dialog = {"X-Fragment": "1"}
    wrong = client.post("/topics/orders/~delete/", {"typed_name": "odrers", "reason": "old"}, headers=dialog)
    assert (wrong.status_code, wrong.content.decode().lstrip()[:5]) == (400, "<form")
    form = {"scope": "message", "message": "0" * 16, "reason": "it hangs"}
    failed = client.post("/topics/orders/billing/~requeue/", form, headers=dialog)
    text = failed.content.decode()
    assert (failed.status_code, text.lstrip()[:5]) == (409, "<form")
    assert "<li>Nothing was done to orders/billing: " in text
    assert 'value="it hangs"' in text
    gone = client.post("/topics/nowhere/~pause/", headers=dialog)
    assert (gone.status_code, gone["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert gone.content.decode().startswith("Nothing was done to nowhere: ")
    done = client.post("/topics/orders/~pause/", headers=dialog)
    assert (done.status_code, done["X-Next"], done.content) == (204, "/topics/orders/", b"")
    assert "Paused orders" in client.get("/topics/orders/").content.decode(), "the page says what was done"


def test_dangerous_question_puts_the_safe_choice_first(client: Client) -> None:
    page = client.get("/topics/orders/~delete/", headers={"X-Fragment": "1"}).content.decode()
    assert re.search(r"autofocus>Cancel</a>\s*<button[^>]*>Delete orders</button>", page)


@pytest.mark.parametrize(
    ("path", "wrong"),
    [("orders/~delete", {"typed_name": "odrers"}), ("orders/billing/~requeue", {"scope": "some"})],
)
def test_a_question_asks_for_the_reason_and_keeps_it(client: Client, path: str, wrong: dict[str, str]) -> None:
    reason = 'id="act-reason" type="text" name="reason" value="{}"'
    assert reason.format("") in client.get(f"/topics/{path}/").content.decode()
    answer = client.post(f"/topics/{path}/", wrong | {"reason": "test data"})
    assert answer.status_code == 400
    assert reason.format("test data") in answer.content.decode()


def test_what_is_not_there_is_404(client: Client) -> None:
    assert client.get("/topics/nowhere/~delete/").status_code == 404
    assert client.get("/topics/orders/nowhere/~requeue/").status_code == 404
    answer = post(client, "/topics/orders/nowhere/~pause/")
    assert (answer["status"], answer["code"]) == (404, "CHANNEL_NOT_FOUND")
    assert last_rows()[1].verdict == "failed"


def test_acts_come_back_to_a_page_of_ours_only(client: Client) -> None:
    answer = client.post("/topics/orders/~pause/", {"next": "/topics/?q=ord"})
    assert answer["Location"] == "/topics/?q=ord"
    answer = client.post("/topics/orders/~unpause/", {"next": "//evil.example/"})
    assert answer["Location"] == "/topics/orders/"


def test_acts_are_never_done_by_get(client: Client, engine: EngineRunner) -> None:
    for path in ("~pause", "~empty", "~delete"):
        assert client.get(f"/topics/orders/{path}/", {"typed_name": "orders"}).status_code == 200
    stats = topic_stats(engine)
    assert stats is not None
    assert not stats.paused
    assert client.put("/topics/orders/~pause/").status_code == 405


def test_act_that_can_not_be_audited_is_not_done(
    client: Client, engine: EngineRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: Any, **__: Any) -> None:
        raise DatabaseError("database or disk is full")

    monkeypatch.setattr("admin_console.audit.record.append", full_disk)
    answer = post(client, "/topics/orders/~pause/")
    assert (answer["status"], answer["code"]) == (503, "NOT_AUDITED")
    stats = topic_stats(engine)
    assert stats is not None
    assert not stats.paused


def test_no_engine_is_a_page_that_says_so(client: Client) -> None:
    gateway = get_gateway()
    set_gateway(None)
    try:
        page = client.get("/topics/orders/~pause/")
        assert page.status_code == 503
        assert "The engine is not running" in page.content.decode()
        assert client.post("/topics/orders/~pause/", headers=JSON).status_code == 503
    finally:
        set_gateway(gateway)
    assert not AuditRow.objects.exists()


class _SlowRunner:
    """Answers nothing; `begun` tells whether the command is at work already."""

    snapshot = None

    def __init__(self, *, begun: bool) -> None:
        self.begun = begun
        self.calls = EngineCalls(self._run)
        self.future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def _run(self, call: object) -> "concurrent.futures.Future[Any]":
        if self.begun:
            self.future.set_running_or_notify_cancel()
        return self.future


def slow_gateway(*, begun: bool) -> embedded.EmbeddedGateway:
    return embedded.EmbeddedGateway(_SlowRunner(begun=begun), Options(), deadline_s=0.01)


def test_command_past_its_deadline_is_dropped_unstarted() -> None:
    gateway = slow_gateway(begun=False)
    result = gateway.act("pause_topic", "orders")
    assert (result.verdict, result.code) == ("failed", "ENGINE_BUSY")
    assert result.message.startswith("Nothing was done to orders")
    with pytest.raises(EngineUnavailableError):
        gateway.exact("orders")


def test_command_that_had_begun_has_an_unknown_outcome(client: Client) -> None:
    before = get_gateway()
    set_gateway(slow_gateway(begun=True))
    try:
        answer = post(client, "/topics/orders/~pause/")
    finally:
        set_gateway(before)
    assert (answer["status"], answer["code"]) == (504, "OUTCOME_UNKNOWN")
    assert answer["message"].startswith("Outcome unknown: pause topic of orders had begun")
    assert last_rows()[1].verdict == "unknown"


def test_acts_from_many_threads_are_all_done(engine: EngineRunner) -> None:
    gateway = get_gateway()
    results = []
    threads = [
        threading.Thread(target=lambda number=number: results.append(gateway.act("create_topic", f"t{number}")))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {result.verdict for result in results} == {"done"}
    assert len(engine.calls.stats().result(30).topics) == 9


class _StoppingCalls(EngineCalls):
    """Those of a real engine, that stops once an act was done."""

    def mark(self, topic: str, channel: str = "") -> "concurrent.futures.Future[str]":
        future: concurrent.futures.Future[str] = concurrent.futures.Future()
        future.set_exception(ClosedError("the engine is not running"))
        return future


def test_an_act_during_which_its_session_ends_is_not_said_to_be_undone(
    client: Client, engine: EngineRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = record.append

    def append(rows: Sequence[AuditRow]) -> None:
        Session.objects.all().delete()  # the user logs out in another tab
        before(rows)

    monkeypatch.setattr(record, "append", append)
    answer = client.post("/topics/~create/", {"topic": "invoices"}, headers={"X-Fragment": "1"})
    sentence = "Your session ended meanwhile: log in again. The audit list says whether an act was done."
    assert (answer.status_code, answer.content.decode()) == (400, sentence)
    assert topic_stats(engine, "invoices") is not None
    assert last_rows()[1].verdict == "done"


def test_an_act_that_was_done_says_so_though_the_engine_does_not_answer_about_its_undo(
    client: Client, engine: EngineRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = get_gateway()
    monkeypatch.setattr(engine, "calls", _StoppingCalls(engine.calls.run))
    set_gateway(embedded.EmbeddedGateway(engine, Options()))
    try:
        several = client.post("/topics/~selected/pause-channel/", {"of": "orders", "on": ["billing"]})
        client.post("/topics/orders/~pause/")
    finally:
        set_gateway(before)
    page = client.get("/").content.decode()
    assert re.search(r'Paused orders.* <a href="/topics/orders/~unpause/[^"]*" data-dialog>Undo</a>', page)
    assert (several.status_code, "Paused 1 channel" in several.content.decode()) == (200, True)
