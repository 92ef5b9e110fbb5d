"""Pages of topics and channels while other nodes are read: first paint, series and updates have all nodes."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.test import Client

from admin_console.cluster.calls.options import Addresses
from admin_console.cluster.cluster import get_cluster
from admin_console.hub.hub import get_hub
from admin_console.live.broadcast import Broadcast
from admin_console.screens.build import Request
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.options.addresses import joined
from tests.support.fake_node import FakeNode, producer
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.pages.cluster_console import cluster_console
from tests.support.pages.console import client_of, make_user, see, words
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(engine: EngineRunner) -> Iterator[FakeNsqd]:
    """Another node, which has orders/billing as this server has, and far/away alone."""
    billing = channel("billing", depth=70, message_count=75)
    topics = {
        "orders": topic("orders", billing, message_count=75),
        "far": topic("far", channel("away", depth=9, message_count=9), message_count=9),
    }
    cluster = get_cluster()
    assert cluster is not None
    with FakeNsqd(topics=topics) as found:
        cluster.change(Addresses.parse([], [found.address]))

        def is_seen() -> bool:
            see(engine)
            live = get_hub().live
            return live is not None and "far" in live.topics

        wait_for("its figures", is_seen)
        yield found


def test_a_topic_and_a_channel_of_another_node_alone_have_their_pages(node: FakeNsqd) -> None:
    viewer = client_of(make_user(role=Role.VIEWER))
    for path in ("/topics/far/", "/topics/far/away/"):
        answer = viewer.get(path)
        assert answer.status_code == 200
        assert f"{node.address} nsqd 1.3.0 9" in words(answer.content.decode())
    assert viewer.get("/topics/nowhere/").status_code == 404
    assert viewer.get("/topics/far/nowhere/").status_code == 404


def test_the_first_paint_of_a_channel_has_all_nodes(node: FakeNsqd, engine: EngineRunner) -> None:
    html = client_of(make_user()).get("/topics/orders/billing/").content.decode()
    text = words(html)
    assert "Depth 75" in text
    assert "All 2 nodes 75" in text
    assert "Depth by node" in text
    assert "by_node.css" in html
    assert "data-silence" in html


def test_series_have_a_column_for_each_node(node: FakeNsqd, engine: EngineRunner) -> None:
    get_hub().node_rings.watch("orders", "billing")
    see(engine, for_s=2)
    series = client_of(make_user()).get("/api/series/orders/billing/").json()
    addresses = sorted([node.address, joined(*engine.http_address)])
    assert series["graphs"]["depth_nodes"] == [f"waiting@{name}" for name in addresses]
    assert series["columns"][f"waiting@{node.address}"][-1] == 70


def test_an_update_names_a_node_that_stops_answering(node: FakeNsqd, engine: EngineRunner) -> None:
    node.answers["/stats"] = (500, {}, b"{}")

    def update() -> dict[str, Any]:
        see(engine)
        live = get_hub().live
        assert live is not None
        made = Broadcast(get_hub()).build_update(
            Request("channel", Role.ADMIN, topic="orders", channel="billing"), live
        )
        found: dict[str, Any] = orjson.loads(asyncio.run(made))
        return found

    wait_for("the line", lambda: node.address in str(update()["silence"]))
    found = update()
    assert found["nodes"] == ["1 of 2 nodes", ""]
    assert found["stats"]["depth"][0] == '<span class="least">≥</span> 5'


def test_one_server_s_page_has_nothing_of_nodes(client: Client, engine: EngineRunner) -> None:
    see(engine)
    html = client.get("/topics/orders/billing/").content.decode()
    for part in ("by_node", "data-silence", "nodes ", "pause_recorded"):
        assert part not in html


def test_buttons_name_no_node_that_has_no_row(tmp_path: Path) -> None:
    """An nsqlookupd may name thousands that never answer."""
    with FakeNsqd.of(topic("orders", channel("billing"))) as node, FakeNode() as lookup:
        dead = [producer(port, topics=("orders",)) for port in range(1, 41)]
        lookup.answers["/nodes"] = {"producers": [producer(node.port, topics=("orders",)), *dead]}
        with cluster_console(tmp_path, node, lookupds=[lookup]) as console:
            console.see("all that it names", lambda state: len(state.nodes) == 41)
            html = client_of(make_user()).get("/topics/orders/").content.decode()
    rows = set(re.findall(r'data-key="(127[^"]*)"', html))
    assert 20 < len(rows) < 30
    unable = {name for names in re.findall(r'data-unable="([^"]*)"', html) for name in names.split()}
    assert unable
    assert unable <= rows
