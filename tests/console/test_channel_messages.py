"""The pages of a channel's messages: every state as the engine has it, and every view of bodies is audited."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console import client_of, console_engine, make_user
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

PAGE = "/topics/orders/billing/~messages/"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    """Topic orders with the channels billing and audit, 4 messages, one of them deferred for an hour."""
    with console_engine(tmp_path) as runner:
        runner.calls.create_topic("orders").result(30)
        for channel in ("billing", "audit"):
            runner.calls.create_channel("orders", channel).result(30)
        runner.calls.publish("orders", [b'{"order": %d}' % number for number in range(3)]).result(30)
        runner.calls.publish("orders", [b"later"], defer_ms=3_600_000).result(30)
        yield runner


@pytest.fixture
def consumer(engine: EngineRunner) -> Iterator[NsqSocket]:
    """A consumer called worker-7 that holds the first message, and takes no other."""
    with NsqSocket(engine.tcp_address[1]) as socket:
        socket.identify(client_id="worker-7", msg_timeout=600_000)
        socket.subscribe("orders", "billing", rdy=1)
        socket.read_message()
        socket.send(b"RDY 0\n")
        yield socket


def ids_on(page: str) -> list[str]:
    return re.findall(r'<tbody data-message="([0-9a-f]{16})"', page)


def counts_on(page: str) -> dict[str, str]:
    """The figures of the states' tabs."""
    return dict(re.findall(r'class="state-tab"[^>]*>([A-Z][a-z ]+)\s+<span class="count">([0-9,]+)</span>', page))


def get(client: Client, **query: str) -> str:
    answer = client.get(PAGE, query)
    assert answer.status_code == 200, answer.content
    text: str = answer.content.decode()
    return text


def stats(engine: EngineRunner, channel: str = "billing") -> tuple[int, int, int]:
    found = engine.calls.stats(topic="orders", channel=channel).result(30).topics[0].channels[0]
    return found.depth, found.in_flight_count, found.deferred_count


def last_row() -> AuditRow:
    row = AuditRow.objects.order_by("id").last()
    assert row is not None
    return row


def test_each_state_lists_its_messages_and_nothing_is_consumed(
    engine: EngineRunner, consumer: NsqSocket, client: Client
) -> None:
    page = get(client)
    assert counts_on(page) == {"Waiting": "2", "In flight": "1", "Deferred": "1", "Quarantined": "0", "Finished": "0"}
    assert len(ids_on(page)) == 2
    assert '<span class="json-number">1</span>' in page
    held = get(client, state="in_flight")
    assert len(ids_on(held)) == 1
    assert "worker-7 127.0.0.1:" in held
    assert re.search(r'data-label="Times out in"\s+data-left-ms="5[0-9]{5}"', held)
    later = get(client, state="deferred")
    assert re.search(r'data-label="Due in"\s+data-left-ms="3[0-9]{6}"', later)
    assert '<span class="preview">later</span>' in later
    assert stats(engine) == (2, 1, 1)


def test_finished_messages_are_listed_as_long_as_the_log_has_them(engine: EngineRunner, client: Client) -> None:
    assert "No finished message is left in the log" in get(client, state="finished")
    with NsqSocket(engine.tcp_address[1]) as consumer:
        consumer.subscribe("orders", "billing", rdy=1)
        consumer.finish(consumer.read_message())
        consumer.send(b"RDY 0\n")
        wait_for("the FIN", lambda: "json-number" in get(client, state="finished"))


def test_a_look_at_bodies_is_audited_with_what_was_seen(client: Client, engine: EngineRunner) -> None:
    get(client)
    row = last_row()
    assert (row.action, row.channel, row.verdict) == ("read_messages", "billing", "done")
    assert row.message == "Looked at 3 messages of orders/billing."
    [first, *_] = ids_on(get(client))
    assert client.get(f"{PAGE}{first}/").status_code == 200
    assert last_row().detail == f"message {first}"
    assert client.get(f"{PAGE}{first}/body").content == b'{"order": 0}'
    assert last_row().detail == f"message {first}, its file"


def test_a_viewer_sees_states_and_no_body(engine: EngineRunner, consumer: NsqSocket) -> None:
    viewer = client_of(make_user("vera", Role.VIEWER))
    for state in ("", "in_flight", "deferred", "finished"):
        page = get(viewer, state=state)
        assert "quot;order" not in page
        assert "later" not in page
        assert 'class="unfold"' not in page
    held = get(viewer, state="in_flight")
    assert "worker-7" in held
    [message] = ids_on(held)
    one = viewer.get(f"{PAGE}{message}/").content.decode()
    assert (
        "The body and the key are not shown. Looking at bodies and keys needs the role operator; yours is viewer."
        in one
    )
    assert "worker-7" in one
    assert "&quot;order" not in one
    assert viewer.get(f"{PAGE}{message}/body").status_code == 403
    assert viewer.post(f"{PAGE}~file/", {"id": "0"}).status_code == 403
    assert not AuditRow.objects.filter(action="read_messages").exists()


