"""A topic that one remote Penstock alone has: each link, button and download of its pages works or names the reason,
with an engine beside it and with --console-only."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import pytest
from django.test import Client

from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import Addresses, ClusterOptions
from admin_console.cluster.cluster import Cluster, set_cluster
from admin_console.cluster.merging.merger import Merger
from admin_console.gateway.cluster_only import ClusterOnlyGateway
from admin_console.gateway.gateway import set_gateway
from admin_console.gateway.pipeline import Pipeline, set_pipeline
from admin_console.hub.hub import get_hub
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.options.options import Options
from tests.console.test_remote_messages import AtPort
from tests.support.pages.cluster_console import OFTEN, cluster_console
from tests.support.pages.console import client_of, make_user, words
from tests.support.pages.snapshots import START_S, snapshot
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

ROOTS = ("/topics/orders/", "/topics/orders/billing/", "/topics/orders/~messages/", "/topics/orders/billing/~messages/")


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[RunningEngine]:
    """With orders/billing of three messages: one in flight, one deferred, one that waits."""
    with RunningEngine(tmp_path / "remote", sync="os") as engine:
        engine.http("POST", "/topic/create?topic=orders", b"")
        engine.http("POST", "/channel/create?topic=orders&channel=billing", b"")
        for number in range(2):
            engine.http("POST", f"/pub?topic=orders&key=k{number}", b"body %d" % number)
        engine.http("POST", "/pub?topic=orders&defer=3600000", b"later")
        consumer = engine.client()
        consumer.identify(client_id="far-7", msg_timeout=600_000)
        consumer.subscribe("orders", "billing", rdy=1)
        consumer.read_message()
        consumer.send(b"RDY 0\n")
        yield engine


@pytest.fixture(params=["beside an engine", "console-only"])
def browser(request: pytest.FixtureRequest, remote: RunningEngine, tmp_path: Path) -> Iterator[Client]:
    node = AtPort(port=remote.http_port)
    if request.param == "beside an engine":
        with cluster_console(tmp_path, node) as console:
            console.see_topic("orders", 1)
            yield client_of(make_user())
        return
    addresses = Addresses.parse([], [node.address])
    cluster = Cluster(
        ClusterOptions(addresses=addresses), ChosenAddresses(tmp_path, addresses), lambda: None, OFTEN, has_engine=False
    )
    cluster.start()
    set_cluster(cluster)
    get_hub().forget_all()
    newest: list[EngineSnapshot] = []
    set_gateway(ClusterOnlyGateway(Options(data_path=str(tmp_path)), lambda: newest[-1]))
    set_pipeline(Pipeline(tmp_path / "pipeline"))
    try:
        wait_for("the node's topic", lambda: any(one.stats and one.stats.topics for one in cluster.state.nodes))
        own = snapshot(second=START_S)
        merged = Merger(lambda: "").tick(own, cluster.state, round(START_S * NS_PER_S))
        newest.append(merged.merged)
        get_hub().write(merged)
        yield client_of(make_user())
    finally:
        get_hub().forget_all()
        set_cluster(None)
        cluster.stop()
        set_pipeline(None)
        set_gateway(None)


def links_of(url: str, html: str) -> set[str]:
    main = html.partition("<main")[2] or html
    found = [unescape(one) for one in re.findall(r'href="([^"#]+)"', main)]
    return {urljoin(url, one) for one in found if not one.startswith(("http:", "https:"))}


def test_each_link_of_its_pages_works_and_each_button_that_does_not_has_a_reason(browser: Client) -> None:
    open_urls, seen, failed = list(ROOTS), set[str](), dict[str, int]()
    reasons: set[str] = set()
    while open_urls:
        url = open_urls.pop()
        # The graphs' ranges and the orders of lists are links of every page; one message stands for all.
        key = re.sub(r"[0-9a-f]{16}", "ID", url)
        if key in seen or re.search(r"[?&](range|sort|form|as=table)", url):
            continue
        seen.add(key)
        answer = browser.get(url, follow=True)
        if answer.status_code != 200:
            failed[url] = answer.status_code
        elif url.startswith("/topics/orders/") and "html" in answer["Content-Type"]:
            html = answer.content.decode()
            open_urls += links_of(url, html)
            disabled = re.findall(r'aria-disabled="true"([^>]*)>([^<]*)<', html)
            assert [text for attributes, text in disabled if not re.search(r'title="[^"]{10,}', attributes)] == [], url
            reasons.update(text for _, text in disabled)
    assert failed == {}
    assert {"Messages", "Search"}.isdisjoint(reasons), "its messages are read and searched here"
    walked = {url.partition("?")[0] for url in seen}
    single = "/topics/orders/billing/~messages/ID/"
    assert {*ROOTS, single, f"{single}body", "/topics/orders/billing/~messages/~requeue/"} <= walked
    found = browser.get("/topics/orders/billing/~messages/", {"text": "body", "in": "all"}, follow=True)
    assert "Search for" in words(found.content.decode())
    assert "body 0" in browser.get("/topics/orders/~messages/", {"key": "k0"}).content.decode()
