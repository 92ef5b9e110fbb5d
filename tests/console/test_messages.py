"""Looking at messages and rewinding channels in the console: nothing is consumed, every look and act is audited."""

import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.gateway.gateway import ChannelStats
from admin_console.messages.message_filter import time_ns_of
from admin_console.vocabulary.roles import Role
from queue_engine.engine.acts.log_acts import Target
from queue_engine.service.runner import EngineRunner
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console import client_of, console_engine, make_user, see
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

PAGE = "/topics/orders/~messages/"
REWIND = "/topics/orders/billing/~rewind/"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    """Topic orders with the channel billing and 50 messages, and a disk queue."""
    with console_engine(tmp_path) as runner:
        runner.calls.create_topic("orders").result(30)
        runner.calls.create_channel("orders", "billing").result(30)
        runner.calls.publish("orders", [b'{"order": %d}' % number for number in range(50)]).result(30)
        runner.calls.create_topic("old", storage="diskqueue").result(30)
        yield runner


def stats(engine: EngineRunner) -> ChannelStats:
    found: ChannelStats = engine.calls.stats(topic="orders", channel="billing").result(30).topics[0].channels[0]
    return found


def depth(engine: EngineRunner) -> int:
    return stats(engine).depth


def in_flight(engine: EngineRunner) -> int:
    return stats(engine).in_flight_count


def orders_on(page: str) -> list[int]:
    """The orders of the bodies on a page."""
    return [int(number) for number in re.findall(r'&quot;order&quot;</b>: <span class="json-number">([0-9]+)<', page)]


def test_the_newest_messages_are_shown_and_stay(engine: EngineRunner, client: Client) -> None:
    text = client.get(PAGE).content.decode()
    assert orders_on(text) == list(range(30, 50))
    assert f"{PAGE}?offset=10" in text
    older = client.get(PAGE, {"offset": "10"}).content.decode()
    assert orders_on(older) == list(range(10, 30))
    assert f"{PAGE}?offset=30" in older
    assert depth(engine) == 50
    newest, older_look = AuditRow.objects.order_by("id")
    assert (newest.action, newest.phase, newest.verdict) == ("read_messages", "event", "done")
    assert newest.message == "Looked at 20 messages of orders."
    assert newest.counts == {"messages": 20, "first_offset": 30, "last_offset": 49}
    assert (older_look.detail, older_look.counts["first_offset"]) == ("offset=10", 10)


def test_messages_are_found_by_their_key(engine: EngineRunner, client: Client) -> None:
    for number in range(25):
        engine.calls.publish("orders", [b'{"order": %d}' % (100 + number)], key=b"<b>&7").result(30)
    first = client.get(PAGE, {"key": "<b>&7"}).content.decode()
    assert orders_on(first) == list(range(124, 104, -1))
    assert 'value="&lt;b&gt;&amp;7"' in first
    assert "not indexed yet" not in first
    older = client.get(PAGE, {"key": "<b>&7", "before": "55"}).content.decode()
    assert f"{PAGE}?key=%3Cb%3E%267&amp;before=55&amp;form=auto" in first
    assert orders_on(older) == list(range(104, 99, -1))
    assert f"{PAGE}?key=%3Cb%3E%267&amp;form=auto" in older
    assert "No message with key none" in client.get(PAGE, {"key": "none"}).content.decode()
    looks = AuditRow.objects.order_by("id")
    assert looks[0].message == "Looked at 20 messages of orders."
    assert looks[0].detail == "key=%3Cb%3E%267"


def test_a_look_by_key_says_what_is_not_indexed_yet(
    engine: EngineRunner, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_engine.storage.key_index.key_indexes.KeyIndexes.missing", lambda self, topic: [(10, 50)])
    text = client.get(PAGE, {"key": "k"}).content.decode()
    assert "40 messages from offset 10 on are not indexed yet and may be missing here." in text


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"key": "ü" * 128}, "The key has 256 bytes; the most is 255."),
        ({"key": "k", "before": "x"}, "&#x27;x&#x27; is not an offset: a whole number from 0."),
    ],
)
def test_a_look_by_key_refuses_in_a_sentence(
    engine: EngineRunner, client: Client, query: dict[str, str], sentence: str
) -> None:
    answer = client.get(PAGE, query)
    assert answer.status_code == 400
    assert sentence in answer.content.decode()


