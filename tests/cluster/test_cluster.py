"""Where nodes come from, and what of them is read: over real connections, from fakes on loopback."""

import asyncio
import gzip
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.chosen_addresses import NAME, ChosenAddresses
from admin_console.cluster.calls.node_http import CheckedResolver, NodeHttp, tls_of
from admin_console.cluster.calls.node_rules import NodeRules
from admin_console.cluster.calls.node_tokens import NodeTokens
from admin_console.cluster.calls.options import Addresses, ClusterOptions, Pace
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.merging.merger import Merger
from admin_console.cluster.reader import NodeReader
from admin_console.cluster.reading import registrations
from admin_console.cluster.reading.members import Identity
from admin_console.cluster.reading.node_rates import OwnRates
from admin_console.cluster.reading.node_stats import node_stats_in
from admin_console.cluster.reading.nodes import Answers, ClusterState, Node, NotCallingError
from admin_console.cluster.reading.stretch import Stretch
from admin_console.cluster.reading.totals import NodeSums, Total
from queue_engine.client.http_json import HttpRefusedError, UnreachableError
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.storage.disk.checked_line import encode_line
from queue_engine.vocabulary.errors import NewerFormatError, StorageError
from tests.support.fake_node import FakeNode, producer
from tests.support.pages.snapshots import START_S, snapshot
from tests.support.processes.ports import free_ports
from tests.support.waiting import wait_for

_OPTIONS = ClusterOptions()
OFTEN = Pace(period_s=0.02, retry_s=0.02, retry_max_s=0.05)


def topic(name: str, depth: int, **channels: int) -> dict[str, Any]:
    """As in /stats: a topic and its channels with their depths."""
    return {
        "topic_name": name,
        "depth": depth,
        "message_count": depth,
        "paused": False,
        "channels": [{"channel_name": one, "depth": count, "clients": []} for one, count in channels.items()],
    }


@contextmanager
def cluster_of(
    path: Path,
    *,
    lookupds: tuple[FakeNode, ...] = (),
    nsqds: tuple[FakeNode, ...] = (),
    own: Callable[[], Identity | None] = lambda: None,
    options: ClusterOptions = _OPTIONS,
    pace: Pace = OFTEN,
) -> Iterator[Cluster]:
    addresses = Addresses.parse([one.address for one in lookupds], [one.address for one in nsqds])
    options = replace(options, addresses=addresses)
    cluster = Cluster(options, ChosenAddresses(path, addresses), own, pace)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def node_at(state: ClusterState, fake: FakeNode) -> Node:
    return next(node for node in state.nodes if node.member.target.port == fake.port)


def depths(state: ClusterState) -> dict[int, dict[str, Any]]:
    """By port: topic → depth, of the nodes that have answered."""
    return {
        node.member.target.port: {name: one.figures["depth"] for name, one in node.stats.topics.items()}
        for node in state.nodes
        if node.stats is not None
    }