def test_one_message_is_found_by_its_id_and_by_its_offset(client: Client) -> None:
    [first, *_] = ids_on(get(client))
    for find in (first, "0"):
        answer = client.get(PAGE, {"find": find})
        assert answer["Location"] == f"{PAGE}{find}/"
        page = client.get(answer["Location"]).content.decode()
        assert f'<h1 class="mono">{first}</h1>' in page
        assert ">Waiting</span>" in page
    gone = client.get(f"{PAGE}99/")
    assert gone.status_code == 404
    assert "topic orders has no offset 99: its offsets end before 4" in gone.content.decode()


def test_a_wrong_value_is_named_with_its_limit(client: Client) -> None:
    for field, value, says in (
        ("find", "nonsense", "&#x27;nonsense&#x27; is neither a message id of 16 hex digits nor an offset"),
        ("state", "lost", "&#x27;lost&#x27; is no state of a message: it can be waiting, in_flight"),
        ("sort", "size", "Messages can&#x27;t be sorted by &#x27;size&#x27;: it can be attempts or age."),
        ("first", "²", "is not an offset: a whole number from 0."),
        ("from", "yesterday", "&#x27;yesterday&#x27; is not a time such as"),
        ("attempts", "65536", "is not a number of attempts: a whole number from 0 to 65,535."),
    ):
        answer = client.get(PAGE, {field: value})
        assert answer.status_code == 400
        assert says in answer.content.decode()


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        (
            {"from": "2026-03-02T10:00Z", "to": "2026-03-01T10:00Z"},
            "The times are reversed: from 2026-03-02 10:00:00 UTC is not before 2026-03-01 10:00:00 UTC.",
        ),
        (
            {"from": "2026-03-01T10:00Z", "to": "2026-03-01T10:00"},
            "The times are reversed: from 2026-03-01 10:00:00 UTC is not before 2026-03-01 10:00:00 UTC.",
        ),
        ({"first": "2", "last": "1"}, "The offsets are reversed: from 2 is after 1."),
    ],
)
def test_a_reversed_range_is_said_and_not_an_empty_list(client: Client, filters: dict[str, str], says: str) -> None:
    answer = client.get(PAGE, filters)
    assert answer.status_code == 400
    assert says in answer.content.decode()


def test_filters_narrow_the_list_and_an_empty_one_says_so(client: Client) -> None:
    assert len(ids_on(get(client, first="1", last="1"))) == 1
    assert len(ids_on(get(client, **{"from": "2020-01-01T00:00"}))) == 3
    none = get(client, attempts="1")
    assert "No message of this state passes the filters" in none
    assert "Clear the filters" in none


def test_pages_follow_each_other_by_cursor(engine: EngineRunner, client: Client) -> None:
    engine.calls.publish("orders", [b"%d" % number for number in range(40)]).result(30)
    seen: list[str] = []
    path = PAGE
    while path:
        page = client.get(path).content.decode()
        seen += ids_on(page)
        [path] = re.findall(r'href="([^"]*)" rel="next"', page) or [""]
        path = path.replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 43


def test_there_is_no_page_of_a_channel_that_is_not_there(client: Client) -> None:
    for path in ("", "0/", "0/body"):
        answer = client.get(f"/topics/orders/nobody/~messages/{path}")
        assert answer.status_code == 404
        assert "There is no channel orders/nobody." in answer.content.decode()


def test_a_selection_is_a_file_of_a_json_object_a_line(engine: EngineRunner, client: Client) -> None:
    engine.calls.publish("orders", [b"\xff\x00"]).result(30)
    ids = ids_on(get(client))
    answer = client.post(f"{PAGE}~file/", {"id": ids})
    assert answer["Content-Disposition"] == 'attachment; filename="orders-billing-messages.ndjson"'
    lines = [json.loads(line) for line in answer.content.decode().splitlines()]
    assert [line["id"] for line in lines] == ids
    assert lines[0]["body"] == '{"order": 0}'
    assert (lines[-1]["body_base64"], "body" in lines[-1]) == ("/wA=", False)
    assert last_row().message == "Looked at 4 messages of orders/billing."
    for wanted, says in (([], "none is named"), (["x"], "&#x27;x&#x27; is neither a message id")):
        refused = client.post(f"{PAGE}~file/", {"id": wanted})
        assert (refused.status_code, says in refused.content.decode()) == (400, True)
    many = client.post(f"{PAGE}~file/", {"id": [str(number) for number in range(101)]})
    assert "101 messages are too many for one file: it has 100 at most." in many.content.decode()


