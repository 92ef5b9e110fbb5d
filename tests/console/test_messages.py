"""Looking at messages and moving channels in the console: nothing is consumed, every look and move is audited."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from admin_console.accounts.roles import Role
from admin_console.audit.models import AuditRow
from admin_console.gateway.gateway import ReadMessage
from admin_console.views.messages import line_of, time_ns_of
from queue_engine.service.runner import EngineRunner
from tests.support.console import client_of, console_engine, make_user
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

PAGE = "/topics/orders/~messages/"
SEEK = "/topics/orders/billing/~seek/"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    """Topic orders with the channel billing and 50 messages, and a disk queue."""
    with console_engine(tmp_path) as runner:
        runner.submit("create_topic", "orders").result(5)
        runner.submit("create_channel", "orders", "billing").result(5)
        runner.submit("publish", "orders", [b'{"order": %d}' % number for number in range(50)]).result(5)
        runner.submit("create_topic", "old", storage="diskqueue").result(5)
        yield runner


@pytest.fixture
def client(engine: EngineRunner) -> Client:
    return client_of(make_user())


def depth(engine: EngineRunner) -> int:
    return int(engine.submit("stats", topic="orders", channel="billing").result(5).topics[0].channels[0].depth)


def test_the_newest_messages_are_shown_and_stay(engine: EngineRunner, client: Client) -> None:
    text = client.get(PAGE).content.decode()
    assert "&quot;order&quot;: 49" in text
    assert "&quot;order&quot;: 30\n" in text
    assert "&quot;order&quot;: 29\n" not in text
    assert f"{PAGE}?offset=10" in text
    older = client.get(PAGE, {"offset": "10"}).content.decode()
    assert "&quot;order&quot;: 10\n" in older
    assert f"{PAGE}?offset=30" in older
    assert depth(engine) == 50
    intent, result = AuditRow.objects.order_by("id")[:2]
    assert (intent.action, intent.phase, result.verdict) == ("read_messages", "intent", "done")
    assert result.message == "Looked at 20 messages of orders."


def test_a_channel_shows_what_comes_next(client: Client) -> None:
    text = client.get("/topics/orders/billing/~messages/").content.decode()
    assert "Next messages" in text
    assert "&quot;order&quot;: 0\n" in text


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ({"offset": "ten"}, 400, "is not an offset"),
        ({"at": "yesterday"}, 400, "is not a time such as"),
        ({"offset": "51"}, 409, "offset 51 of orders is beyond its end, 50"),
    ],
)
def test_a_wrong_place_is_named(client: Client, query: dict[str, str], status: int, says: str) -> None:
    answer = client.get(PAGE, query)
    assert (answer.status_code, says in answer.content.decode()) == (status, True)


def test_a_disk_queue_says_that_it_can_not(client: Client) -> None:
    answer = client.get("/topics/old/~messages/")
    assert answer.status_code == 409
    assert "storage kind diskqueue" in answer.content.decode()
    assert AuditRow.objects.order_by("id").last().verdict == "failed"  # type: ignore[union-attr]


def test_a_viewer_sees_no_bodies(engine: EngineRunner) -> None:
    viewer = client_of(make_user("vera", Role.VIEWER))
    assert viewer.get(PAGE).status_code == 403
    assert "~messages" not in viewer.get("/topics/orders/").content.decode()


def test_a_move_is_shown_before_it_is_done(engine: EngineRunner, client: Client) -> None:
    asked = client.get(SEEK).content.decode()
    assert "See what it means" in asked
    shown = client.post(SEEK, {"place": "offset", "offset": "40"}).content.decode()
    assert "10 messages will be delivered from there on; 50 messages waiting" in shown
    assert depth(engine) == 50
    client.post(SEEK, {"place": "offset", "offset": "40", "confirmed": "40", "reason": "bad deploy"})
    assert depth(engine) == 10
    result = AuditRow.objects.order_by("id").last()
    assert result is not None
    assert (result.action, result.detail, result.reason) == ("seek_channel", "offset 40", "bad deploy")
    assert result.message == "Moved orders/billing: 10 messages waiting now."


def test_a_confirmation_of_another_place_is_asked_again(engine: EngineRunner, client: Client) -> None:
    text = client.post(SEEK, {"place": "start", "confirmed": "40"}).content.decode()
    assert "Is that meant?" in text
    assert depth(engine) == 50
    assert "is not an offset" in client.post(SEEK, {"place": "offset", "offset": "x"}).content.decode()


@pytest.mark.parametrize(
    ("body", "form", "shown_form", "shown"),
    [
        (b'{"b":1}', "auto", "json", '{\n  "b": 1\n}'),
        (b'{"b":1}', "text", "text", '{"b":1}'),
        (b"{broken", "auto", "text", "{broken"),
        (b"7", "auto", "text", "7"),
        (b"\xff\x00ab", "auto", "hex", "00000000  ff 00 61 62" + " " * 38 + "..ab"),
        (b"ab", "hex", "hex", "00000000  61 62" + " " * 44 + "ab"),
    ],
)
def test_a_body_is_shown_in_the_form_that_suits(body: bytes, form: str, shown_form: str, shown: str) -> None:
    line = line_of(ReadMessage(0, "0" * 16, 0, 0, body), form)
    assert (line.form, line.body, line.cut) == (shown_form, shown, "")


def test_a_long_body_is_cut_and_says_so() -> None:
    line = line_of(ReadMessage(0, "0" * 16, 0, 0, b"x" * 5_000), "auto")
    assert (len(line.body), line.cut) == (4_096, "the first 4,096 of 5,000 bytes")


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert time_ns_of("1970-01-01T00:01") == 60_000_000_000
    assert time_ns_of("1970-01-01T01:01+01:00") == 60_000_000_000


def test_a_topic_is_created_with_the_storage_chosen(engine: EngineRunner, client: Client) -> None:
    assert 'value="log" selected' in client.get("/topics/~create/").content.decode()
    client.post("/topics/~create/", {"topic": "fast", "storage": "diskqueue"})
    assert engine.submit("stats", topic="fast").result(5).topics[0].storage == "diskqueue"
    refused = client.post("/topics/~create/", {"topic": "other", "storage": "cloud"})
    assert refused.status_code == 400


def test_the_overview_tells_of_the_log(engine: EngineRunner, client: Client) -> None:
    wait_for("figures with the log", lambda: engine.snapshot is not None and engine.snapshot.log is not None)
    text = client.get("/").content.decode()
    assert "always: OK is said once the message is on the disk" in text
    assert "everything is on the disk" in text