def test_nodes_are_those_of_the_options_and_those_that_nsqlookupds_name(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as b, FakeNode() as lookup:
        a.answer_as_nsqd(topic("orders", 3, billing=2))
        b.answer_as_nsqd(topic("orders", 4))
        lookup.answer_as_lookupd(b, topics=("orders",))
        with cluster_of(tmp_path, lookupds=(lookup,), nsqds=(a,)) as cluster:
            wait_for("both", lambda: depths(cluster.state) == {a.port: {"orders": 3}, b.port: {"orders": 4}})
            (found,) = cluster.state.lookupds
            assert (found.node_count, found.answers.error) == (1, "")
            node = node_at(cluster.state, b)
            assert node.info is not None
            assert (node.info.product, node.info.identity.hostname) == ("nsqd 1.3.0", f"host-{b.port}")
            assert [one.topics for one in node.member.registrations.values()] == [("orders",)]
            # Without clients: ten thousand of them are no part of what every page needs.
            assert {path.partition("?")[0] for path, _ in b.requests} == {"/info", "/stats"}
            assert all("include_clients=false" in path for path, _ in b.requests if path.startswith("/stats"))


def test_a_node_at_two_addresses_is_one_and_the_embedded_engine_is_none_of_them(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as again, FakeNode() as embedded, FakeNode() as lookup:
        for one in (a, again):
            one.answer_as_nsqd(topic("orders", 3))
        again.answers.update(a.answers)
        embedded.answer_as_nsqd(topic("orders", 5))
        lookup.answer_as_lookupd(a, again, embedded)
        own = Identity(f"host-{embedded.port}", "127.0.0.1", 4150, embedded.port, 1_700_000_000)
        with cluster_of(tmp_path, lookupds=(lookup,), nsqds=(again,), own=lambda: own) as cluster:
            wait_for("each once", lambda: depths(cluster.state) == {again.port: {"orders": 3}})
            wait_for(
                "its other address", lambda: [one.target.port for one in cluster.state.embedded] == [embedded.port]
            )
            # Its figures come from the engine itself.
            assert "/stats" not in {path.partition("?")[0] for path, _ in embedded.requests}


def test_two_nodes_that_say_the_same_of_themselves_but_their_start_are_two(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as b:
        a.answer_as_nsqd(topic("orders", 3))
        b.answers.update(a.answers)
        for path in ("/info", "/stats"):
            b.answers[path] = {**dict(a.answers[path]), "start_time": 1_700_000_001}
        with cluster_of(tmp_path, nsqds=(a, b)) as cluster:
            wait_for("both", lambda: depths(cluster.state) == {a.port: {"orders": 3}, b.port: {"orders": 3}})


def test_a_node_at_two_addresses_stays_one_while_one_of_them_is_not_read_since_its_restart(tmp_path: Path) -> None:
    goes_on = threading.Event()
    with FakeNode() as a, FakeNode() as again, FakeNode() as lookup:
        a.answer_as_nsqd(topic("orders", 3))
        again.answers.update(a.answers)
        before = again.answers["/stats"]
        lookup.answer_as_lookupd(again)
        with cluster_of(tmp_path, lookupds=(lookup,), nsqds=(a,)) as cluster:
            wait_for("one of two", lambda: again.requests and len(cluster.state.nodes) == 1)

            def late() -> Any:
                goes_on.wait(60)
                return before

            count = len(again.requests)
            again.answers["/stats"] = late
            wait_for("a call that waits", lambda: len(again.requests) > count)
            a.answers["/stats"] = {**dict(a.answers["/stats"]), "start_time": 1_700_000_001}
            a.answers["/info"] = {**dict(a.answers["/info"]), "start_time": 1_700_000_001}
            wait_for("its restart", lambda: starts_of(cluster.state, a) == [1_700_000_001])
            assert [node.member.target.port for node in cluster.state.nodes] == [a.port]
            goes_on.set()
            # It answers as before: it is another node.
            wait_for("both", lambda: len(cluster.state.nodes) == 2)


def test_the_other_address_of_a_node_that_restarted_is_read_at_once(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as again:
        a.answer_as_nsqd(topic("orders", 3))
        again.answers.update(a.answers)
        again.answers["/stats"] = {**dict(a.answers["/stats"]), "topics": []}
        # A page reads the topic alone, at the address that has it.
        with cluster_of(tmp_path, nsqds=(a, again), pace=Pace(period_s=600, watched_s=0.02)) as cluster:
            wait_for("one of two", lambda: again.requests and len(cluster.state.nodes) == 1)
            wait_for("its topics", lambda: depths(cluster.state))
            count = len(again.requests)
            for one in (a, again):
                for path in ("/info", "/stats"):
                    one.answers[path] = {**dict(one.answers[path]), "start_time": 1_700_000_001}
            cluster.watch("orders")
            wait_for("its call", lambda: len(again.requests) > count)
            wait_for("its restart", lambda: len(cluster.state.nodes) == 1)


def starts_of(state: ClusterState, *fakes: FakeNode) -> list[int]:
    nodes = [node for node in state.nodes if node.member.target.port in [one.port for one in fakes]]
    return [node.info.identity.started_s for node in nodes if node.info is not None]


def test_a_node_that_answers_late_costs_its_own_freshness_alone(tmp_path: Path) -> None:
    goes_on = threading.Event()
    with FakeNode() as slow, FakeNode() as b:
        for one in (slow, b):
            one.answer_as_nsqd(topic("orders", 3))
        quick = slow.answers["/stats"]

        def late() -> Any:
            goes_on.wait(60)
            return quick

        slow.answers["/stats"] = late
        with cluster_of(tmp_path, nsqds=(slow, b)) as cluster:
            wait_for("the other one, again and again", lambda: len(b.requests) > 10)
            assert node_at(cluster.state, slow).stats is None
            goes_on.set()
            wait_for("the late one", lambda: node_at(cluster.state, slow).stats)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((500, {}, b'{"message":"INTERNAL_ERROR"}'), "answered 500: INTERNAL_ERROR"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "answered 302"),
        (b"<html>", "answered with no JSON"),
        (b"[" * 100_000, "answered with no JSON"),
        (b'{"topics": 3}', "/stats answered with another document than an nsqd's"),
        (b"null", "/stats answered with another document than an nsqd's"),
        ((200, {"Content-Length": str(200 << 20)}, b"{"), "answered with more than 33554432 bytes"),
        (b'{"topics": [' + b"[]," * 1_100_000 + b"0]}", "answered with too many values"),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * 1_000_000)), "answered with no JSON"),
        ((200, {"X-Long": "y" * 60_000}, b"{}"), "can't be reached: 400, message="),
        ((500, {"X-Penstock-Detail": "%1b[2J%E2%80%AE%00no%0aroom"}, b""), "500: [2J no room"),
    ],
)
def test_an_answer_that_is_none_costs_that_node_and_says_why(answer: Any, error: str, tmp_path: Path) -> None:
    with FakeNode() as bad, FakeNode() as b:
        for one in (bad, b):
            one.answer_as_nsqd(topic("orders", 3))
        with cluster_of(tmp_path, nsqds=(bad, b)) as cluster:
            wait_for("both", lambda: len(depths(cluster.state)) == 2)
            good, bad.answers["/stats"] = bad.answers["/stats"], answer
            node = wait_for("its error", lambda: (found := node_at(cluster.state, bad)).answers.error and found)
            assert error in node.answers.error
            assert node.answers.error.isprintable()
            assert len(node.answers.error) < 700, "all pages have it"
            assert node.answers.failing_since_ms >= node.answers.answered_at_ms > 0
            # What it answered last stays, and the other one is read on.
            assert depths(cluster.state)[bad.port] == {"orders": 3}
            seen = len(b.requests)
            wait_for("the other one", lambda: len(b.requests) > seen + 2)
            bad.answers["/stats"] = good
            wait_for("its recovery", lambda: node_at(cluster.state, bad).answers.is_answering)


