"""The quarantine on a channel's page: its figures, its acts as forms, and what a role or a kind can't do."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.messages.lines import facts_of
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ChannelStats
from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.messages.rows import MessageRow, Returned
from queue_engine.service.runner import EngineRunner
from tests.support.pages.console import client_of, console_engine, make_user

pytestmark = pytest.mark.django_db

PAGE = "/topics/orders/billing/"
JSON = {"Accept": "application/json"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    """Topic orders of the log with the channel billing, and 5 messages, the first three of them quarantined."""
    with console_engine(tmp_path) as runner:
        runner.calls.create_topic("orders", storage="log").result(30)
        runner.calls.create_channel("orders", "billing").result(30)
        runner.calls.create_topic("files", storage="diskqueue").result(30)
        runner.calls.create_channel("files", "billing").result(30)
        runner.calls.publish("orders", [b"m%d" % number for number in range(5)]).result(30)
        runner.calls.quarantine_messages("orders", "billing", offsets=[0, 1, 2]).result(30)
        yield runner


def stats_of(engine: EngineRunner) -> ChannelStats:
    (topic,) = engine.calls.stats(topic="orders").result(30).topics
    channel: ChannelStats = topic.channels[0]
    return channel


def message_of(client: Client, act: str, **form: str) -> str:
    message: str = client.post(f"{PAGE}~{act}/", form, headers=JSON).json()["message"]
    return message


def test_what_a_disk_queue_can_not_search_has_its_reason_in_sight(client: Client) -> None:
    reason = "only the log can be searched; the files of a disk queue are read once, from front to back."
    page = client.get("/topics/files/billing/~messages/").content.decode()
    assert re.search(rf"<p[^>]*>Topic files has storage kind diskqueue: {reason}</p>", page)
    assert "can be searched" not in client.get(f"{PAGE}~messages/").content.decode()


def test_the_page_shows_what_is_quarantined_and_why(client: Client) -> None:
    page = client.get(PAGE).content.decode()
    assert "3 messages are quarantined." in page
    assert "3 quarantined" in page
    assert "3 by an operator" in page
    assert page.count(f'href="{PAGE}~messages/?state=quarantined"') == 2, "in the banner and in the panel"
    assert page.index("Show the messages") < page.index("Redrive…")
    assert "3 messages, 6\u00a0B, the oldest for" in page
    assert "6 messages (depth 2, 3 quarantined" not in page
    assert "5 messages (depth 2, 3 quarantined) will be removed." in client.get(f"{PAGE}~empty/").content.decode()


def test_a_message_tells_how_its_deliveries_ended() -> None:
    history = (Returned(10**18, "requeued", "w 10.0.0.7:5"), Returned(10**18 + 10**9, "timed out", ""))
    told = "2001-09-09 01:46:40.000 UTC requeued · w 10.0.0.7:5; 2001-09-09 01:46:41.000 UTC timed out"
    for state in ("waiting", "quarantined"):
        facts = facts_of(MessageRow(state, "0" * 16, attempts=3, history=history), 2 * 10**18, with_key=False)
        assert [fact.title for fact in facts if "UTC" in fact.title] == [told]
        assert [fact.endings for fact in facts if fact.endings] == [told.split("; ")[::-1]]


def test_max_attempts_are_set_redriven_and_cancelled_with_sentences_and_audit_rows(
    client: Client, engine: EngineRunner
) -> None:
    assert "It is off now." in client.get(f"{PAGE}~max-attempts/").content.decode()
    off = client.get(f"{PAGE}~redrive/").content.decode()
    assert "Max attempts are off: messages that fail again go back to the queue and are not quarantined." in off
    assert "quarantines them again" not in off
    sentence = "Set max attempts of orders/billing to 5: messages that fail so often are quarantined."
    assert message_of(client, "max-attempts", max_attempts="5") == sentence
    assert stats_of(engine).quarantine.max_attempts == 5
    assert 'data-when="has_quarantine">' in client.get(PAGE).content.decode()
    assert (
        "No redrive is under way: cancelling changes nothing." in client.get(f"{PAGE}~cancel-redrive/").content.decode()
    )
    question = client.get(f"{PAGE}~redrive/").content.decode()
    assert "3 quarantined messages will wait again in this channel alone." in question
    assert "Messages that fail again are quarantined again; this redrive does not take them a second time." in question
    assert message_of(client, "redrive", rate="1") == "Redriving 3 messages of orders/billing at 1 message/s."
    page = client.get(PAGE).content.decode()
    assert "under way: " in page
    question = client.get(f"{PAGE}~cancel-redrive/").content.decode()
    assert " not redriven yet will stay quarantined." in question
    assert question.count(">Cancel<") == 0, "beside Cancel the redrive it would say the opposite"
    assert ">Go back<" in question
    assert message_of(client, "cancel-redrive").startswith("Cancelled the redrive of orders/billing: ")
    assert "cancelled: " in client.get(PAGE).content.decode()
    actions = list(AuditRow.objects.order_by("id").values_list("action", flat=True).distinct())
    assert {"set_max_attempts", "redrive_channel", "cancel_redrive"} <= set(actions)


@pytest.mark.parametrize(
    ("act", "form", "told"),
    [
        ("max-attempts", {"max_attempts": "x"}, "is not a whole number from 0 to 1,000."),
        ("max-attempts", {"max_attempts": "1001"}, "is not a whole number from 0 to 1,000."),
        ("redrive", {"rate": "0"}, "is not a whole number from 1 to 10,000."),
    ],
)
def test_what_can_not_be_is_named_and_nothing_is_done(
    client: Client, engine: EngineRunner, act: str, form: dict[str, str], told: str
) -> None:
    assert told in message_of(client, act, **form)
    assert (stats_of(engine).quarantine.max_attempts, stats_of(engine).redrive) == (0, None)
    assert not AuditRow.objects.exists()


def test_a_viewer_and_a_disk_queue_have_disabled_buttons_with_the_reason(client: Client, engine: EngineRunner) -> None:
    viewer = client_of(make_user("vera", Role.VIEWER))
    assert viewer.post(f"{PAGE}~redrive/", {"rate": "1"}).status_code == 403
    page = client.get("/topics/files/billing/").content.decode()
    assert page.count("which can&#x27;t say that a message is set aside") >= 2


def test_a_rewind_says_what_becomes_of_what_is_quarantined(engine: EngineRunner, client: Client) -> None:
    on = client.post(f"{PAGE}~rewind/", {"place": "end"}).content.decode()
    assert "It skips 2 messages that it has not finished" in on
    assert "has 3 quarantined messages: those before that offset are skipped, too" in on
    skipped = {"target": Target(offset=5), "keep_finished": True}
    engine.calls.rewind_channel("orders", "billing", **skipped).result(30)
    engine.calls.publish("orders", [b"m5"]).result(30)
    engine.calls.quarantine_messages("orders", "billing", offsets=[5]).result(30)
    back = client.post(f"{PAGE}~rewind/", {"place": "start"}).content.decode()
    assert "has 1 quarantined message: none stays quarantined." in back
    assert "delivers 6 messages from there on, finished ones again" in back
    form = client.post(f"{PAGE}~rewind/", {"place": "start"}, headers=JSON).json()["form"]
    assert client.post(f"{PAGE}~rewind/", form).status_code == 302
    assert (stats_of(engine).depth, stats_of(engine).quarantined_count) == (6, 0)
