"""The server registers with real nsqlookupds, and asks them for the channels of new topics."""

import json
import socket
import threading
import urllib.error
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from queue_engine.service.lookup_client import client as client_module
from queue_engine.service.lookup_client.channel_finder import ChannelFinder
from queue_engine.service.loop.name_lookups import NameLookups, tcp_addresses
from tests.support.nsq_socket import sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.running_lookup import RunningLookup
from tests.support.waiting import wait_for, wait_for_async


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[ExitStack]:
    """What a test started ends before its files go."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def lookup(stack: ExitStack) -> RunningLookup:
    return stack.enter_context(RunningLookup())


def engine_with(stack: ExitStack, path: Path, *addresses: str, find_timeout_ms: int = 60_000) -> RunningEngine:
    """A server that registers with these nsqlookupds. find_timeout_ms: a machine that stalls must not let a topic go on
    without its channels."""
    running = stack.enter_context(
        RunningEngine(
            path,
            lookupd_tcp_address=addresses,
            lookupd_find_timeout_ms=find_timeout_ms,
            broadcast_address="127.0.0.1",
        )
    )
    return running


def is_connected(running: RunningEngine, how_many: Callable[[Iterable[bool]], bool] = all) -> bool:
    found = running.snapshot
    return found is not None and bool(found.lookupds) and how_many(one.is_connected for one in found.lookupds)


def test_registering_waits_for_no_look_at_what_is_due(
    stack: ExitStack, lookup: RunningLookup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection, each name that comes or goes, and an nsqlookupd that is added are events."""
    monkeypatch.setattr(client_module, "CHECK_INTERVAL_S", 3_600)
    other = stack.enter_context(RunningLookup())
    running = engine_with(stack, tmp_path, lookup.tcp_address)
    for topic in ("orders", "mails"):
        running.http("POST", f"/topic/create?topic={topic}")
        wait_for(topic, lambda topic=topic: lookup.producer_ports(topic) == [running.tcp_port])
    running.http("POST", "/channel/create?topic=orders&channel=billing")
    wait_for("billing", lambda: lookup.channels("orders") == ["billing"])
    running.http("POST", "/topic/delete?topic=mails")
    wait_for("the end of mails", lambda: not lookup.producer_ports("mails"))
    addresses = json.dumps([lookup.tcp_address, other.tcp_address]).encode()
    running.http("PUT", "/config/nsqlookupd_tcp_addresses", addresses)
    wait_for("orders at the other", lambda: other.producer_ports("orders") == [running.tcp_port])


def test_topics_and_channels_come_and_go(stack: ExitStack, lookup: RunningLookup, tmp_path: Path) -> None:
    other = stack.enter_context(RunningLookup())
    running = engine_with(stack, tmp_path, lookup.tcp_address, other.tcp_address)
    running.http("POST", "/topic/create?topic=orders")
    running.http("POST", "/channel/create?topic=orders&channel=billing")
    client = running.client()
    client.subscribe("passing#ephemeral", "tail#ephemeral")
    for one in (lookup, other):
        wait_for("orders", lambda one=one: one.producer_ports("orders") == [running.tcp_port])
        wait_for("billing", lambda one=one: one.channels("orders") == ["billing"])
        wait_for("the ephemeral ones", lambda one=one: one.channels("passing#ephemeral") == ["tail#ephemeral"])
    (node,) = lookup.get("/nodes")["producers"]
    assert (node["broadcast_address"], node["http_port"]) == ("127.0.0.1", running.http_port)
    client.close()
    running.http("POST", "/channel/delete?topic=orders&channel=billing")
    wait_for("the end of billing", lambda: "channel:orders:billing" not in lookup.get("/debug"))
    running.http("POST", "/channel/create?topic=orders&channel=shipping")
    for one in (lookup, other):
        wait_for("their end", lambda one=one: one.get("/topics")["topics"] == ["orders"])
        wait_for("shipping", lambda one=one: "channel:orders:shipping" in one.get("/debug"))
        assert "channel:orders:billing" not in one.get("/debug")
    running.http("POST", "/topic/delete?topic=orders")
    wait_for("the end of orders", lambda: lookup.producer_ports("orders") == [])
    running.http("POST", "/topic/create?topic=bare")
    wait_for("a topic without channels", lambda: lookup.producer_ports("bare") == [running.tcp_port])
    running.http("POST", "/topic/delete?topic=bare")
    wait_for("its end", lambda: lookup.producer_ports("bare") == [])