def test_pages_count_messages_across_offsets_that_a_kill_left_unused(engine: EngineRunner, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    shutil.copytree(engine.options.data_path, killed)  # what a kill would leave at this moment
    engine.stop()
    with console_engine(killed) as runner:
        runner.calls.publish("orders", [b'{"order": %d}' % number for number in range(50, 55)]).result(30)
        client = client_of(make_user())
        shown, newer = [], PAGE
        for _ in range(3):
            text = client.get(newer).content.decode()
            shown.append(orders_on(text))
            [newer] = re.findall(rf'href="({PAGE}[^"]*)" rel="prev"', text) or [PAGE]
        assert shown == [list(range(35, 55)), list(range(15, 35)), list(range(20))]
        assert newer == PAGE, "there is nothing older"


def test_a_released_message_is_not_shown_as_deferred_any_more(engine: EngineRunner, client: Client) -> None:
    engine.calls.empty_channel("orders", "billing").result(30)
    engine.calls.publish("orders", [b"later"], defer_ms=3_600_000).result(30)
    channel = "/topics/orders/billing/~messages/"
    assert "later" not in client.get(channel).content.decode(), "it is not next"
    engine.calls.release_deferred("orders", "billing").result(30)
    shown = client.get(channel).content.decode()
    assert "later" in shown
    assert "published to be deferred" not in shown
    # What the topic has is as it was published.
    assert re.search(r"published to be deferred until 20[0-9: .-]+ UTC", client.get(PAGE).content.decode())


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ({"offset": "ten"}, 400, "is not an offset"),
        ({"offset": "²"}, 400, "is not an offset"),
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
    assert AuditRow.objects.order_by("id").last().verdict == "failed"


def test_a_viewer_sees_no_bodies(engine: EngineRunner) -> None:
    viewer = client_of(make_user("vera", Role.VIEWER))
    assert viewer.get(PAGE).status_code == 403
    assert f'href="{PAGE}"' not in viewer.get("/topics/orders/").content.decode()


class Form(HTMLParser):
    """What a browser would send of a page's form: `fields`. Without a choice of one's own, as it is."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._select = ""
        self.feed(page[page.index('<form class="dialog-body') :])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and given.get("type") in ("hidden", "text"):
            self.fields[given["name"] or ""] = given.get("value") or ""
        elif tag == "select":
            self._select = given["name"] or ""
        elif tag == "option" and "selected" in given:
            self.fields[self._select] = given["value"] or ""


def previewed(client: Client, **choice: str) -> dict[str, str]:
    """The form of a preview, ready to be sent."""
    answer = client.post(REWIND, choice)
    assert answer.status_code == 200
    return Form(answer.content.decode()).fields


def publish(engine: EngineRunner, count: int) -> None:
    engine.calls.publish("orders", [b"{}"] * count).result(30)


def last_row() -> AuditRow:
    row = AuditRow.objects.order_by("id").last()
    assert row is not None
    return row


def test_a_rewind_is_previewed_before_it_is_done(engine: EngineRunner, client: Client) -> None:
    asked = client.get(REWIND).content.decode()
    assert ">Preview</button>" in asked
    assert "The channel has a depth of 50 now." in asked
    shown = client.post(REWIND, {"place": "offset", "offset": "40"}).content.decode()
    assert "It skips 40 messages that it has not finished" in shown
    assert "10 messages so far" in shown
    assert "Rewind orders/billing to offset 40</button>" in shown
    assert depth(engine) == 50
    client.post(REWIND, Form(shown).fields | {"reason": "bad deploy"})
    assert depth(engine) == 10
    row = last_row()
    assert (row.action, row.detail, row.reason) == ("rewind_channel", "offset 40", "bad deploy")
    assert row.message == "Rewound orders/billing to offset 40: its depth is 10 now."
    shown = client.post(REWIND, {"place": "offset", "offset": "40"}).content.decode()
    assert "It skips no message that it has not finished" in shown
    assert "skipped messages" not in shown


def test_a_rewind_to_the_end_is_done_as_previewed_while_messages_are_published(
    engine: EngineRunner, client: Client
) -> None:
    form = previewed(client, place="end")
    publish(engine, 7)
    answer = client.post(REWIND, form)
    assert (answer.status_code, answer["Location"]) == (302, "/topics/orders/billing/")
    assert depth(engine) == 7
    assert last_row().message == "Rewound orders/billing to offset 50: its depth is 7 now."


def test_a_rewind_to_the_end_repeats_nothing_that_consumers_finished_since_the_preview(
    engine: EngineRunner, client: Client
) -> None:
    form = previewed(client, place="end")
    publish(engine, 20)
    with NsqSocket(engine.tcp_address[1]) as consumer:
        consumer.subscribe("orders", "billing", rdy=60)
        messages = [consumer.read_message() for _ in range(60)]
        consumer.send(b"RDY 0\n")
        for message in messages:
            consumer.finish(message)
        wait_for("the last FIN", lambda: in_flight(engine) == 0)
    assert client.post(REWIND, form).status_code == 302
    assert depth(engine) == 10


def test_a_rewind_back_is_done_as_previewed_though_the_channel_goes_on(engine: EngineRunner, client: Client) -> None:
    with NsqSocket(engine.tcp_address[1]) as consumer:
        consumer.subscribe("orders", "billing", rdy=50)
        for message in [consumer.read_message() for _ in range(50)]:
            consumer.finish(message)
        wait_for("the last FIN", lambda: in_flight(engine) == 0)
    shown = client.post(REWIND, {"place": "start"}).content.decode()
    assert "The channel goes to offset 0 (the topic holds offsets 0 to 49)." in shown
    assert "delivers 50 messages from there on, finished ones again" in shown
    publish(engine, 2)
    assert client.post(REWIND, Form(shown).fields).status_code == 302
    assert depth(engine) == 52


def test_a_rewind_delivers_as_previewed_what_an_operator_finished_ahead_of_the_channel(
    engine: EngineRunner, client: Client
) -> None:
    engine.calls.finish_messages("orders", "billing", offsets=[0, 20, 21]).result(30)
    for form, offset, count in (
        ({"place": "start"}, 0, 50),
        ({"place": "offset", "offset": "21"}, 21, 29),
    ):
        shown = client.post(REWIND, form).content.decode()
        assert f"The channel goes to offset {offset} (the topic holds offsets 0 to 49)." in shown
        assert f"delivers {count} messages from there on, finished ones again" in shown
        assert client.post(REWIND, Form(shown).fields).status_code == 302
        assert depth(engine) == count
        engine.calls.finish_messages("orders", "billing", offsets=[30]).result(30)
        assert depth(engine) == count - 1


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"place": "start", "confirmed": "40"}, "You chose another place after the preview. Nothing was done."),
        ({"place": "end", "confirmed": "0", "previewed": "back start"}, "You chose another place after the preview."),
        ({"place": "end", "confirmed": "x"}, "is not an offset: a whole number from 0. Nothing was done."),
        ({"place": "end", "confirmed": "51"}, "offset 51 of orders is beyond its end, 50."),
        ({"place": "offset", "offset": "x"}, "is not an offset"),
        ({"place": "offset", "offset": "²"}, "is not an offset"),
    ],
)
def test_a_rewind_that_is_not_what_was_previewed_says_why(
    engine: EngineRunner, client: Client, form: dict[str, str], sentence: str
) -> None:
    answer = client.post(REWIND, form)
    assert answer.status_code == 400
    assert re.search(f'role="alert">[^/]*{re.escape(sentence)}', answer.content.decode())
    assert depth(engine) == 50
    assert not AuditRow.objects.exists()


def test_a_rewind_back_to_what_the_log_has_removed_since_the_preview_says_so(tmp_path: Path) -> None:
    with console_engine(tmp_path, log_segment_bytes=1 << 20) as engine:
        for act in ("create_topic", "create_channel"):
            getattr(engine.calls, act)(*("orders", "billing")[: 1 + (act == "create_channel")]).result(30)
        client = client_of(make_user())
        with NsqSocket(engine.tcp_address[1]) as consumer:
            consumer.subscribe("orders", "billing", rdy=1)
            engine.calls.publish("orders", [b"x" * 300_000]).result(30)
            consumer.finish(consumer.read_message())
            wait_for("the last FIN", lambda: in_flight(engine) == 0)
            form = previewed(client, place="start")
            assert form["confirmed"] == "0"

            def is_removed() -> bool:
                engine.calls.publish("orders", [b"x" * 300_000]).result(30)
                consumer.finish(consumer.read_message())
                preview = engine.calls.seek_preview("orders", "billing", Target(word="start")).result(30)
                return bool(preview.oldest_offset > 0)

            wait_for("a segment to be removed", is_removed)
        answer = client.post(REWIND, form)
    page = answer.content.decode()
    assert answer.status_code == 400
    assert re.search(r"The log has removed the messages before offset [0-9]+ since the preview: the channel", page)
    assert "The channel goes to offset" in page, "the preview of now"
    assert not AuditRow.objects.exists()


def test_a_script_gets_the_preview_and_confirms_it_with_the_form_that_it_got(
    engine: EngineRunner, client: Client
) -> None:
    json = {"Accept": "application/json"}
    preview = client.post(REWIND, {"place": "end"}, headers=json)
    found = preview.json()
    assert (preview.status_code, found["ok"], found["code"]) == (409, False, "NOT_CONFIRMED")
    assert "It skips 50 messages that it has not finished" in found["message"]
    publish(engine, 3)
    done = client.post(REWIND, found["form"], headers=json)
    assert (done.status_code, done.json()["message"]) == (
        200,
        "Rewound orders/billing to offset 50: its depth is 3 now.",
    )
    refused = client.post(REWIND, {"place": "offset", "offset": "x"}, headers=json)
    assert (refused.status_code, refused.json()["message"]) == (400, "'x' is not an offset: a whole number from 0.")


def test_a_rewind_of_before_has_the_same_name_in_the_audit_list(client: Client) -> None:
    AuditRow.objects.create(
        at_ms=1, action="seek_channel", topic="orders", channel="billing", phase="event", verdict="done", act_id="a1"
    )
    page = client.get("/audit/", {"action": "rewind_channel"}).content.decode()
    assert 'data-label="Act">rewind channel</td>' in page


def test_one_message_is_shown_in_whole_and_sent_as_a_file(engine: EngineRunner, client: Client) -> None:
    engine.calls.publish("orders", [b"x" * 5_000]).result(30)
    assert "the first 4,096 of 5,000 bytes" in client.get(PAGE).content.decode()
    whole = client.get(PAGE, {"offset": "50", "whole": "1"}).content.decode()
    assert "x" * 5_000 in whole
    answer = client.get(PAGE, {"offset": "50", "as": "file"})
    assert answer.content == b"x" * 5_000
    assert answer["Content-Disposition"].startswith('attachment; filename="orders-')
    assert last_row().counts == {"messages": 1, "first_offset": 50, "last_offset": 50}


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert time_ns_of("1970-01-01T00:01") == 60_000_000_000
    assert time_ns_of("1970-01-01T01:01+01:00") == 60_000_000_000


def test_a_topic_is_created_with_the_storage_chosen(engine: EngineRunner, client: Client) -> None:
    assert 'value="log" checked' in client.get("/topics/~create/").content.decode()
    client.post("/topics/~create/", {"topic": "fast", "storage": "diskqueue"})
    assert engine.calls.stats(topic="fast").result(30).topics[0].storage == "diskqueue"
    refused = client.post("/topics/~create/", {"topic": "other", "storage": "cloud"})
    assert refused.status_code == 400


def test_the_overview_tells_of_the_log(engine: EngineRunner, client: Client) -> None:
    see(engine)
    text = client.get("/").content.decode()
    assert "always: OK is sent once the message is on the disk" in text
    assert "everything is on the disk" in text
