"""Acts on single messages from the pages: each message gets its own result, and what failed stays selected."""

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

pytestmark = pytest.mark.django_db

PAGE = "/topics/orders/billing/~messages/"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    """Topic orders with the channel billing and 3 messages, a deferred fourth one, and the topic elsewhere."""
    with console_engine(tmp_path) as runner:
        for topic in ("orders", "elsewhere"):
            runner.calls.create_topic(topic).result(30)
            runner.calls.create_channel(topic, "billing").result(30)
        runner.calls.publish("orders", [b"one", b"two", b"three"]).result(30)
        runner.calls.publish("orders", [b"later"], defer_ms=3_600_000).result(30)
        yield runner


def ids(client: Client, state: str = "waiting") -> list[str]:
    return re.findall(r'data-message="([0-9a-f]{16})"', client.get(PAGE, {"state": state}).content.decode())


def stats(engine: EngineRunner, topic: str = "orders") -> tuple[int, int, int]:
    found = engine.calls.stats(topic=topic, channel="billing").result(30).topics[0].channels[0]
    return found.depth, found.in_flight_count, found.deferred_count


def act(client: Client, name: str, *messages: str, state: str = "waiting", **form: str) -> str:
    """Post the act from the list of a state; the page that the browser shows then."""
    answer = client.post(f"{PAGE}~{name}/", {"id": messages, "next": f"{PAGE}?state={state}", **form}, follow=True)
    text: str = answer.content.decode()
    return text


def said(page: str) -> str:
    """The sentence above the page."""
    found = re.search(r'<li class="(?:success|error|warning)">(.*?)</li>', page)
    assert found is not None, page
    return found[1]


def last_row() -> AuditRow:
    row = AuditRow.objects.exclude(action="read_messages").order_by("id").last()
    assert row is not None
    return row


def test_finishing_one_message_loses_it_to_this_channel_alone(engine: EngineRunner, client: Client) -> None:
    engine.calls.create_channel("orders", "audit").result(30)
    first, *_ = ids(client)
    page = act(client, "finish", first)
    assert said(page) == "Finished 1 message of orders/billing."
    assert first not in ids(client)
    assert stats(engine) == (2, 0, 1)
    row = last_row()
    assert (row.action, row.phase, row.verdict) == ("finish_messages", "result", "done")
    assert (row.detail, row.channel) == (f"message {first}", "billing")


def test_a_row_s_own_button_is_for_that_row_whatever_is_selected(engine: EngineRunner, client: Client) -> None:
    first, second, third = ids(client)
    act(client, "finish", first, second, only=third)
    assert ids(client) == [first, second]


def test_what_is_in_flight_is_requeued_and_what_is_deferred_released(engine: EngineRunner, client: Client) -> None:
    with NsqSocket(engine.tcp_address[1]) as consumer:
        consumer.identify(msg_timeout=600_000)
        consumer.subscribe("orders", "billing", rdy=2)
        held = [consumer.read_message().id.decode() for _ in range(2)]
        consumer.send(b"RDY 0\n")
        page = act(client, "requeue", *held, state="in_flight")
        assert said(page) == "Requeued 2 messages of orders/billing."
        page = act(client, "release", *ids(client, "deferred"), state="deferred")
        assert said(page) == "Released 1 deferred message of orders/billing."
        assert stats(engine) == (4, 0, 0)


def test_what_failed_says_why_and_stays_selected(engine: EngineRunner, client: Client) -> None:
    first, second, third = ids(client)
    act(client, "finish", first)
    answer = client.post(f"{PAGE}~requeue/", {"id": [second, third], "next": PAGE})
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "Requeued 0 of 2 messages of orders/billing." in page
    assert f"{second}</a>: It is not in flight: it waits." in page
    assert [one for one in (second, third) if re.search(rf'value="{one}"[^>]* checked', page)] == [second, third]
    assert stats(engine) == (2, 0, 1)
    partly = client.post(f"{PAGE}~finish/", {"id": [second, "f" * 16]}).content.decode()
    assert "Finished 1 of 2 messages of orders/billing." in partly
    assert "ffffffffffffffff</a>: " in partly
    assert ids(client) == [third]


def test_a_script_gets_a_result_for_each(client: Client) -> None:
    first, second, _ = ids(client)
    headers = {"Accept": "application/json"}
    act(client, "finish", first)
    answer = client.post(f"{PAGE}~release/", {"id": [second]}, headers=headers)
    [result] = answer.json()["results"]
    assert (result["message"], result["ok"], result["code"]) == (second, False, "NOT_DEFERRED")
    assert client.post(f"{PAGE}~finish/", {"id": [second]}, headers=headers).json()["results"][0]["ok"] is True


def test_publishing_again_asks_where_to_and_is_audited_with_source_and_target(
    engine: EngineRunner, client: Client
) -> None:
    first, second, _ = ids(client)
    asked = client.post(f"{PAGE}~publish-again/", {"id": [first, second], "next": PAGE})
    text = asked.content.decode()
    assert asked.status_code == 200
    assert f"{first}\n{second}</textarea>" in text
    assert "Publish 2 messages of orders/billing again" in text
    assert 'rows="2"' in text, "as many as it holds"
    assert 'name="to" value="orders"' in text
    assert stats(engine, "elsewhere")[0] == 0
    page = act(client, "publish-again", f"{first}\n{second}", to="elsewhere")
    assert said(page) == "Published 2 messages of orders/billing again to elsewhere."
    assert (stats(engine), stats(engine, "elsewhere")) == ((3, 0, 1), (2, 0, 0))
    row = last_row()
    assert (row.topic, row.channel) == ("orders", "billing")
    assert row.detail == f"to elsewhere: messages {first}, {second}"
    wrong = act(client, "publish-again", first, to="a b")
    assert "&#x27;a b&#x27; is not a topic name. Nothing was done." in wrong


def test_a_wrong_selection_is_named_with_its_limit(engine: EngineRunner, client: Client) -> None:
    for messages, says in (
        ("", "Select the messages first, or name them: none was given. Nothing was done."),
        ("x" * 50, f"&#x27;{'x' * 40}&#x27; is neither a message id of 16 hex digits nor an offset."),
        (" ".join(map(str, range(1_001))), "1,001 messages are too many at once: the most is 1,000. Nothing was done."),
    ):
        for name in ("finish", "requeue", "release"):
            assert says in act(client, name, messages)
    assert stats(engine) == (3, 0, 1)
    assert not AuditRow.objects.exclude(action="read_messages").exists()


def test_each_role_is_offered_what_it_may_and_told_why_not(engine: EngineRunner) -> None:
    operator = client_of(make_user("olga", Role.OPERATOR))
    page = operator.get(PAGE).content.decode()
    assert "~publish-again/" in page
    assert "~finish/" not in page
    assert re.search(r'aria-disabled="true" title="Needs the role admin; yours is operator.">Finish…</span>', page)
    viewer = client_of(make_user("vera", Role.VIEWER)).get(PAGE).content.decode()
    assert "formaction" not in viewer
    assert "Publish again needs the role operator, Finish needs the role admin; yours is viewer." in viewer.replace(
        "Quarantine and Publish again need ", "Publish again needs "
    )
    assert "Needs the role operator; yours is viewer. " not in viewer


def test_a_question_is_beside_the_act_that_can_not_be_taken_back(client: Client) -> None:
    page = client.get(PAGE).content.decode()
    assert "This channel never delivers it again: the message is lost to its consumers." in page
    first, *_ = ids(client)
    alone = client.get(f"{PAGE}~finish/", {"id": first}).content.decode()
    assert f">{'Finish 1 message of orders/billing'}</button>" in alone