def test_what_there_was_before_the_start_is_registered_and_a_stop_takes_it_back(
    lookup: RunningLookup, tmp_path: Path
) -> None:
    with RunningEngine(tmp_path) as running:
        running.http("POST", "/topic/create?topic=orders")
        running.http("POST", "/channel/create?topic=orders&channel=billing")
    with ExitStack() as stack:
        running = engine_with(stack, tmp_path, lookup.tcp_address)
        wait_for("billing", lambda: lookup.channels("orders") == ["billing"])
        assert lookup.producer_ports("orders") == [running.tcp_port]
    wait_for("its leaving", lambda: lookup.producer_ports("orders") == [])


@pytest.mark.slow(reason="it waits for tries at growing intervals")
def test_an_nsqlookupd_that_comes_back_is_told_everything(
    stack: ExitStack, lookup: RunningLookup, tmp_path: Path
) -> None:
    running = engine_with(stack, tmp_path, lookup.tcp_address)
    running.http("POST", "/topic/create?topic=orders")
    wait_for("orders", lambda: lookup.producer_ports("orders") == [running.tcp_port])
    wait_for("the connection", lambda: is_connected(running))
    lookup.stop()
    wait_for("the loss", lambda: not is_connected(running))
    assert running.snapshot is not None
    assert running.snapshot.lookupds[0].error == "it closed the connection" or (
        "could not be reached" in running.snapshot.lookupds[0].error
    )
    running.http("POST", "/topic/create?topic=meanwhile")
    lookup.start()
    wait_for("orders again", lambda: lookup.producer_ports("orders") == [running.tcp_port])
    wait_for("meanwhile", lambda: lookup.producer_ports("meanwhile") == [running.tcp_port])
    wait_for("an end of the error", lambda: is_connected(running) and running.snapshot.lookupds[0].error == "")


