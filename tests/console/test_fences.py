"""A fenced channel or topic in the console: why it stopped, and the button that lets it go on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.failing_calls import FailingCall
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console import client_of, console_engine, make_user, see
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

JSON = {"Accept": "application/json"}
REASON = "delivering failed unexpectedly: AssertionError at failing_calls.py"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    """Topic orders with the channel billing and 5 messages."""
    with console_engine(tmp_path) as runner:
        runner.calls.create_topic("orders").result(30)
        runner.calls.create_channel("orders", "billing").result(30)
        runner.calls.publish("orders", [b"m%d" % number for number in range(5)]).result(30)
        yield runner


def fenced_of(engine: EngineRunner) -> str:
    (topic,) = engine.calls.stats(topic="orders").result(30).topics
    return topic.fenced or topic.channels[0].fenced


def page(client: Client, path: str) -> str:
    return client.get(path).content.decode()


def test_the_page_says_why_a_channel_is_fenced_and_an_operator_lets_it_try_again(engine: EngineRunner) -> None:
    assert engine._engine is not None
    backlog = engine._engine.topics["orders"].channels["billing"].backlog
    fault = FailingCall(backlog, "take", AssertionError("a range holds 3, not 4"))
    operator, viewer = client_of(make_user("operator", Role.OPERATOR)), client_of(make_user("viewer", Role.VIEWER))
    with NsqSocket(engine.tcp_address[1]) as consumer:
        consumer.subscribe("orders", "billing", rdy=5)
        wait_for("the fence", lambda: fenced_of(engine).startswith(REASON))
        see(engine)
        text = page(operator, "/topics/orders/billing/")
        assert "Fenced: something failed in this channel, and it stopped." in text
        assert "Delivering failed unexpectedly: AssertionError at failing_calls.py" in text
        assert 'href="/topics/orders/billing/~retry/"' in text
        assert "fenced" in page(operator, "/topics/orders/")
        assert "The engine reports a problem." in page(operator, "/")
        question = page(operator, "/topics/orders/billing/~retry/")
        assert "It is fenced: delivering failed unexpectedly" in question
        assert "If it fails again, it stops again with the new reason." in question
        assert 'href="/topics/orders/billing/~retry/"' not in page(viewer, "/topics/orders/billing/")
        assert viewer.post("/topics/orders/billing/~retry/", headers=JSON).status_code == 403

        again = operator.post("/topics/orders/billing/~retry/", {"reason": "to see"}, headers=JSON)
        assert again.status_code == 200  # what it has is in order; its delivery fails again
        wait_for("the fence again", lambda: fault.failures == 2 and fenced_of(engine))
        fault.heal()
        done = operator.post("/topics/orders/billing/~retry/", {"reason": "mended"}, headers=JSON)
        assert (done.status_code, done.json()["message"]) == (200, "orders/billing works again: its depth is 5.")
        assert {consumer.read_message().body for _ in range(5)} == {b"m%d" % number for number in range(5)}
    rows = AuditRow.objects.filter(action="retry_channel", phase="result").order_by("id")
    assert [row.message for row in rows][-1] == "orders/billing works again: its depth is 5."


def test_a_retry_that_fails_is_told_with_the_new_reason(engine: EngineRunner) -> None:
    assert engine._engine is not None
    topic = engine._engine.topics["orders"]
    fault = FailingCall(topic.store, "append", AssertionError("a batch has no end"))
    start = FailingCall(topic.store, "start_over", AssertionError("still not"))
    admin = client_of(make_user())
    error = engine.calls.publish("orders", [b"x"]).exception(5)
    assert "topic orders is fenced" in str(error)
    see(engine)
    text = page(admin, "/topics/orders/")
    assert "Publishes to it are refused" in text
    assert 'href="/topics/orders/~retry/"' in text
    answer = admin.post("/topics/orders/~retry/", headers=JSON)
    assert answer.status_code == 409
    assert "trying it again failed unexpectedly: AssertionError" in answer.json()["message"]
    fault.heal()
    start.heal()
    answer = admin.post("/topics/orders/~retry/", headers=JSON)
    assert answer.json()["message"] == "orders works again: it is accepting messages, and its own depth is 0."
    engine.calls.publish("orders", [b"x"]).result(30)


def test_a_retry_of_what_nothing_stops_changes_nothing(engine: EngineRunner) -> None:
    admin = client_of(make_user())
    question = page(admin, "/topics/orders/billing/~retry/")
    assert "Nothing stops it now" in question
    assert "If it fails again" not in question
    answer = admin.post("/topics/orders/billing/~retry/", headers=JSON)
    assert answer.status_code == 200
