"""Under `ulimit -n 256`: a thousand topics, or three hundred clients; descriptors are shared, nothing is lost."""

import http.client
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from queue_engine.vocabulary.descriptor_shares import DescriptorShares
from tests.support.nsq_socket import NsqSocket, sized
from tests.support.processes.engine_process import DESCRIPTORS_VARIABLE, EngineProcess
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts real servers")

TOPICS = 1_000
DESCRIPTORS = 256


def test_a_thousand_topics_work_with_few_descriptors(tmp_path: Path) -> None:
    options = ["--mem-queue-size=0", "--log-segment-bytes=1048576", "--max-body-size=65536"]
    environment = {DESCRIPTORS_VARIABLE: str(DESCRIPTORS)}
    options.append("--max-msg-size=65536")
    with EngineProcess(tmp_path / "data", options=options, environment=environment) as server:
        with NsqSocket(server.tcp_port) as client:
            for turn in range(3):
                for number in range(TOPICS):
                    client.send(b"PUB t%d\n" % number + sized(b"%d.%d" % (turn, number) + b"x" * 2_000))
                for _ in range(TOPICS):
                    client.expect_ok()
        assert sum(topic["depth"] for topic in server.stats()["topics"]) == 3 * TOPICS
        server.kill9()
        server.start()
        assert server.http("GET", "/ping") == b"OK"
        assert sum(topic["depth"] for topic in server.stats()["topics"]) == 3 * TOPICS
        for number in range(0, TOPICS, 50):
            with NsqSocket(server.tcp_port) as client:
                client.subscribe(f"t{number}", "c", rdy=10)
                messages = [client.read_message() for _ in range(3)]
                assert [message.body.split(b"x")[0] for message in messages] == [
                    b"%d.%d" % (turn, number) for turn in range(3)
                ]
                for message in messages:
                    client.finish(message)


CLIENTS = 300


@contextmanager
def clients_of(server: ServerProcess, count: int) -> Iterator[list[NsqSocket]]:
    """So many connections, and of them those that are served."""
    served: list[NsqSocket] = []
    with ExitStack() as opened:
        for _ in range(count):
            try:
                client = opened.enter_context(NsqSocket(server.tcp_port))
                client.send(b"PUB t\n" + sized(b"x"))
                client.expect_ok()
            except (OSError, EOFError, AssertionError):
                continue
            served.append(client)
        yield served


def of_one_address(connections_max: int) -> int:
    """Connections that one address has at most: as long as it holds no more than three times what is free."""
    return (3 * connections_max + 3) // 4


def console_status(server: ServerProcess) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.console_port, timeout=60)
    try:
        connection.request("GET", "/login/")
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_three_hundred_clients_leave_descriptors_for_the_console_and_the_http_api(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", descriptors=(DESCRIPTORS, DESCRIPTORS)) as server:
        shares = DescriptorShares.of(DESCRIPTORS, 10_000)
        began_s = time.monotonic()
        wait_for("the shares in the log", lambda: f"{shares.clients} connections are for NSQ clients" in server.log)
        with clients_of(server, CLIENTS) as served, ExitStack() as idle:
            for _ in range(shares.http + 5):
                connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
                idle.callback(connection.close)
                connection.request("GET", "/ping")
                assert connection.getresponse().read() == b"OK"
            for _ in range(5):
                assert server.http("GET", "/ping") == b"OK"
                assert b"penstock" in server.http("GET", "/metrics")
                assert console_status(server) == 200
            assert len(served) == of_one_address(shares.clients)
            refusals = wait_for(
                "the refusals in the log", lambda: re.findall(r"connections of NSQ clients refused", server.log)
            )
            assert len(refusals) <= 1 + (time.monotonic() - began_s) / 60, "a line a minute at most"
            for client in served:
                client.expect_open()
        assert server.topic_stats("t")["message_count"] >= of_one_address(shares.clients)
    assert "Traceback" not in server.log
    assert "Too many open files" not in server.log


def test_four_hundred_idle_connections_to_the_console_leave_the_queue_its_descriptors(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", descriptors=(400, 400)) as server, ExitStack() as held:
        for _ in range(400):
            held.enter_context(socket.create_connection(("127.0.0.1", server.console_port), timeout=60))
        with clients_of(server, 50) as served:
            assert len(served) == 50
            assert server.http("GET", "/ping") == b"OK"
    assert "connections of the console refused" in server.log
    assert "Too many open files" not in server.log


def test_the_soft_limit_is_raised_at_the_start(tmp_path: Path) -> None:
    limits = (DESCRIPTORS, 4_096)
    with ServerProcess(tmp_path / "data", descriptors=limits) as server, clients_of(server, CLIENTS) as served:
        assert len(served) == CLIENTS
        assert console_status(server) == 200
