"""Topics that several servers have, found by nsqlookupd: each message once, while servers come, go and move."""

import json
import logging
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from queue_engine.lake.source.batch_reader import BatchReader
from queue_engine.lake.source.read_options import read_options
from queue_engine.lake.source.stream_reader import StreamReader
from queue_engine.vocabulary.errors import EngineUnreachableError, TopicMissingError
from tests.support.lakes.log_topics import publish
from tests.support.lookup import IDENTITY
from tests.support.nsq_socket import sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.running_lookup import RunningLookup
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts engines and stops them")

NOBODY = "127.0.0.1:1"


class Network:
    """An nsqlookupd, and servers that register with it, each on a directory of its name."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self.lookup = stack.enter_context(RunningLookup())
        self._stack, self._path = stack, path
        self._ends: dict[str, ExitStack] = {}

    def start(self, name: str) -> RunningEngine:
        """On free ports, so each time on others."""
        end = self._ends[name] = self._stack.enter_context(ExitStack())
        return end.enter_context(
            RunningEngine(
                self._path / name,
                storage="log",
                lookupd_tcp_address=(self.lookup.tcp_address,),
                broadcast_address="127.0.0.1",
            )
        )

    def stop(self, name: str) -> None:
        self._ends.pop(name).close()

    def know(self, topic: str, *servers: RunningEngine) -> None:
        """nsqlookupd names exactly these."""
        ports = {server.tcp_port for server in servers}
        wait_for(f"{topic}'s servers", lambda: set(self.lookup.producer_ports(topic)) == ports)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with ExitStack() as stack:
        yield Network(stack, tmp_path)


def some(name: str, count: int) -> list[bytes]:
    return [b"%s %d" % (name.encode(), number) for number in range(count)]


class Stream:
    """A stream of "orders", as Spark drives it; a restart begins with the last offset, in a new reader."""

    def __init__(self, network: Network, limit: int | None = None) -> None:
        self.bodies: Counter[bytes] = Counter()
        self._options = read_options({"lookupd": network.lookup.http_address, "topic": "orders"})
        self._limit = ReadAllAvailable() if limit is None else ReadMaxRows(limit)
        self.restart()
        self.offset = self._reader.initialOffset()

    def restart(self) -> None:
        self._reader = StreamReader(self._options)

    def run(self) -> None:
        """Batches until there is nothing new."""
        while (end := self._reader.latestOffset(self.offset, self._limit)) != self.offset:
            for partition in self._reader.partitions(self.offset, end):
                for batch in self._reader.read(partition):
                    self.bodies.update(batch.column("body").to_pylist())
            self.offset = end


def test_a_batch_has_the_messages_of_all_servers(network: Network) -> None:
    one, two = network.start("one"), network.start("two")
    publish(one, "orders", some("one", 30))
    publish(two, "orders", some("two", 20))
    publish(two, "returns", some("back", 5))
    network.know("orders", one, two)
    network.know("returns", two)
    reader = BatchReader(
        read_options({"lookupd": f"{NOBODY}, {network.lookup.http_address}", "topic": "orders,returns"})
    )
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    assert Counter(row["body"] for row in rows) == Counter(some("one", 30) + some("two", 20) + some("back", 5))


def test_a_server_with_two_addresses_is_read_once(network: Network) -> None:
    one = network.start("one")
    publish(one, "orders", some("one", 3))
    network.know("orders", one)
    options = read_options({"lookupd": network.lookup.http_address, "topic": "orders"})
    with one_more_named(network, "localhost", one.http_port):
        reader = BatchReader(options)
        rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
        stream = Stream(network)
        stream.run()
    assert Counter(row["body"] for row in rows) == stream.bodies == Counter(some("one", 3))


def test_a_stream_goes_on_while_servers_come_go_and_move(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    one, two = network.start("one"), network.start("two")
    publish(one, "orders", some("one", 30))
    publish(two, "orders", some("two", 20))
    network.know("orders", one, two)
    stream = Stream(network, limit=16)
    stream.run()
    assert stream.bodies == Counter(some("one", 30) + some("two", 20))

    publish(two, "orders", some("unread", 3))
    network.stop("two")
    network.know("orders", one)
    publish(one, "orders", some("alone", 4))
    stream.restart()
    stream.run()
    assert stream.bodies == Counter(some("one", 30) + some("two", 20) + some("alone", 4))

    # It comes back at another address, and a new one joins.
    two, three = network.start("two"), network.start("three")
    publish(three, "orders", some("three", 7))
    network.know("orders", one, two, three)
    stream.run()
    everything = some("one", 30) + some("two", 20) + some("alone", 4) + some("unread", 3) + some("three", 7)
    assert stream.bodies == Counter(everything)

    # nsqlookupd still names a server that does not answer, as after a power cut.
    network.stop("three")
    network.know("orders", one, two)
    with one_more_named(network), caplog.at_level(logging.WARNING):
        publish(one, "orders", some("last", 2))
        stream.run()
    assert "the stream waits for a server: " in caplog.text
    assert stream.bodies == Counter(everything + some("last", 2))


@contextmanager
def one_more_named(network: Network, host: str = "127.0.0.1", http_port: int = 1) -> Iterator[None]:
    """nsqlookupd names one more server of orders; where nothing listens, unless another address is given."""
    identity = {**IDENTITY, "broadcast_address": host, "http_port": http_port, "tcp_port": 9}
    with socket.create_connection(("127.0.0.1", network.lookup.tcp_port), timeout=30) as connection:
        connection.sendall(b"  V1IDENTIFY\n" + sized(json.dumps(identity).encode()) + b"REGISTER orders\n")
        wait_for("its registration", lambda: 9 in network.lookup.producer_ports("orders"))
        yield


def test_a_batch_that_was_begun_is_not_read_in_part(network: Network) -> None:
    one, two = network.start("one"), network.start("two")
    publish(one, "orders", some("one", 3))
    publish(two, "orders", some("two", 2))
    network.know("orders", one, two)
    options = read_options({"lookupd": network.lookup.http_address, "topic": "orders"})
    reader = StreamReader(options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    network.stop("two")
    network.know("orders", one)
    with pytest.raises(EngineUnreachableError, match=r"^the server with topic orders, number \d+, is away, and this"):
        StreamReader(options).partitions(start, end)


def test_a_topic_that_no_server_has_and_nsqlookupds_that_do_not_answer_are_errors(network: Network) -> None:
    with pytest.raises(TopicMissingError, match=r"^no server that .* names has orders or returns$"):
        BatchReader(read_options({"lookupd": network.lookup.http_address, "topic": "orders,returns"})).partitions()
    with pytest.raises(EngineUnreachableError, match=rf"^nsqlookupd {NOBODY} does not answer: "):
        BatchReader(read_options({"lookupd": NOBODY, "topic": "orders"})).partitions()
    one = network.start("one")
    publish(one, "orders", [b"x"])
    network.know("orders", one)
    with pytest.raises(TopicMissingError, match=r"^no server that nsqlookupd names has returns$"):
        BatchReader(read_options({"lookupd": network.lookup.http_address, "topic": "orders,returns"})).partitions()
