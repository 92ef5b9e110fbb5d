"""Clusters with names: `/clusters/NAME/` shows and changes that cluster, and nothing of another."""

import asyncio
import io
import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

import orjson
import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import set_script_prefix

from admin_console.audit.engine_acts import row_of
from admin_console.audit.models import AuditRow
from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import PACE, Addresses, ClusterOptions
from admin_console.cluster.cluster import cluster_names, get_cluster, set_cluster
from admin_console.gateway.pause_ends import End, get_pause_ends
from admin_console.hub.hub import get_hub
from admin_console.management.commands.serve import Serving
from admin_console.management.serve_options import ServeOptions
from admin_console.permissions.table import OF_THE_SERVER
from admin_console.screens.links import url_of
from admin_console.vocabulary.current_cluster import current_cluster, enter_cluster, in_cluster
from queue_engine.delivery.stats import ActRecord
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.log_lines import LineHandler
from queue_engine.vocabulary.options.options import Options
from tests.console.live.test_live import hear, say, signed_in, socket
from tests.support.fake_nsqd import FakeNsqd, channel, client, topic
from tests.support.pages.console import PASSWORD, client_of, make_user, orders_engine, see, words
from tests.support.pages.named_clusters import begun, end, named_clusters
from tests.support.pages.urls import all_urls
from tests.support.waiting import wait_for, wait_for_async

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Consoles:
    """acts: the ends of pauses, each with the cluster in whose context it came."""

    path: Path
    engine: EngineRunner
    prod: FakeNsqd
    staging: FakeNsqd
    acts: list[tuple[str, ActRecord]]
    browser: Client

    def nodes(self) -> dict[str, FakeNsqd]:
        return {"prod": self.prod, "staging": self.staging}

    def marks(self, name: str) -> list[str]:
        """What nothing but a page of that cluster may show; "" for the unnamed one."""
        if not name:
            return ["here-alone"]
        node = self.nodes()[name]
        return [
            f"{name}-alone",
            str(node.port),
            f"{node.topics['orders']['channels'][0]['depth']:,}",
            f"host-of-{name}",
        ]


def _nsqd(name: str, depth: int) -> FakeNsqd:
    consumer = client(f"of-{name}", hostname=f"host-of-{name}")
    return FakeNsqd.of(
        topic("orders", channel("billing", depth=depth, clients=(consumer,))),
        topic(f"{name}-alone", channel("billing", depth=3)),
    )


@pytest.fixture
def consoles(tmp_path: Path) -> Iterator[Consoles]:
    acts: list[tuple[str, ActRecord]] = []
    with orders_engine(tmp_path) as engine, _nsqd("prod", 61_204) as prod, _nsqd("staging", 87_077) as staging:
        engine.calls.create_topic("here-alone").result(30)
        see(engine)
        with named_clusters(tmp_path, lambda act: acts.append((current_cluster(), act)), prod=prod, staging=staging):
            yield Consoles(tmp_path, engine, prod, staging, acts, client_of(make_user()))
    enter_cluster("")
    set_script_prefix("/")


_SWITCH = re.compile(r'<details class="clusters">.*?</details>', re.DOTALL)


def test_no_page_of_a_cluster_shows_or_leads_to_anything_of_another(consoles: Consoles) -> None:
    places = all_urls()
    shown: dict[str, str] = {}
    for name in ("", "prod"):
        prefix = f"/clusters/{name}" if name else ""
        others = [mark for other in ("", "prod", "staging") if other != name for mark in consoles.marks(other)]
        shown[name] = ""
        for url_name, path in places:
            answer = consoles.browser.get(f"{prefix}{path}")
            html = b"".join(answer).decode() if answer.streaming else answer.content.decode()
            html = _SWITCH.sub("", html)
            shown[name] += html
            for mark in others:
                assert mark not in html, (name, url_name, mark)
            if not name:
                assert "/clusters/" not in html + answer.headers.get("Location", ""), url_name
                continue
            assert answer.status_code < 500, (name, url_name, answer.status_code)
            links = [*re.findall(r'(?:href|action|src|data-root|data-[a-z-]*url)="(/[^"]*)"', html)]
            links += [answer.headers["Location"]] if "Location" in answer.headers else []
            strays = [link for link in links if not link.startswith((f"{prefix}/", "/static/"))]
            assert strays == [], (name, url_name)
            if url_name in OF_THE_SERVER:
                assert answer.status_code in (404, 405), (name, url_name, answer.status_code)
    for name, text in shown.items():
        for mark in consoles.marks(name):
            assert mark in text, f"{name} shows {mark} somewhere"


