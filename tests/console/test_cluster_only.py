"""The console without an engine: every page answers with the figures of the nodes, or says in words what it has not."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import NO_ADDRESSES, ClusterOptions
from admin_console.cluster.cluster import Cluster, set_cluster
from admin_console.gateway.cluster_only import ClusterOnlyGateway
from admin_console.gateway.gateway import set_gateway
from admin_console.gateway.pipeline import Pipeline, set_pipeline
from admin_console.hub.hub import get_hub
from admin_console.permissions.table import PAGES
from queue_engine.delivery.stats import EngineSnapshot, TopicStats
from queue_engine.vocabulary.options.options import Options
from tests.support.pages.console import client_of, make_user, words
from tests.support.pages.snapshots import START_S, channel, snapshot, topic
from tests.support.pages.urls import CHANNEL, GONE, TOPIC, all_urls

pytestmark = pytest.mark.django_db

# Of an engine's own: trash, messages, and what the worker does with them.
ABSENT = {
    "trash",
    "tokens",
    "topic_messages",
    "channel_messages",
    "channel_message",
    "message_search",
    "message_body",
}


class Figures:
    """The cluster's newest figures, as the gateway and the hub get them."""

    def __init__(self) -> None:
        self.newest: EngineSnapshot | None = None
        self.second = START_S

    def are(self, *topics: TopicStats) -> None:
        self.second += 1
        self.newest = snapshot(*topics, second=self.second)
        get_hub().write(self.newest)


@pytest.fixture
def figures(tmp_path: Path) -> Iterator[Figures]:
    """A console without an engine, and without nodes."""
    found = Figures()
    set_gateway(ClusterOnlyGateway(Options(data_path=str(tmp_path)), lambda: found.newest))
    set_pipeline(Pipeline(tmp_path / "pipeline"))
    cluster = Cluster(ClusterOptions(), ChosenAddresses(tmp_path, NO_ADDRESSES), lambda: None)
    cluster.start()
    set_cluster(cluster)
    get_hub().forget_all()
    try:
        yield found
    finally:
        get_hub().forget_all()
        set_cluster(None)
        cluster.stop()
        set_pipeline(None)
        set_gateway(None)


def test_no_page_fails_without_an_engine(figures: Figures) -> None:
    figures.are(topic(TOPIC, channel(TOPIC, CHANNEL, depth=1204)))
    browser = client_of(make_user())
    for name, path in all_urls():
        if name.startswith("nsqadmin_"):
            continue  # of programs, with nsqadmin's statuses: no node of the cluster has the topic here
        answer = browser.get(path)
        text = words(answer.content.decode())
        if name in ABSENT:
            assert answer.status_code == 404, (name, answer.status_code)
            assert "This console has no queue of its own, " in text, (name, text)
        else:
            assert answer.status_code in (200, 302, 404, 405), (name, answer.status_code, text)
            assert name not in PAGES or answer.status_code != 404 or name in ("replay", *GONE), (name, text)


def test_pages_show_the_figures_of_the_nodes(figures: Figures) -> None:
    figures.are(topic(TOPIC, channel(TOPIC, CHANNEL, depth=1204)))
    browser = client_of(make_user())
    for path in ("/", "/topics/", f"/topics/{TOPIC}/", f"/topics/{TOPIC}/{CHANNEL}/"):
        answer = browser.get(path)
        assert answer.status_code == 200
        assert "1,204" in words(answer.content.decode()), path
    gone = browser.get("/topics/nowhere/")
    assert gone.status_code == 404


def test_the_header_has_no_place_that_takes_an_engine(figures: Figures) -> None:
    html = client_of(make_user()).get("/nodes/").content.decode()
    assert 'href="/topics/"' in html
    assert 'href="/trash/"' not in html
    assert 'href="/tokens/"' not in html


def test_without_addresses_the_pages_say_how_to_name_nodes(figures: Figures) -> None:
    figures.are()
    browser = client_of(make_user())
    for path in ("/", "/topics/"):
        html = browser.get(path).content.decode()
        assert "This console has no queue of its own" in words(html)
        assert "--lookupd-http-address" in words(html)
        assert 'href="/nodes/"' in html
        assert "curl" not in html
    text = words(browser.get("/nodes/").content.decode())
    assert "No nodes yet" in text
    assert "This console has no queue of its own. To see a cluster, give it" in text
    assert "or enter them under Addresses" in text


def test_pages_offer_no_act_and_no_list_that_takes_an_engine(figures: Figures) -> None:
    figures.are(topic(TOPIC, channel(TOPIC, CHANNEL, in_flight_count=3), storage="log"))
    browser = client_of(make_user())
    html = browser.get(f"/topics/{TOPIC}/{CHANNEL}/").content.decode()
    for label in ("Messages", "Rewind…"):
        assert re.search(
            rf'<span class="button" aria-disabled="true" title="This console has no queue [^>]*>{label}<', html
        )
    pipeline = words(browser.get("/pipeline/").content.decode())
    assert "No topic is archived here This console has no queue of its own" in pipeline
    assert "No replay here This console has no queue of its own" in pipeline
    assert "This server’s registrations" not in browser.get("/lookup/").content.decode()
    assert browser.get("/topics/~create/").headers["Location"] == "/lookup/~create/"
    rewind = browser.get(f"/topics/{TOPIC}/{CHANNEL}/~rewind/")
    assert rewind.status_code == 404
    assert "This console has no queue of its own, which rewind channel takes" in rewind.content.decode()


def test_an_act_of_an_engine_is_refused_with_a_sentence(figures: Figures) -> None:
    figures.are(topic(TOPIC, channel(TOPIC, CHANNEL)))
    answer = client_of(make_user()).post(
        f"/topics/{TOPIC}/~pause/", {"reason": "no"}, headers={"Accept": "application/json"}
    )
    assert answer.status_code == 404
    assert answer.json()["message"] == (
        "This console has no queue of its own, which pause topic takes: it runs with --console-only."
    )


@pytest.mark.parametrize("path", ["/ping", "/livez", "/readyz"])
def test_probes_are_answered_without_a_log_in_and_for_any_host(path: str) -> None:
    answer = Client().get(path, headers={"Host": "10.9.8.7:4171"})
    assert (answer.status_code, answer.content.decode().splitlines()[0]) == (200, "OK")
    assert answer["Content-Type"].startswith("text/plain")
    assert Client().post(path).status_code == 405