def test_a_body_larger_than_the_list_shows_unfolds_on_its_own_page(engine: EngineRunner, client: Client) -> None:
    engine.calls.publish("orders", [b"x" * 300_000]).result(30)
    [*_, large] = ids_on(get(client))
    assert "the first 1,024 of 300,000 bytes" in get(client)
    one = client.get(f"{PAGE}{large}/").content.decode()
    assert "the first 4,096 of 300,000 bytes" in one
    whole = client.get(f"{PAGE}{large}/", {"whole": "1"}).content.decode()
    assert "the first 262,144 of 300,000 bytes" in whole
    assert len(client.get(f"{PAGE}{large}/body").content) == 300_000


def test_a_text_is_searched_for_in_bodies_and_the_look_is_audited(engine: EngineRunner, client: Client) -> None:
    started = client.get(PAGE, {"text": '"order": 2', "in": "waiting"})
    assert started.status_code == 302

    def found() -> str:
        text: str = client.get(started["Location"], headers={"X-Fragment": "1"}).content.decode()
        return text

    wait_for("the search to end", lambda: 'data-state="at_end"' in found())
    page = client.get(started["Location"]).content.decode()
    assert "1 found" in page
    assert "{<mark>&quot;order&quot;: 2</mark>}" in page
    assert last_row().detail == 'search for "order": 2'
    elsewhere = started["Location"].replace("billing", "audit")
    assert client.get(elsewhere)["Location"] == "/topics/orders/audit/~messages/"
    assert client.post(started["Location"]).status_code == 302
    viewer = client_of(make_user("vera", Role.VIEWER))
    assert viewer.get(started["Location"]).status_code == 403
    assert viewer.get(PAGE, {"text": "order"}).status_code == 200, "the list, without a search"
    wrong = client.get(PAGE, {"text": "x", "in": "lost"})
    assert (wrong.status_code, "state=lost can be waiting" in wrong.content.decode()) == (409, True)


def test_a_viewer_sees_no_key_and_finds_none(engine: EngineRunner, client: Client) -> None:
    if 'name="key"' not in get(client):
        return  # a disk queue has no keys
    before = set(ids_on(get(client)))
    engine.calls.publish("orders", [b"x"], key=b"anna@example.org").result(30)
    viewer = client_of(make_user("vera", Role.VIEWER))
    page = get(viewer)
    assert "anna@example.org" not in page
    assert 'name="key"' not in page
    assert 'data-label="Key"' not in page
    [message] = set(ids_on(page)) - before
    assert "anna@example.org" not in viewer.get(f"{PAGE}{message}/").content.decode()
    AuditRow.objects.filter(action="read_messages").delete()
    asked = viewer.get(PAGE, {"key": "anna@example.org"})
    assert asked.status_code == 400
    assert "Looking for a key needs the role operator; yours is viewer." in asked.content.decode()
    assert ids_on(asked.content.decode()) == ids_on(page)
    assert not AuditRow.objects.filter(action="read_messages").exists()


def test_a_look_for_a_key_is_audited_where_no_message_has_it(engine: EngineRunner, client: Client) -> None:
    if 'name="key"' not in get(client):
        return  # a disk queue has no keys
    get(client, key="anna@example.org")
    row = last_row()
    assert (row.action, row.channel, row.message) == (
        "read_messages",
        "billing",
        "Looked at 0 messages of orders/billing.",
    )
    assert "anna%40example.org" in row.detail


def test_messages_of_a_state_are_found_by_their_key(engine: EngineRunner, client: Client) -> None:
    if 'name="key"' not in get(client):
        assert "Offsets from" not in get(client)  # a disk queue has neither keys nor offsets
        return
    for number in range(30):
        engine.calls.publish("orders", [b"%d" % number], key=b"<b>&7").result(30)
    first = get(client, key="<b>&7", sort="age")
    assert len(ids_on(first)) == 25
    assert 'name="key" value="&lt;b&gt;&amp;7"' in first
    assert "Messages with a key are listed with the newest first" in first
    [following] = re.findall(r'href="([^"]+)" rel="next"', first)
    rest = client.get(html.unescape(following)).content.decode()
    assert len(ids_on(rest)) == 5
    assert ids_on(rest)[-1] == "%016x" % (int(ids_on(first)[0], 16) - 29)
    assert "No message of this state passes the filters" in get(client, key="<b>&7", state="deferred")
    for key, sentence in (("ü" * 128, "is longer than a key can be: the most is 255 bytes."),):
        answer = client.get(PAGE, {"key": key})
        assert (answer.status_code, sentence in answer.content.decode()) == (400, True)