def test_an_act_is_done_in_its_cluster_alone_and_audited_with_its_name(consoles: Consoles) -> None:
    asked = {"reason": "deploy", "for": "1h"}
    with in_cluster("prod"):
        url = url_of("pause_channel", "orders", "billing")
    assert url == "/clusters/prod/topics/orders/billing/~pause/"
    counts = {name: _act_count(name) for name in ("", "prod", "staging")}
    answer = consoles.browser.post(url, asked)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/clusters/prod/topics/orders/billing/")
    several = {"on": ["orders", "prod-alone"], **asked}
    consoles.browser.post("/clusters/prod/topics/~selected/pause-topic/", several)
    consoles.browser.post("/clusters/staging/topics/prod-alone/~pause/", asked)
    changed = {name for name, count in counts.items() if _act_count(name) != count}
    assert changed == {"prod", "staging"}, "pages of these are made anew"
    assert {act.path for act in consoles.prod.acts} == {"/channel/pause", "/topic/pause"}
    assert consoles.staging.acts == []
    assert not consoles.engine.calls.stats(include_clients=False).result(10).topics[0].paused
    rows = AuditRow.objects.filter(action__startswith="pause")
    assert all(row.detail.startswith(("cluster prod", "cluster staging")) for row in rows)
    assert {(row.topic, row.detail.partition(",")[0], row.verdict) for row in rows} >= {
        ("orders", "cluster prod", "done"),
        ("prod-alone", "cluster prod", "done"),
    }
    assert (consoles.path / "pause-ends.prod.json").exists()
    assert not (consoles.path / "pause-ends.json").exists()
    assert not (consoles.path / "pause-ends.staging.json").exists()


def _act_count(name: str) -> int:
    with in_cluster(name):
        return get_hub().act_count


def test_the_sentence_about_an_act_is_on_the_next_page_of_its_cluster_alone(consoles: Consoles) -> None:
    paths = {name: f"/clusters/{name}" if name else "" for name in ("", "prod", "staging")}
    sentence = {name: f"Created {name or 'own'}-made" for name in paths}
    for name, path in paths.items():
        made = {"topic": f"{name or 'own'}-made"}
        if name:
            made["node"] = consoles.nodes()[name].address
        url = f"{path}/lookup/~create/" if name else "/topics/~create/"
        assert consoles.browser.post(url, made).status_code == 302
    for name in ("staging", "", "prod"):
        page = words(consoles.browser.get(f"{paths[name]}/topics/").content.decode())
        assert {other for other in paths if sentence[other] in page} == {name}
        assert sentence[name] not in words(consoles.browser.get(f"{paths[name]}/topics/").content.decode())


def test_ends_of_pauses_and_chosen_addresses_belong_to_their_cluster(consoles: Consoles) -> None:
    with in_cluster("prod"):
        cluster, ends = get_cluster(), get_pause_ends()
        assert cluster is not None
        assert ends is not None
        node = cluster.state.nodes[0].name
        ends.set(End(node, "orders", "billing", until_ms=1, since_ms=1, by="ada"))
    consoles.prod.channel("orders", "billing")["paused"] = True
    wait_for("the end of the pause", lambda: consoles.acts)
    assert [name for name, _ in consoles.acts] == ["prod"]
    assert row_of(consoles.acts[0][1]).detail == "cluster prod"
    assert not consoles.prod.channel("orders", "billing")["paused"]
    consoles.browser.post("/clusters/prod/nodes/~addresses/", {"lookupds": "", "nsqds": "127.0.0.1:9\n10.0.0.7:4151"})
    found = {}
    for name in cluster_names():
        with in_cluster(name):
            cluster = get_cluster()
            assert cluster is not None
            found[name] = [one.bare for one in cluster.addresses.nsqds]
    assert found == {"": [], "prod": ["127.0.0.1:9", "10.0.0.7:4151"], "staging": [consoles.staging.address]}
    assert {path.name for path in consoles.path.glob("cluster*.json")} == {"cluster.prod.json"}
    assert AuditRow.objects.get(action="set_addresses", phase="result").detail.startswith("cluster prod, nsqlookupds: ")


