"""Who publishes to a topic is on its page, on the real engine: its clients are sampled only while somebody looks."""

import re
from pathlib import Path

import pytest

from admin_console.hub.hub import get_hub
from admin_console.live.broadcast import Broadcast
from admin_console.screens.build import Request
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console import client_of, console_engine, make_user
from tests.support.waiting import wait_for, wait_for_async


@pytest.fixture(autouse=True)
def _quick_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_engine.service.runner.SNAPSHOT_INTERVAL_S", 0.05)


def publishers_of(engine: EngineRunner) -> list[str]:
    assert engine.snapshot is not None
    return [client.client_id for client in engine.snapshot.producers]


@pytest.mark.django_db
def test_a_topics_page_has_its_producers_sampled_and_lists_them(tmp_path: Path) -> None:
    with console_engine(tmp_path) as engine, NsqSocket(engine.tcp_address[1]) as producer:
        producer.identify(client_id="till-7", user_agent="till/2.0")
        producer.publish("orders", b"one", b"two")
        browser = client_of(make_user(role=Role.VIEWER))
        browser.get("/topics/orders/")
        wait_for("the sample", lambda: publishers_of(engine) == ["till-7"])
        assert engine.snapshot is not None
        get_hub().write(engine.snapshot)
        text = browser.get("/topics/orders/").content.decode()
        row = re.search(r"<tr[^>]*>(?:(?!</tr>).)*till-7.*?</tr>", text, re.DOTALL)
        assert row
        assert re.findall(r">\s*([^<>\s][^<>]*?)\s*<", row[0])[:3] == ["till-7", "till/2.0", "2"]


async def test_an_open_topics_page_keeps_them_sampled(tmp_path: Path) -> None:
    with console_engine(tmp_path) as engine, NsqSocket(engine.tcp_address[1]) as producer:
        producer.identify(client_id="till-7")
        producer.publish("orders", b"one")
        assert engine.snapshot is not None
        get_hub().write(engine.snapshot)
        live = get_hub().live
        assert live is not None
        await Broadcast(get_hub()).build_update(Request("topic", Role.VIEWER, topic="orders"), live)
        await wait_for_async("the sample", lambda: publishers_of(engine) == ["till-7"])