def test_a_single_call_that_fails_is_no_silence() -> None:
    answered = Answers(answered_at_ms=1_000_000, took_ms=3)
    once = answered.after_failure("no answer", 1_002_000)
    assert (once.is_answering, once.error) == (True, "")
    twice = once.after_failure("no answer", 1_004_000)
    assert (twice.is_answering, twice.error, twice.failing_since_ms) == (False, "no answer", 1_002_000)
    # Figures that are old by then, or none, are no reason to wait.
    assert answered.after_failure("no answer", 1_015_000).error == "no answer"
    assert Answers().after_failure("no answer", 1_000).error == "no answer"


def test_a_node_that_misses_one_call_of_two_is_never_silent(tmp_path: Path) -> None:
    with FakeNode() as shaky:
        shaky.answer_as_nsqd(topic("orders", 3))
        stats, turns, seen = shaky.answers["/stats"], itertools.count(), set()
        shaky.answers["/stats"] = lambda: (500, {}, b"{}") if next(turns) % 2 else stats
        with cluster_of(tmp_path, nsqds=(shaky,)) as cluster:
            wait_for("its first answer", lambda: cluster.state.answering)

            def calls() -> int:
                seen.add(node_at(cluster.state, shaky).answers.is_answering)
                return sum(path.startswith("/stats") for path, _ in shaky.requests)

            wait_for("many calls", lambda: calls() > 20, every_s=0.002)
            assert seen == {True}