def test_a_start_without_a_cluster_names_the_pauses_that_stay_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeNsqd.of(topic("orders", channel("billing"))) as node:
        clusters = begun(tmp_path, {"prod": node, "staging": node})
        for name in ("prod", "staging"):
            with in_cluster(name):
                ends = get_pause_ends()
                assert ends is not None
                ends.set(End(node.address, "orders", "billing", until_ms=1 << 45, since_ms=1))
        end(clusters, ("prod", "staging"))
        (tmp_path / "pause-ends.away.json").write_bytes(b"no line")
        caplog.clear()
        end(begun(tmp_path, {"staging": node}), ("staging",))
    warned = [one.getMessage() for one in caplog.records if "pause" in one.getMessage()]
    damaged, absent = warned
    assert damaged.startswith(f"{tmp_path}/pause-ends.away.json is damaged (its checksum does not fit)")
    assert absent == (
        "no option names the cluster prod any more, and this console does not end the pauses that it set there "
        f"(orders/billing on {node.address}): name the cluster again, or resume them at the nodes"
    )


def test_lines_of_the_log_about_a_cluster_have_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (handler,) = (one for one in logging.getLogger().handlers if isinstance(one, LineHandler))
    written = io.StringIO()
    monkeypatch.setattr(handler, "stream", written)
    logger = logging.getLogger("admin_console.views")
    with _nsqd("prod", 61_204) as prod, named_clusters(tmp_path, prod=prod):
        prod.failing = (503, {}, b"")
        wait_for("the line of the log", lambda: f"cluster prod: node {prod.address} does not" in written.getvalue())
        with in_cluster("prod"):
            logger.warning("100 %% of %s", "orders")
    logger.warning("of no name")
    assert "WARNING admin_console.views: cluster prod: 100 % of orders\n" in written.getvalue()
    assert "WARNING admin_console.views: of no name\n" in written.getvalue()


