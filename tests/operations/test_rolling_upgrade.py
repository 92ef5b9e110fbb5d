"""A drill: two servers are upgraded to the next version one after the other, and back, while clients go on.

The next version is this one under another number (`tests/support/processes/next_version.py`). That a version with
formats which this one lacks is refused, `tests/engine/test_data_formats.py` shows.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import orjson
import pytest

from queue_engine.vocabulary.version import NSQD_VERSION, VERSION
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.daemon_process import DaemonProcess
from tests.support.processes.next_version import NEXT_VERSION
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts processes")

TOPICS = {"kept": "log", "queued": "diskqueue"}
# In files before OK, so that a kill costs no acknowledged message of a disk queue either.
OPTIONS = ["--mem-queue-size=0"]
# What a client meets while its server is away.
AWAY = (ConnectionError, EOFError, TimeoutError, AssertionError)


class NextVersion(DaemonProcess):
    def _command(self) -> list[str]:
        return ["-m", "tests.support.processes.next_version", *super()._command()[2:]]


class Clients:
    """Publishes to whichever server is there, and consumes each topic on each server. servers: as they are now."""

    def __init__(self, servers: Sequence[DaemonProcess]) -> None:
        self.servers = list(servers)
        self.acknowledged: list[bytes] = []
        self.seen: Counter[bytes] = Counter()
        self._publishes_no_more = threading.Event()
        self._ends = threading.Event()
        self._publisher = threading.Thread(target=self._publish)
        self._consumers = [
            threading.Thread(target=self._consume, args=(index, topic)) for index in (0, 1) for topic in TOPICS
        ]

    def __enter__(self) -> "Clients":
        for thread in (self._publisher, *self._consumers):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._publishes_no_more.set()
        self._ends.set()
        for thread in (self._publisher, *self._consumers):
            thread.join(60)

    def go_on(self) -> None:
        """Wait until messages are published, and consumed, that were not before."""
        published, seen = len(self.acknowledged) + 50, len(self.seen) + 50
        wait_for("more messages", lambda: len(self.acknowledged) > published and len(self.seen) > seen, timeout_s=60)

    def finish(self) -> None:
        """Publish no more, and wait until all that was acknowledged is consumed."""
        self._publishes_no_more.set()
        self._publisher.join(60)
        wait_for("all messages", lambda: set(self.acknowledged) <= set(self.seen), timeout_s=60)

    def _publish(self) -> None:
        numbers, at, topics = count(), 0, list(TOPICS)
        while not self._publishes_no_more.is_set():
            try:
                with NsqSocket(self.servers[at].tcp_port) as client:
                    while not self._publishes_no_more.wait(0.002):
                        number = next(numbers)
                        client.publish(topics[number % 2], b"%d" % number)
                        self.acknowledged.append(b"%d" % number)
            except AWAY:
                at = 1 - at

    def _consume(self, index: int, topic: str) -> None:
        while not self._ends.is_set():
            try:
                with NsqSocket(self.servers[index].tcp_port) as client:
                    client.subscribe(topic, "c", rdy=50)
                    while not self._ends.is_set():
                        message = client.read_message(0.5)
                        self.seen[message.body] += 1
                        client.finish(message)
            except AWAY:
                self._ends.wait(0.05)


def started(kind: type[DaemonProcess], data_path: Path) -> DaemonProcess:
    server = kind(data_path, options=OPTIONS)
    server.start()
    return server


def version_of(server: DaemonProcess) -> str:
    version: str = orjson.loads(server.http("GET", "/info"))["version"]
    return version.removeprefix(f"{NSQD_VERSION}+penstock.")


def test_two_servers_are_upgraded_one_by_one_and_back_and_lose_nothing(tmp_path: Path) -> None:
    servers = [started(DaemonProcess, tmp_path / name) for name in ("first", "second")]
    for server in servers:
        for topic, storage in TOPICS.items():
            server.http("POST", f"/topic/create?topic={topic}&storage={storage}")
            server.http("POST", f"/channel/create?topic={topic}&channel=c")
    clients = Clients(servers)
    with clients:
        clients.go_on()
        for kind, version in ((NextVersion, NEXT_VERSION), (DaemonProcess, VERSION)):
            for index, server in enumerate(list(clients.servers)):
                if index == 0 and kind is DaemonProcess:
                    server.kill9()  # the way back from a version that did not stop well
                else:
                    server.stop()
                clients.go_on()  # on the other one
                clients.servers[index] = started(kind, server.data_path)
                assert version_of(clients.servers[index]) == version
                clients.go_on()
        clients.finish()
        assert {storage for server in clients.servers for storage in storages(server)} == set(TOPICS.values())
    for server in clients.servers:
        server.stop()


def storages(server: DaemonProcess) -> list[str]:
    return [server.topic_stats(topic)["storage"] for topic in TOPICS]
