"""Notifications of acts: after the act, with its outcome and its author, and sent again where they are refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.test import Client

from admin_console.audit.models import AuditRow, Origin, Verdict
from admin_console.audit.notifier import Notifier, documents
from admin_console.vocabulary.roles import Role
from tests.support.fake_node import FakeNode
from tests.support.pages.console import client_of, make_user, orders_engine
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


@contextmanager
def notified(hook: FakeNode, data_path: Path, **options: Any) -> Iterator[Client]:
    """An admin's browser, whose acts are reported to `hook`."""
    with orders_engine(data_path):
        notifier = Notifier(f"http://{hook.address}/hook", **options)
        notifier.start()
        try:
            yield client_of(make_user(role=Role.ADMIN))
        finally:
            notifier.stop()


def reports(hook: FakeNode) -> list[dict[str, Any]]:
    return [orjson.loads(one.body) for one in hook.acts]


def test_an_act_is_reported_with_its_outcome_and_its_author(tmp_path: Path) -> None:
    with FakeNode(answers={"/hook": (204, {}, b"")}) as hook, notified(hook, tmp_path) as admin:
        path = "/topics/orders/billing/~pause/"
        admin.post(path, {"reason": "the bank is down"}, headers={"User-Agent": "a browser"})
        wait_for("its report", lambda: hook.acts)
        (report,) = reports(hook)
        assert {name: report[name] for name in ("action", "topic", "channel", "user", "outcome")} == {
            "action": "pause_channel",
            "topic": "orders",
            "channel": "billing",
            "user": "ada",
            "outcome": "done",
        }
        assert (report["url"], report["user_agent"]) == (f"http://testserver{path}", "a browser")
        assert "node" not in report
        assert hook.requests[0][1]["Content-Type"] == "application/json"


def test_an_act_of_which_nothing_was_done_is_not_reported() -> None:
    with FakeNode(answers={"/hook": b""}) as hook:
        notifier = Notifier(f"http://{hook.address}/hook")
        notifier.start()
        try:
            for detail in ("a:4151 NOT_FOUND", "a:4151 done; b:4151 no answer"):
                notifier.offer(
                    AuditRow(action="pause_topic", topic="orders", verdict=Verdict.FAILED, detail=detail, at_ms=1)
                )
            wait_for("the report", lambda: hook.acts)
        finally:
            notifier.stop()
        assert [one["outcome"] for one in reports(hook)] == ["failed"]


def test_a_channel_created_with_its_topic_is_reported_as_both() -> None:
    def reported(action: str, url: str, channel: str = "mail") -> list[tuple[str, str]]:
        row = AuditRow(action=action, topic="orders", channel=channel, verdict=Verdict.DONE, at_ms=1)
        row.origin = Origin(url, "", "")
        return [(one["action"], one.get("channel", "")) for one in documents(row)]

    both = [("create_topic", ""), ("create_channel", "mail")]
    assert reported("register_name", "http://console/lookup/~create/") == both
    assert reported("register_name", "http://console/lookup/~create/", channel="") == both[:1]
    assert reported("create_channel", "http://console/below/api/topics") == both
    assert reported("create_channel", "http://console/topics/orders/~create/") == both[1:], "its topic was there"


def test_a_refused_report_is_sent_again_in_its_order(tmp_path: Path) -> None:
    hook = FakeNode(answers={"/hook": b""}, failing=(500, {}, b""))
    with hook, notified(hook, tmp_path, delays_s=[0.01] * 1000) as admin:
        admin.post("/topics/orders/billing/~pause/", {})
        admin.post("/topics/orders/billing/~unpause/", {})
        wait_for("several tries", lambda: len(hook.acts) > 3)
        hook.failing = None
        wait_for("both", lambda: reports(hook)[-1]["action"] == "unpause_channel")
        actions = [one["action"] for one in reports(hook)]
        assert actions == ["pause_channel"] * (len(actions) - 1) + ["unpause_channel"]


def test_a_stop_waits_for_no_endpoint(tmp_path: Path) -> None:
    with FakeNode() as gone:
        pass
    with notified(gone, tmp_path, delays_s=[600.0]) as admin:
        admin.post("/topics/orders/billing/~pause/", {})