def test_an_nsqlookupd_that_two_addresses_name_counts_once(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as lookup, FakeNode() as other:
        a.answer_as_nsqd(topic("orders", 3))
        for one in (lookup, other):
            one.answer_as_lookupd(a, topics=("orders",))
        options = ClusterOptions(addresses=Addresses.parse([f"localhost:{lookup.port}"], []))
        addresses = Addresses.parse([f"localhost:{lookup.port}", lookup.address, other.address], [])
        cluster = Cluster(options, ChosenAddresses(tmp_path, addresses), lambda: None, OFTEN)
        cluster.start()
        try:
            both = [HttpAddress.parse(one.address) for one in (lookup, other)]
            wait_for("each once", lambda: [one.address for one in cluster.state.lookupds] == both)
            wait_for("both", lambda: [set(node.member.registrations) for node in cluster.state.nodes] == [set(both)])
        finally:
            cluster.stop()


@pytest.mark.parametrize(
    ("names", "counted"),
    [
        ({"127.0.0.1": ["127.0.0.1"], "both-families": ["127.0.0.1", "::1"]}, ["127.0.0.1"]),
        ({"lookup": ["127.0.0.1", "127.0.0.2"], "lookup-0": ["127.0.0.1"]}, ["lookup", "lookup-0"]),
        (
            {"lookup": ["127.0.0.1", "127.0.0.2"], "lookup-0": ["127.0.0.1"], "lookup-1": ["127.0.0.2"]},
            ["lookup-0", "lookup-1"],
        ),
        ({"lookup": ["127.0.0.1", "127.0.0.2"], "other": ["127.0.0.2", "127.0.0.1"]}, ["lookup"]),
        ({"lookup": [], "other": []}, ["lookup", "other"]),
    ],
)
def test_a_name_of_several_nsqlookupds_is_left_out_where_others_have_all_of_them(
    names: dict[str, list[str]], counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(host: str, port: int, *_: Any, **__: Any) -> Any:
        if not names[host]:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        v4, v6 = ([ip for ip in names[host] if (":" in ip) == is_v6] for is_v6 in (False, True))
        return [
            *[(socket.AF_INET, socket.SOCK_STREAM, 0, "", (ip, port)) for ip in v4],
            *[(socket.AF_INET6, socket.SOCK_STREAM, 0, "", (ip, port, 0, 0)) for ip in v6],
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    port = free_ports(1)[0]
    addresses = [HttpAddress(name, port) for name in names]

    async def left() -> list[str]:
        async with NodeHttp(_OPTIONS, NodeRules(), tls_of(_OPTIONS.tls), NodeTokens) as http:
            for one in addresses:
                with suppress(UnreachableError):  # as no nsqlookupd listens there
                    await http.read_lookupd(one, "/nodes")
            return [one.host for one in http.without_twins(addresses)]

    assert asyncio.run(left()) == counted


def test_a_snapshot_that_comes_while_the_one_before_is_taken_is_merged(tmp_path: Path) -> None:
    first, second = snapshot(second=START_S), snapshot(second=START_S + 1)
    merged: list[int] = []

    class Raced(NodeReader):
        """The engine's thread comes in where the reader's has just looked at the first snapshot."""

        @property
        def _newest(self) -> EngineSnapshot | None:
            found: EngineSnapshot | None = self.__dict__.get("newest")
            if found is first:
                self.merge(second)
            return found

        @_newest.setter
        def _newest(self, newest: EngineSnapshot | None) -> None:
            self.__dict__["newest"] = newest

    with FakeNode() as a:
        a.answer_as_nsqd(topic("orders", 3))
        reader = Raced(
            _OPTIONS,
            Addresses.parse([], [a.address]),
            lambda: None,
            OFTEN,
            merger=Merger(),
            on_snapshot=lambda one: merged.append(one.merged.taken_at_ns),
            has_engine=True,
            own_rates=OwnRates(),
        )
        try:
            reader.merge(first)
            wait_for("the first", lambda: first.taken_at_ns in merged)
            wait_for("the second", lambda: second.taken_at_ns in merged)
        finally:
            reader.stop()


def test_names_whose_look_up_hangs_cost_themselves_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_over, look_up = threading.Event(), socket.getaddrinfo

    def hangs(host: Any, *args: Any, **kwargs: Any) -> Any:
        if str(host).startswith("slow-"):
            is_over.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return look_up("127.0.0.1" if host == "quick.example" else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    with FakeNode() as a:
        a.answer_as_nsqd(topic("orders", 3))
        with cluster_of(tmp_path, nsqds=(a,)) as cluster:
            slow = [HttpAddress(f"slow-{number}.example", 4151) for number in range(12)]
            waiting = [cluster.call(partial(_info_of, address)) for address in slow]
            quick = cluster.call(partial(_info_of, HttpAddress("quick.example", a.port)))
            assert quick.result(30)["http_port"] == a.port
            assert not any(one.done() for one in waiting)
            is_over.set()


async def _info_of(address: HttpAddress, http: NodeHttp) -> Any:
    return await http.get_of_node(address, "/info", purpose="page")


def test_an_address_is_trusted_as_an_nsqlookupd_while_it_is_called_alone() -> None:
    lookup = HttpAddress("localhost", 4161)

    async def tried() -> None:
        resolver = CheckedResolver(NodeRules())
        for _ in range(2):
            with pytest.raises(OSError, match=r"localhost .* is a loopback address"):
                await resolver.resolve(lookup.host, lookup.port)
            with resolver.trusting(lookup), resolver.trusting(lookup):
                assert await resolver.resolve(lookup.host, lookup.port)
        await resolver.close()

    asyncio.run(tried())


def test_a_redirect_leads_nowhere(tmp_path: Path) -> None:
    with FakeNode() as bad, FakeNode() as secret:
        secret.answer_as_nsqd(topic("orders", 3))
        bad.failing = (307, {"Location": f"http://{secret.address}/stats"}, b"")
        with cluster_of(tmp_path, nsqds=(bad,)) as cluster:
            wait_for("its error", lambda: "answered 307" in node_at(cluster.state, bad).answers.error)
            wait_for("some calls", lambda: len(bad.requests) > 3)
            assert secret.requests == []


def test_names_that_no_topic_can_have_cost_their_rows(tmp_path: Path) -> None:
    names = ("<script>alert(1)</script>", "../orders", "a b", "orders\0", "", "ö", "o" * 65, "..")
    with FakeNode() as odd:
        odd.answer_as_nsqd(topic("orders", 3, **dict.fromkeys(names, 1)), *(topic(name, 9) for name in names))
        with cluster_of(tmp_path, nsqds=(odd,)) as cluster:
            wait_for("it", lambda: depths(cluster.state) == {odd.port: {"orders": 3}})
            stats = node_at(cluster.state, odd).stats
            assert stats is not None
            assert stats.topics["orders"].channels == {}
            assert stats.unreadable == 2 * len(names)


def test_a_node_with_names_without_end_makes_its_own_period_longer(tmp_path: Path) -> None:
    with FakeNode() as endless, FakeNode() as b:
        channels = {f"c{number}": 1 for number in range(500)}
        endless.answer_as_nsqd(*(topic(f"t{number}", 3, **channels) for number in range(20)))
        b.answer_as_nsqd(topic("orders", 3))
        with cluster_of(tmp_path, nsqds=(endless, b)) as cluster:
            wait_for("both", lambda: len(depths(cluster.state)) == 2)
            seen = sum(path.startswith("/stats") for path, _ in endless.requests)
            # 10,000 channels take some hundredths of a second, 50 times which is more than ten of the other's periods.
            before = len(b.requests)
            wait_for("the other one", lambda: len(b.requests) > before + 10)
            assert sum(path.startswith("/stats") for path, _ in endless.requests) == seen


def _endless(body: Callable[[], Iterator[bytes]]) -> Any:
    return 200, {}, body()


def test_an_endless_answer_ends_at_the_limit_and_a_slow_one_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin_console.cluster.calls.node_http.ANSWER_BYTES_MAX", 100_000)
    is_over = threading.Event()

    def drops() -> Iterator[bytes]:
        while not is_over.wait(0.05):
            yield b" "

    def spaces() -> Iterator[bytes]:
        return itertools.repeat(b" " * 1000)

    errors = {"more than 100000 bytes": spaces, "within 0.5 s": drops}
    for error, body in errors.items():
        with FakeNode() as fake:
            fake.answer_as_nsqd()
            fake.answers["/stats"] = partial(_endless, body)
            with cluster_of(tmp_path, nsqds=(fake,), options=ClusterOptions(request_timeout_s=0.5)) as cluster:
                found = wait_for("its error", lambda: cluster.state.nodes[0].answers.error)
                assert error in found
    is_over.set()


def test_addresses_that_the_rules_refuse_are_shown_and_never_called(tmp_path: Path) -> None:
    with FakeNode() as secret, FakeNode() as lookup:
        lookup.answers["/nodes"] = {
            "producers": [
                producer(secret.port),
                producer(80, address="169.254.169.254"),
                producer(4151, address="nsq-a.example"),
                producer("4151"),
                producer(4151, address="a b"),
                "no object",
            ]
        }
        options = ClusterOptions(allowed_patterns=("10.0.0.0/8",))
        with cluster_of(tmp_path, lookupds=(lookup,), options=options) as cluster:
            wait_for("its answer", lambda: cluster.state.lookupds[0].node_count == 3)
            refusals = {node.member.target.host: node.member.refusal for node in cluster.state.nodes}
            assert refusals == {
                "127.0.0.1": "127.0.0.1 is in no --allowed-node",
                "169.254.169.254": "169.254.169.254 is the address of a metadata service",
                "nsq-a.example": "",  # a name is checked when it is resolved
            }
            assert cluster.state.lookupds[0].unusable == 3
            assert secret.requests == []


def test_of_too_many_nodes_those_that_answer_stay_and_refused_ones_are_left_out_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An nsqlookupd names its nodes in another order each time."""
    monkeypatch.setattr(registrations, "NODES_MAX", 3)
    refused = [producer(4151, address=f"10.0.0.{number}") for number in range(1, 6)]
    dead = [producer(port, address="127.0.0.1", topics=("orders",)) for port in range(1, 6)]
    with FakeNode() as a, FakeNode() as b, FakeNode() as lookup:
        for node in (a, b):
            node.answer_as_nsqd(topic("orders", 3))
        lookup.answers["/nodes"] = {"producers": [*refused, producer(a.port)]}
        options = ClusterOptions(allowed_patterns=("127.0.0.1",))
        with cluster_of(tmp_path, lookupds=(lookup,), options=options) as cluster:
            wait_for("the allowed node", lambda: depths(cluster.state))
            assert cluster.state.lookupds[0].unusable == 3
            lookup.answers["/nodes"] = {"producers": [*refused, *dead, *dead, producer(b.port), producer(a.port)]}
            wait_for("the flood", lambda: cluster.state.lookupds[0].unusable == 14)
            wait_for("the node after the dead ones", lambda: b.port in depths(cluster.state))
            named = [node.member for node in cluster.state.nodes if node.member.registrations]
            assert {a.port, b.port} < {one.target.port for one in named}
            assert len(named) == 3
            assert not any(one.refusal for one in named)


def test_nodes_are_found_in_a_flood_that_is_there_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Their addresses are the last ones. One fails at first, and has another turn."""
    monkeypatch.setattr(registrations, "NODES_MAX", 3)
    dead = [producer(port) for port in range(1, 9)]
    with FakeNode() as a, FakeNode() as late, FakeNode() as lookup:
        for node in (a, late):
            node.answer_as_nsqd(topic("orders", 3))
        lookup.answers["/nodes"] = {"producers": [*dead, producer(late.port), producer(a.port)]}
        late.failing = (503, {}, b"")
        with cluster_of(tmp_path, lookupds=(lookup,)) as cluster:
            wait_for("the node", lambda: list(depths(cluster.state)) == [a.port])
            seen = len(late.requests)
            wait_for("other turns of the one that fails", lambda: len(late.requests) > seen + 10)
            late.failing = None
            wait_for("both", lambda: set(depths(cluster.state)) == {a.port, late.port})
        lines = [record.getMessage() for record in caplog.records]
        named = [line.partition(" does not answer")[0] for line in lines if " does not answer" in line]
        assert sorted(named) == sorted([f"node 127.0.0.1:{port}" for port in (*range(1, 9), late.port)]), (
            "one line each"
        )


def test_turns_of_nodes_that_failed_hold_up_no_new_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "NODES_MAX", 32)
    with ExitStack() as stack:
        silent = [stack.enter_context(FakeNode(delay_s=0.1, failing=(503, {}, b""))) for _ in range(40)]
        new, lookup = stack.enter_context(FakeNode()), stack.enter_context(FakeNode())
        new.answer_as_nsqd(topic("orders", 3))
        lookup.answer_as_lookupd(*silent)
        with cluster_of(tmp_path, lookupds=(lookup,)) as cluster:
            wait_for("further turns", lambda: min(len(one.requests) for one in silent) > 1)
            lookup.answer_as_lookupd(*silent, new)
            before = sum(len(one.requests) for one in silent)
            wait_for("its call", lambda: new.requests, every_s=0.001)
            between = sum(len(one.requests) for one in silent) - before
            assert between < 16, "it waits for none of the 32 that have a turn"
            wait_for("its figures", lambda: depths(cluster.state))


def test_a_name_that_resolves_to_a_refused_address_is_not_called(tmp_path: Path) -> None:
    """`localhost.localdomain` stands for any name whose owner lets it lead here."""
    with FakeNode() as secret, FakeNode() as lookup:
        secret.answer_as_nsqd()
        lookup.answers["/nodes"] = {"producers": [producer(secret.port, address="ip6-localhost")]}
        options = ClusterOptions(allowed_patterns=("10.0.0.0/8",))
        with cluster_of(tmp_path, lookupds=(lookup,), options=options) as cluster:
            node = wait_for("a try", lambda: next((one for one in cluster.state.nodes if one.answers.error), None))
            assert "is a loopback address" in node.answers.error or "can't be reached" in node.answers.error
            assert secret.requests == []


def test_an_nsqlookupd_that_fails_counts_with_its_last_answer(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as lookup:
        a.answer_as_nsqd(topic("orders", 3))
        lookup.answer_as_lookupd(a)
        with cluster_of(tmp_path, lookupds=(lookup,)) as cluster:
            wait_for("its node", lambda: depths(cluster.state))
            lookup.answers["/nodes"] = (500, {}, b"")
            wait_for("its error", lambda: cluster.state.lookupds[0].answers.error)
            seen = len(a.requests)
            wait_for("the node", lambda: len(a.requests) > seen + 2)
            assert cluster.state.gone == ()


def test_a_node_that_no_nsqlookupd_names_any_more_is_shown_as_gone(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as lookup:
        a.answer_as_nsqd(topic("orders", 3))
        lookup.answer_as_lookupd(a)
        with cluster_of(tmp_path, lookupds=(lookup,), pace=replace(OFTEN, unnamed_s=0.2)) as cluster:
            wait_for("its node", lambda: depths(cluster.state))
            lookup.answer_as_lookupd()
            (gone,) = wait_for("its end", lambda: cluster.state.gone)
            assert gone.gone_since_ms > 0
            assert (gone.info is not None, gone.stats) == (True, None), "500 nodes of 1,000 channels would take 0.9 GB"
            assert cluster.state.nodes == ()
            lookup.answer_as_lookupd(a)
            wait_for("its return", lambda: cluster.state.nodes)
            assert cluster.state.gone == ()


def test_a_node_that_dies_is_silent_though_its_registrations_went_with_it(tmp_path: Path) -> None:
    """nsqlookupd drops a node when its connection ends, and all nodes when it starts anew."""
    with FakeNode() as a, FakeNode() as b, FakeNode() as lookup:
        for node in (a, b):
            node.answer_as_nsqd(topic("orders", 3))
        lookup.answer_as_lookupd(a, b)
        with cluster_of(tmp_path, lookupds=(lookup,)) as cluster:
            wait_for("both", lambda: len(depths(cluster.state)) == 2)
            b.failing = (503, {}, b"")
            lookup.answer_as_lookupd(a)
            wait_for("its silence", lambda: not node_at(cluster.state, b).answers.is_answering)
            wait_for("the answer without it", lambda: not node_at(cluster.state, b).member.registrations)
            assert (len(cluster.state.nodes), len(cluster.state.answering), cluster.state.gone) == (2, 1, ())
            lookup.answer_as_lookupd()
            wait_for("an nsqlookupd without nodes", lambda: not node_at(cluster.state, a).member.registrations)
            assert not node_at(cluster.state, a).answers.error, "it is read on"
            b.failing = None
            lookup.answer_as_lookupd(a, b)
            wait_for("both again", lambda: len(cluster.state.answering) == 2)
            assert all(node.member.registrations for node in cluster.state.nodes)


def test_a_node_that_wants_https_is_called_there(tmp_path: Path) -> None:
    """As nsqd with --tls-required: 403 on http, with the port of its https."""
    with FakeNode() as a, FakeNode() as https:
        a.answer_as_nsqd()
        a.answers["/info"] = (403, {}, b'{"message": "TLS_REQUIRED", "https_port": %d}' % https.port)
        with cluster_of(tmp_path, nsqds=(a,)) as cluster:
            # The fake speaks no TLS: that the console tried is what shows.
            error = wait_for("a try", lambda: node_at(cluster.state, a).answers.error)
            assert f"https://127.0.0.1:{https.port}/info" in error


def test_a_node_behind_nat_is_called_where_the_map_says(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as lookup:
        a.answer_as_nsqd(topic("orders", 3))
        lookup.answers["/nodes"] = {"producers": [producer(4151, address="10.9.9.9")]}
        named = HttpAddress("10.9.9.9", 4151)
        options = ClusterOptions(mapped={named: HttpAddress.parse(a.address)})
        with cluster_of(tmp_path, lookupds=(lookup,), options=options) as cluster:
            wait_for("its figures", lambda: depths(cluster.state) == {a.port: {"orders": 3}})
            assert cluster.state.nodes[0].name == "10.9.9.9:4151"


def test_a_token_goes_to_the_nodes_of_its_pattern_and_to_no_nsqlookupd(tmp_path: Path) -> None:
    path = tmp_path / "node-tokens"
    path.write_text("127.0.0.1 penstock_secret\n")
    path.chmod(0o600)
    with FakeNode() as a, FakeNode() as lookup:
        a.answer_as_nsqd(topic("orders", 3))
        lookup.answer_as_lookupd(a)
        with cluster_of(tmp_path, lookupds=(lookup,), options=ClusterOptions(token_file=str(path))) as cluster:
            wait_for("its figures", lambda: depths(cluster.state))
            assert {headers.get("Authorization") for _, headers in a.requests} == {"Bearer penstock_secret"}
            assert {headers.get("Authorization") for _, headers in lookup.requests} == {None}


def test_chosen_addresses_are_called_at_once_and_after_a_restart_until_the_options_change(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as b:
        for one in (a, b):
            one.answer_as_nsqd()
        with cluster_of(tmp_path, nsqds=(a,)) as cluster:
            wait_for("the first", lambda: list(depths(cluster.state)) == [a.port])
            cluster.change(Addresses.parse([], [b.address]))
            wait_for("the chosen one", lambda: list(depths(cluster.state)) == [b.port])
        with cluster_of(tmp_path, nsqds=(a,)) as cluster:
            wait_for("the chosen one", lambda: list(depths(cluster.state)) == [b.port])
        with cluster_of(tmp_path, nsqds=(a, b)) as cluster:
            wait_for("both", lambda: sorted(depths(cluster.state)) == sorted((a.port, b.port)))


def test_a_damaged_file_of_addresses_counts_as_none_and_one_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    options = Addresses.parse(["lookup:4161"], [])
    chosen = ChosenAddresses(tmp_path, options)
    chosen.write(Addresses.parse([], ["nsq-a:4151"]))
    assert chosen.read() == Addresses.parse([], ["nsq-a:4151"])
    path = tmp_path / NAME
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at])
        assert chosen.read() == options
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert chosen.read() == options
    path.write_bytes(encode_line({"version": 2}))
    with pytest.raises(NewerFormatError):
        chosen.read()
    path.unlink()
    path.mkdir()
    with pytest.raises(StorageError, match="can't be read"):
        chosen.read()


def test_what_an_admin_removes_is_not_shown_as_gone(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as b, FakeNode() as lookup:
        for one in (a, b):
            one.answer_as_nsqd()
        lookup.answer_as_lookupd(a)
        with cluster_of(tmp_path, lookupds=(lookup,), nsqds=(b,)) as cluster:
            wait_for("both", lambda: len(depths(cluster.state)) == 2)
            cluster.change(Addresses.parse([], [lookup.address]))
            wait_for("the change", lambda: cluster.state.addresses.lookupds == ())
            assert cluster.state.gone == ()


def test_the_period_stretches_until_reading_takes_its_share_of_a_core() -> None:
    now_s = cpu_s = 0.0
    stretch = Stretch(Pace(period_s=10, cpu_share=0.1), lambda: now_s, lambda: cpu_s)
    # A reading of all nodes takes so much, however long the period is.
    for cpu_s_a_period, factor in ((0.5, 1), (4, 4), (1, 1)):
        for _ in range(40):
            now_s += 10 * stretch.factor / 4
            cpu_s += cpu_s_a_period / 4
            stretch.note()
        assert stretch.factor == pytest.approx(factor, rel=0.1)


def test_the_periods_are_longer_while_the_engine_beside_is_busy_and_the_share_is_smaller() -> None:
    now_s = cpu_s = 0.0
    stretch = Stretch(Pace(period_s=10, watched_s=1, cpu_share=0.1), lambda: now_s, lambda: cpu_s)
    assert (stretch.period_s, stretch.watched_s) == (10, 1)
    stretch.note_engine(0.15)
    assert (stretch.period_s, stretch.watched_s) == (25, 1)
    stretch.note_engine(1.0)
    assert (stretch.period_s, stretch.watched_s) == (40, 1)
    # A reading of all nodes takes so much, and a quarter of the share is left.
    for _ in range(40):
        now_s += stretch.period_s / 4
        cpu_s += 2 / 4
        stretch.note()
    assert 2 / stretch.period_s == pytest.approx(0.1 / 4, rel=0.1)
    assert stretch.watched_s > 1
    stretch.note_engine(0.0)
    assert 2 / stretch.period_s == pytest.approx(0.1, rel=0.1)


def test_a_figure_that_can_t_be_right_is_unknown_and_costs_no_other() -> None:
    channel = {"channel_name": "billing", "depth": 1 << 70, "in_flight_count": -1, "timeout_count": "3", "paused": 1}
    # A name of another form has no page.
    names = ("x" * 100, ["orders"], "orders", "a/b", "<b>", "")
    bad = [None, {}, *[{"topic_name": name} for name in names]]
    document = {"topics": [{"topic_name": "orders", "depth": 7, "channels": [channel, 3]}, *bad]}
    stats = node_stats_in(document)
    assert stats is not None
    assert stats.unreadable == 1 + len(bad)
    (orders,) = stats.topics.values()
    figures = orders.channels["billing"].figures
    assert (orders.figures["depth"], orders.figures["paused"]) == (7, None)
    assert [figures[name] for name in ("depth", "in_flight_count", "timeout_count", "paused")] == [None] * 4


def test_channels_beyond_the_limit_are_counted_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_console.cluster.reading.node_stats.CHANNELS_MAX", 4)
    channels = [{"channel_name": f"c{number}"} for number in range(3)]
    stats = node_stats_in({"topics": [{"topic_name": name, "channels": channels} for name in ("a", "b")]})
    assert stats is not None
    assert [len(one.channels) for one in stats.topics.values()] == [3, 1]
    assert (stats.unreadable, stats.left_out) == (2, {"b"})


def test_a_total_is_partial_where_a_part_of_it_is_unknown() -> None:
    assert (Total.of([1, 2]), Total.of([1, None]), Total.of([])) == (Total(3), Total(1, is_partial=True), Total(0))
    stats = node_stats_in({"topics": [topic("orders", 3, billing=2), {"topic_name": "clicks", "depth": -1}]})
    assert stats is not None
    sums = NodeSums.of(stats)
    # Of clicks neither depth nor messages are known, and no channel of orders says how many clients it has.
    assert (sums.topics, sums.clients, sums.depth, sums.messages) == (2, None, None, None)
    whole = node_stats_in({"topics": [topic("orders", 3, billing=2)]})
    assert whole is not None
    assert (NodeSums.of(whole).depth, NodeSums.of(whole).messages) == (5, 3)


def test_an_act_is_sent_once_beside_the_reads_and_says_whether_it_was_sent(tmp_path: Path) -> None:
    with FakeNode() as a, FakeNode() as https, FakeNode() as lookup:
        a.answer_as_nsqd(topic("orders", 3))
        lookup.answer_as_lookupd(a)
        a.answers["/topic/pause"] = b""
        a.answers["/topic/empty"] = (404, {}, b'{"message":"TOPIC_NOT_FOUND"}')
        a.answers["/topic/delete"] = (302, {"Location": f"http://{https.address}/topic/delete"}, b"")
        a.answers["/channel/empty"] = (200, {"Content-Length": "100"}, b"")  # it goes away in the middle
        lookup.answers["/topic/tombstone"] = b""
        at, gone = HttpAddress("127.0.0.1", a.port), HttpAddress("127.0.0.1", free_ports(1)[0])
        with cluster_of(tmp_path, lookupds=(lookup,), nsqds=(a,)) as cluster:

            def post(path: str, target: HttpAddress = at) -> bytes:
                return cluster.call(lambda http: http.post_to_node(target, path, {"topic": "orders"})).result(30)

            assert post("/topic/pause") == b""
            with pytest.raises(HttpRefusedError, match="answered 404: TOPIC_NOT_FOUND"):
                post("/topic/empty")
            with pytest.raises(HttpRefusedError, match="answered 302"):
                post("/topic/delete")
            for path, target, is_sent in (("/channel/empty", at, True), ("/topic/pause", gone, False)):
                with pytest.raises(UnreachableError) as raised:
                    post(path, target)
                assert raised.value.is_sent == is_sent
            looked_up = HttpAddress("127.0.0.1", lookup.port)
            cluster.call(lambda http: http.post_to_lookupd(looked_up, "/topic/tombstone", {"topic": "orders"})).result(
                30
            )
            posts = [path for path, _ in a.requests if "topic=orders" in path]
            assert posts == [
                f"{path}?topic=orders" for path in ("/topic/pause", "/topic/empty", "/topic/delete", "/channel/empty")
            ]
            assert [path for path, _ in lookup.requests if "?" in path] == ["/topic/tombstone?topic=orders"]
            assert https.requests == []


def test_an_act_that_waits_ends_with_the_server(tmp_path: Path) -> None:
    goes_on = threading.Event()
    with FakeNode() as slow:
        slow.answer_as_nsqd()

        def late() -> Any:
            goes_on.wait(60)
            return b""

        slow.answers["/topic/pause"] = late
        with cluster_of(tmp_path, nsqds=(slow,)) as cluster:
            target = HttpAddress("127.0.0.1", slow.port)
            waiting = cluster.call(lambda http: http.post_to_node(target, "/topic/pause", {}))
            wait_for("its request", lambda: any(path == "/topic/pause" for path, _ in slow.requests))
            cluster.stop()
            with pytest.raises(CancelledError):
                waiting.result(30)
            with pytest.raises(NotCallingError, match="the server is stopping"):
                cluster.call(lambda http: http.post_to_node(target, "/topic/pause", {}))
            goes_on.set()


def test_producers_of_another_form_count_as_none() -> None:
    stats = node_stats_in({"topics": [], "producers": {"a": 1}}, with_clients=True)
    assert stats is not None
    assert stats.has_clients, "else it would be read again and again"
