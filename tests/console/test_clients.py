"""The pages of clients and of a node: real connections to this server's engine, and those that another node reports."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.test import Client

from admin_console.cluster.calls.options import Addresses, Pace
from admin_console.cluster.cluster import get_cluster
from admin_console.gateway.client_list import newest_clients
from admin_console.hub.hub import get_hub
from admin_console.live.broadcast import Broadcast
from admin_console.screens.build import Request
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.fake_node import FakeNode, info
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console import client_of, console_engine, make_user, see, words
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    """With a consumer, and with a producer."""
    with (
        console_engine(tmp_path, pace=Pace(period_s=0.3)) as runner,
        NsqSocket(runner.tcp_address[1]) as consumer,
        NsqSocket(runner.tcp_address[1]) as producer,
    ):
        producer.identify(client_id="till-7", user_agent="till/2.0")
        producer.publish("orders", b"one", b"two")
        consumer.identify(client_id="billing-1", hostname="billing-1.example.org", user_agent="go-nsq/1.1.0")
        consumer.subscribe("orders", "billing")
        see(runner)
        yield runner


def client_at(name: str, address: str, **fields: Any) -> dict[str, Any]:
    """As nsqd 1.3 writes it in /stats."""
    return {
        "client_id": name, "hostname": name, "version": "V2", "remote_address": address, "state": 3, "ready_count": 10,
        "in_flight_count": 4, "message_count": 90, "finish_count": 80, "requeue_count": 6, "connect_ts": 1_700_000_000,
        "sample_rate": 0, "deflate": False, "snappy": True, "user_agent": "pynsq/0.9", "tls": True,
        "tls_cipher_suite": "TLS_AES_128_GCM_SHA256", "tls_version": "TLS1.3", "topology_zone": "eu-b", **fields,
    }  # fmt: skip


@pytest.fixture
def other(engine: EngineRunner) -> Iterator[FakeNode]:
    """Another node, which is called; a connection at it consumes from the same channel."""
    with FakeNode() as node:
        channel = {"channel_name": "billing", "depth": 7, "client_count": 1, "in_flight_count": 4, "message_count": 9}
        channel["clients"] = [client_at("billing-2", "10.2.0.38:40000")]
        quantiles = [{"quantile": 0.99, "value": 12_000_000.0}, {"quantile": 0.5, "value": 3_000_000.0}]
        channel["e2e_processing_latency"] = {"count": 5, "percentiles": quantiles}
        node.answer_as_nsqd({"topic_name": "orders", "depth": 3, "message_count": 9, "channels": [channel]})
        node.answers["/info"] = {**info(node.port, version="1.3.0", started_s=1_700_000_000), "topology_zone": "eu-a"}
        cluster = get_cluster()
        assert cluster is not None
        cluster.change(Addresses.parse([], [node.address]))
        yield node


def text_of(browser: Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status
    return words(answer.content.decode().partition("<main")[2].partition("</main>")[0].replace("<wbr>", ""))


def test_all_connections_of_this_server_are_listed_without_another_node(engine: EngineRunner) -> None:
    text = text_of(client_of(make_user(role=Role.VIEWER)), "/clients/")
    assert "2 connections from 2 hosts" in text
    assert "billing-1 127.0.0.1 · go-nsq" in text
    assert "till-7" in text
    assert "publishes to orders" in text
    assert "Connections 2 1 consumer · 1 producer" in text
    assert "nodes" not in text


def test_the_engine_lists_its_clients_only_while_a_page_shows_them(engine: EngineRunner) -> None:
    snapshot = engine.calls.stats(include_clients=False).result(30)
    assert all(channel.clients is None for topic in snapshot.topics for channel in topic.channels)
    found = engine.connections().result(30)
    assert [(topic, channel, [one.client_id for one in clients]) for topic, channel, clients in found.consumers] == [
        ("orders", "billing", ["billing-1"])
    ]
    assert [one.client_id for one in found.producers] == ["till-7"]
    assert engine.snapshot is None or engine.snapshot.producers == ()


def test_a_list_of_all_nodes_names_the_zone_and_the_node_of_each(engine: EngineRunner, other: FakeNode) -> None:
    browser = client_of(make_user(role=Role.VIEWER))
    who = f"billing-2 10.2.0.38 · pynsq/0.9 {other.address} orders / billing"
    row = f"{who} 4 10 [–0] 80 6 – TLS1.3 · snappy eu-b"
    wait_for("the other node's client", lambda: re.search(row, text_of(browser, "/clients/")))
    assert "3 connections from 3 hosts to 2 of 2 nodes" in text_of(browser, "/clients/")
    assert "billing-1" not in text_of(browser, f"/clients/?q={other.address}")
    queries = [path for path, _ in other.requests if path.startswith("/stats")]
    assert any("include_clients=true" in path for path in queries)


def test_a_node_that_is_silent_marks_the_list(engine: EngineRunner, other: FakeNode) -> None:
    browser = client_of(make_user(role=Role.VIEWER))
    wait_for("its client", lambda: "billing-2" in text_of(browser, "/clients/"))
    other.answers["/stats"] = (500, {}, b"no")
    wait_for("its silence", lambda: f"1 of 2 nodes not answering, {other.address} for" in text_of(browser, "/clients/"))
    assert "Connections ≥ 2" in text_of(browser, "/clients/")


def test_a_clients_page_leads_to_its_node_its_channel_and_its_messages(engine: EngineRunner) -> None:
    (one,) = (one for one in newest_clients().clients if one.topic)
    path = f"/clients/127.0.0.1:{engine.http_address[1]}/{one.key}/"
    text = text_of(client_of(make_user(role=Role.OPERATOR)), path)
    assert "billing-1" in text
    assert "consumes orders/billing" in text
    assert "It is the channel's only consumer." in text
    html = client_of(make_user("vera", role=Role.OPERATOR)).get(path).content.decode()
    assert f'href="/topics/orders/billing/~requeue/?client={one.key}"' in html
    assert f'href="/nodes/127.0.0.1:{engine.http_address[1]}/"' in html


def test_a_producers_page_has_its_topics(engine: EngineRunner) -> None:
    (one,) = (one for one in newest_clients().clients if not one.topic)
    text = text_of(client_of(make_user(role=Role.VIEWER)), f"/clients/{one.node}/{one.key}/")
    assert "Published since it connected Published Topic Messages orders 2" in text


def test_a_connection_that_is_gone_is_said_so(engine: EngineRunner) -> None:
    text = text_of(client_of(make_user(role=Role.VIEWER)), "/clients/127.0.0.1:1/10.0.0.1:5/", 404)
    assert "10.0.0.1:5 is not connected to 127.0.0.1:1" in text


def test_the_page_of_this_server_has_its_topics_channels_and_connections(engine: EngineRunner) -> None:
    name = f"127.0.0.1:{engine.http_address[1]}"
    browser = client_of(make_user(role=Role.VIEWER))
    figures = "Topics 1 .* orders 0 0 2 1 .* orders / billing 2 "
    wait_for("its snapshot", lambda: re.search(figures, text_of(browser, f"/nodes/{name}/")))
    text = text_of(browser, f"/nodes/{name}/")
    assert "this server · Penstock" in text
    assert "billing-1 127.0.0.1 · go-nsq" in text
    assert f"TCP address 127.0.0.1:{engine.tcp_address[1]}" in text


def test_the_page_of_a_node_has_what_it_is_and_what_it_reports(engine: EngineRunner, other: FakeNode) -> None:
    browser, path = client_of(make_user(role=Role.VIEWER)), f"/nodes/{other.address}/"
    wait_for("its connection", lambda: browser.get(path).status_code == 200 and "billing-2" in text_of(browser, path))
    text = text_of(browser, path)
    assert "Program nsqd 1.3.0" in " ".join(text.split())
    assert f"Called at http://{other.address}" in text
    assert "No nsqlookupd is configured." in text
    # Depth to consumers, and the latency of the slowest of a hundred.
    assert re.search("orders / billing 7( [0-9]+){6} 1 12 ms", text), text
    assert "billing-1" not in text
    other.answers["/stats"] = (500, {}, b"no")
    wait_for("its silence", lambda: f"{other.address} has not answered for" in text_of(browser, path))
    assert "The figures below are its last ones, of " in text_of(browser, path)


def test_the_pages_are_live(engine: EngineRunner) -> None:
    (one,) = (one for one in newest_clients().clients if one.topic)
    live = get_hub().live
    assert live is not None
    fields = {"page": "client", "node": one.node, "client": one.key}
    for body, table in (({"page": "clients"}, "connections"), (fields, "compared")):
        request = Request.parse(body, Role.VIEWER)
        update = orjson.loads(asyncio.run(Broadcast(get_hub()).build_update(request, live)))
        assert update["tables"][table]["keys"]
    request = Request.parse({"page": "node", "node": one.node}, Role.VIEWER)
    update = orjson.loads(asyncio.run(Broadcast(get_hub()).build_update(request, live)))
    assert len(update["tables"]["connections"]["keys"]) == 2