def _switch(consoles: Consoles, path: str) -> dict[str, str]:
    html = consoles.browser.get(path).content.decode()
    found = _SWITCH.search(html)
    assert found is not None
    return {label: url for url, label in re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', found[0])}


def test_the_switch_leads_to_the_same_page_of_another_cluster_where_it_has_one(consoles: Consoles) -> None:
    prod, staging = "/clusters/prod", "/clusters/staging"

    def places(path: str) -> list[str]:
        found = _switch(consoles, path)
        assert [*found] == ["This server", "prod", "staging"]
        return [*found.values()]

    channel_page = "/topics/orders/billing/"
    assert places(channel_page) == [channel_page, f"{prod}{channel_page}", f"{staging}{channel_page}"]
    assert places(f"{prod}{channel_page}~pause/") == [channel_page, f"{prod}{channel_page}", f"{staging}{channel_page}"]
    alone = "/topics/prod-alone/billing/"
    assert places(f"{prod}{alone}") == ["/", f"{prod}{alone}", f"{staging}/"]
    assert places(f"{prod}/nodes/") == ["/nodes/", f"{prod}/nodes/", f"{staging}/nodes/"]
    node = f"/nodes/{consoles.prod.address}/"
    assert places(f"{prod}{node}") == ["/nodes/", f"{prod}{node}", f"{staging}/nodes/"]
    assert places("/trash/") == ["/trash/", f"{prod}/", f"{staging}/"]
    page = consoles.browser.get(f"{prod}/topics/").content.decode()
    assert re.search(r"<title>[^<]* · prod</title>", page)
    assert '<a href="/clusters/prod/topics/"' in page
    assert re.search(r'aria-current="true">prod</a>', page)
    # Without an engine or a node of the unnamed one.
    with in_cluster(""):
        own = get_cluster()
        set_cluster(None)
    try:
        assert consoles.browser.get("/").headers["Location"] == "/clusters/prod/"
        assert [*_switch(consoles, "/clusters/staging/")] == ["prod", "staging"]
    finally:
        with in_cluster(""):
            set_cluster(own)


def test_a_log_in_leads_back_into_the_cluster_and_an_unknown_name_nowhere(consoles: Consoles) -> None:
    stranger = Client()
    answer = stranger.get("/clusters/prod/topics/orders/")
    place = "/clusters/prod/login/?next=/clusters/prod/topics/orders/"
    assert (answer.status_code, unquote(answer.headers["Location"])) == (302, place)
    answer = stranger.post(place, {"username": "ada", "password": PASSWORD})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/clusters/prod/topics/orders/")
    assert stranger.get("/clusters/staging/topics/orders/").status_code == 200, "the cookie is the console's"
    with override_settings(FORCE_SCRIPT_NAME="/queue"):
        page = stranger.get("/clusters/prod/topics/").content.decode()
    assert 'data-root="/queue/clusters/prod/"' in page
    assert 'href="/queue/clusters/prod/topics/orders/"' in page
    assert AuditRow.objects.filter(action="log_in", detail__contains="cluster").count() == 0
    for path in ("/clusters/dev/", "/clusters/dev/topics/orders/"):
        answer = consoles.browser.get(path)
        assert answer.status_code == 404
        assert "There is no cluster dev: --lookupd-http-address and" in words(answer.content.decode())
    assert consoles.browser.get("/clusters/prod").status_code == 404
    assert consoles.browser.get("/clusters/PROD/").status_code == 404


def test_a_console_without_names_has_no_switch_and_no_thread_more(engine: EngineRunner, tmp_path: Path) -> None:
    see(engine)
    threads = threading.active_count()
    with named_clusters(tmp_path):
        assert threading.active_count() == threads
        assert cluster_names() == ("",)
        browser = client_of(make_user())
        html = browser.get("/topics/").content.decode()
        assert "cluster" not in html.partition("<main")[0]
        assert browser.get("/clusters/prod/").status_code == 404


async def test_a_socket_below_the_prefix_gets_the_figures_and_links_of_its_cluster(tmp_path: Path) -> None:
    _, _, cookie = await signed_in()
    with _nsqd("prod", 61_204) as prod, _nsqd("staging", 87_077) as staging:
        nodes = {"prod": prod, "staging": staging}
        shown = begun(tmp_path, nodes)
        shown.attach_hubs(asyncio.get_running_loop())
        try:
            for name in nodes:
                with in_cluster(name):
                    hub = get_hub()
                await wait_for_async("its figures", lambda hub=hub: hub.live is not None and hub.live.topics)
            other, held = (socket(cookie, path=f"/clusters/{name}/ws/live/") for name in ("staging", "prod"))
            for one in (other, held):
                assert (await one.connect())[0]
                await say(one, subscribe={"page": "topics"})
            heard_there = orjson.dumps(await hear(other)).decode()
            assert "staging-alone" in heard_there
            assert "prod-alone" not in heard_there
            prod.channel("orders", "billing")["depth"] = 61_999
            heard = ""
            while "61,999" not in heard:
                update = await hear(held)
                await say(held, ack=update["seq"])
                heard += orjson.dumps(update).decode()
            await held.disconnect()
            await other.disconnect()
        finally:
            end(shown, nodes)
    assert "prod-alone" in heard
    assert "staging-alone" not in heard
    links = set(re.findall(r'"(/[a-z][^" \\]*)\\?"', heard))
    assert links
    assert {link for link in links if not link.startswith("/clusters/prod/")} == set()
    assert not (await socket(cookie, path="/clusters/dev/ws/live/").connect())[0]


@pytest.mark.parametrize(
    ("own", "is_chosen", "names", "share"),
    [
        ([], False, ["prod"], 1.0),
        ([], False, ["prod", "staging"], 0.5),
        ([], True, ["prod"], 0.5),
        (["10.0.0.7:4151"], False, ["prod"], 0.5),
        ([], False, [], 1.0),
    ],
)
def test_clusters_with_addresses_share_the_processor_time_of_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: list[str], is_chosen: bool, names: list[str], share: float
) -> None:
    addresses, other = Addresses.parse([], own), Addresses.parse([], ["10.0.0.8:4151"])
    if is_chosen:
        ChosenAddresses(tmp_path, addresses).write(other)
    given = ClusterOptions(addresses=addresses, named=dict.fromkeys(names, other))
    monkeypatch.setattr(settings, "CONSOLE", replace(settings.CONSOLE, cluster=given))
    monkeypatch.setattr(settings, "DATA_PATH", tmp_path)
    alone = ServeOptions(Options(data_path=str(tmp_path)), with_demo=False, with_pipeline=False, with_engine=False)
    serving = Serving(alone, print)
    clusters = [serving._cluster, *(one.cluster for one in serving._named_clusters._all)]
    assert {round(one._pace.cpu_share / PACE.cpu_share, 3) for one in clusters} == {share}