def test_the_list_of_nsqlookupds_can_be_changed_while_the_server_runs(
    stack: ExitStack, lookup: RunningLookup, tmp_path: Path
) -> None:
    """nsqd's own test of this: Reconfigure."""
    other = stack.enter_context(RunningLookup())
    running = engine_with(stack, tmp_path)
    path = "/config/nsqlookupd_tcp_addresses"
    assert running.http("GET", path) == b"[]"
    running.http("POST", "/topic/create?topic=orders")

    def change(*addresses: str) -> None:
        running.http("PUT", path, json.dumps(addresses).encode())

    change(lookup.tcp_address)
    wait_for("orders", lambda: lookup.producer_ports("orders") == [running.tcp_port])
    change(lookup.tcp_address, other.tcp_address)
    wait_for("orders at the other", lambda: other.producer_ports("orders") == [running.tcp_port])
    change(other.tcp_address)
    wait_for("its leaving", lambda: lookup.producer_ports("orders") == [])
    assert json.loads(running.http("GET", path)) == [other.tcp_address]
    for bad in (
        b"[1]",
        b'["nonsense"]',
        b'[":4160"]',
        b'["host:0"]',
        json.dumps([f"l:{port}" for port in range(1, 40)]).encode(),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            running.http("PUT", path, bad)
        refused.value.close()
        assert refused.value.code == 400
    assert json.loads(running.http("GET", path)) == [other.tcp_address]
    assert other.producer_ports("orders") == [running.tcp_port]


def test_a_new_topic_begins_with_the_channels_that_it_has_elsewhere(
    stack: ExitStack, lookup: RunningLookup, tmp_path: Path
) -> None:
    """Each of them gets the first message, though it has no consumer here yet."""
    running = engine_with(stack, tmp_path, lookup.tcp_address)
    for channel in ("billing", "shipping", "tail%23ephemeral"):
        lookup.post(f"/channel/create?topic=orders&channel={channel}")
    wait_for("the connection", lambda: is_connected(running))
    running.http("POST", "/pub?topic=orders", b"first")
    found = {one["channel_name"]: one["depth"] for one in running.topic_stats("orders")["channels"]}
    assert found == {"billing": 1, "shipping": 1}
    client = running.client()
    client.subscribe("orders", "shipping", rdy=1)
    assert client.read_message().body == b"first"
    running.client().subscribe("others", "mine")
    assert [one["channel_name"] for one in running.topic_stats("others")["channels"]] == ["mine"]
    assert running.http("POST", "/pub?topic=passing%23ephemeral", b"x") == b"OK"


def test_a_subscription_to_a_new_topic_has_the_channels_of_other_nodes_beside_it(
    stack: ExitStack, lookup: RunningLookup, tmp_path: Path
) -> None:
    running = engine_with(stack, tmp_path, lookup.tcp_address)
    lookup.post("/channel/create?topic=orders&channel=billing")
    wait_for("the connection", lambda: is_connected(running))
    running.client().subscribe("orders", "mine")
    assert {one["channel_name"] for one in running.topic_stats("orders")["channels"]} == {"billing", "mine"}


class HalfLookupd:
    """Answers IDENTIFY over TCP; over HTTP it takes connections and answers nothing until they are dropped."""

    def __init__(self) -> None:
        self._http = socket.create_server(("127.0.0.1", 0))
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self.tcp_address = f"127.0.0.1:{self._tcp.getsockname()[1]}"
        self.http_address = f"127.0.0.1:{self._http.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        own = {"broadcast_address": "127.0.0.1", "http_port": self._http.getsockname()[1], "version": "1"}
        connection, _ = self._tcp.accept()
        with connection:
            if not connection.recv(1 << 16):
                return
            connection.sendall(sized(json.dumps(own).encode()))
            while data := connection.recv(1 << 16):
                connection.sendall(sized(b"OK") * data.count(b"\n"))

    def drop_http(self) -> None:
        self._http.close()  # what waits in its backlog is reset

    def close(self) -> None:
        """Call when its client has left."""
        self._thread.join()
        self._http.close()
        self._tcp.close()


def test_an_nsqlookupd_that_does_not_answer_holds_its_topic_alone(stack: ExitStack, tmp_path: Path) -> None:
    half = HalfLookupd()
    stack.callback(half.close)
    running = engine_with(stack, tmp_path)
    running.http("POST", "/topic/create?topic=old")
    running.http("PUT", "/config/nsqlookupd_tcp_addresses", json.dumps([half.tcp_address]).encode())
    wait_for("the connection", lambda: is_connected(running))
    first, second = running.client(), running.client()
    first.send(b"PUB new\n\0\0\0\1x")
    second.publish("old", b"at once")
    with pytest.raises(LookupError):
        running.topic_stats("new")
    half.drop_http()
    first.expect_ok()
    assert running.topic_stats("new")["message_count"] == 1


async def test_a_topic_does_not_wait_for_ever(stack: ExitStack) -> None:
    half = HalfLookupd()
    try:
        finder = ChannelFinder(timeout_ms=50, names=NameLookups(tcp_addresses))
        ticket, names = finder.find("orders", [half.http_address])
        await wait_for_async("the end of its patience", lambda: ticket.done)
        assert (ticket.error, names) == (None, [])
        await finder.close()
    finally:
        socket.create_connection(("127.0.0.1", int(half.tcp_address.rpartition(":")[2]))).close()
        half.close()


def test_a_name_server_that_does_not_answer_holds_up_neither_a_topic_nor_the_stop(
    stack: ExitStack, lookup: RunningLookup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = {f"host-{number}.example" for number in range(8)}
    answers, asked = threading.Event(), set()
    look_up = socket.getaddrinfo

    def wait(host: str | bytes, *rest: Any, **named: Any) -> Any:
        if host in hosts:
            asked.add(host)
            answers.wait()
        return look_up(host, *rest, **named)

    stack.callback(answers.set)
    monkeypatch.setattr(socket, "getaddrinfo", wait)
    with RunningEngine(
        tmp_path, lookupd_tcp_address=[lookup.tcp_address, *(f"{host}:4160" for host in hosts)]
    ) as running:
        wait_for("the lookups", lambda: asked == hosts)
        wait_for("the one that answers", lambda: is_connected(running, any))
        running.client().publish("orders", b"x")
    assert not answers.is_set()


async def test_the_channels_are_found_by_a_host_s_name(lookup: RunningLookup) -> None:
    lookup.post("/channel/create?topic=orders&channel=billing")
    finder = ChannelFinder(timeout_ms=60_000, names=NameLookups(tcp_addresses))
    ticket, names = finder.find("orders", ["localhost:" + lookup.http_address.rpartition(":")[2]])
    await wait_for_async("the answer", lambda: ticket.done)
    assert names == ["billing"]
    await finder.close()


async def test_answers_that_are_no_lists_of_channels_are_left_out(lookup: RunningLookup) -> None:
    """The topic is unknown to one, and the other address is no nsqlookupd's HTTP API."""
    lookup.post("/channel/create?topic=orders&channel=billing")
    finder = ChannelFinder(timeout_ms=60_000, names=NameLookups(tcp_addresses))
    ticket, names = finder.find("orders", [lookup.tcp_address, lookup.http_address])
    await wait_for_async("the answers", lambda: ticket.done)
    assert (ticket.error, names) == (None, ["billing"])
    await finder.close()
