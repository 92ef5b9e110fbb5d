"""kill -9 of the real server while clients make deleted names anew at once: a restore brings back exactly what was."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support import disk_files
from tests.support.nsq_socket import NsqSocket, mpub_body, sized
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

tmp_path_factory = disk_files.tmp_path_factory

pytestmark = [pytest.mark.slow(reason="kills real servers"), pytest.mark.timeout(300)]

COUNT = 300


class Consumer:
    """Subscribes to orders/billing, finishes all it gets, and comes again when it is disconnected, as clients do."""

    def __init__(self, port: int) -> None:
        self.bodies: list[bytes] = []
        self.is_over = False
        self._port = port
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self.is_over:
            try:
                with NsqSocket(self._port) as client:
                    client.subscribe("orders", "billing", rdy=100)
                    while not self.is_over:
                        message = client.read_message(timeout_s=0.2)
                        client.finish(message)
                        self.bodies.append(message.body)
            except (OSError, AssertionError, EOFError, ValueError):
                continue  # disconnected, or nothing came for a while

    def stop(self) -> None:
        self.is_over = True
        self._thread.join(30)
        assert not self._thread.is_alive()


def publish(server: ServerProcess, bodies: list[bytes]) -> None:
    with NsqSocket(server.tcp_port) as client:
        client.send(b"MPUB orders\n" + sized(mpub_body(bodies)))
        client.expect_ok()


def drained(server: ServerProcess, topic: str, count: int) -> dict[bytes, int]:
    """Body → attempts of what waits in the channel billing, which is finished."""
    found: dict[bytes, int] = {}
    with NsqSocket(server.tcp_port) as client:
        client.subscribe(topic, "billing", rdy=2_500)
        for _ in range(count):
            message = client.read_message(timeout_s=30)
            assert message.body not in found
            found[message.body] = message.attempts
            client.finish(message)
        client.send(b"CLS\n")
        assert client.read_response() == b"CLOSE_WAIT"
    return found


@pytest.mark.parametrize(
    "act",
    [
        "/channel/delete?topic=orders&channel=billing",
        "/topic/delete?topic=orders",
    ],
)
def test_what_an_act_removed_comes_back_after_kills(tmp_path: Path, act: str) -> None:
    bodies = [b"%d" % number for number in range(COUNT)]
    with EngineProcess(tmp_path / "data", options=["--sync=always"]) as server:
        for path in ("/topic/create?topic=orders", "/channel/create?topic=orders&channel=billing"):
            server.http("POST", path)
        publish(server, bodies)
        attempts = dict.fromkeys(bodies, 1)
        with NsqSocket(server.tcp_port) as client:
            client.subscribe("orders", "billing", rdy=50)
            messages = [client.read_message(timeout_s=30) for _ in range(50)]
            client.send(b"RDY 0\n")
            for index, message in enumerate(messages):
                if index < 20:
                    client.finish(message)
                    del attempts[message.body]
                else:
                    attempts[message.body] = 2
            client.send(b"CLS\n")
            assert client.read_response() == b"CLOSE_WAIT"
            server.http("POST", act)
        server.kill9()
        server.start()
        consumer = Consumer(server.tcp_port)
        publish(server, [b"new"])
        wait_for("the new message to be finished", lambda: b"new" in consumer.bodies)
        wait_for("the server to know that", lambda: not _held(server))
        consumer.stop()
        assert consumer.bodies == [b"new"]
        (entry,) = _entries(server)
        answer = server.http("POST", f"/trash/restore?id={entry['id']}")
        server.kill9()
        server.start()
        assert _entries(server) == []
        topic = "orders.restored" if act.startswith("/topic/") else "orders"
        assert int(server.channel_stats(topic, "billing")["depth"]) == len(attempts), answer
        assert drained(server, topic, len(attempts)) == attempts


def _held(server: ServerProcess) -> int:
    stats = server.channel_stats("orders", "billing")
    return int(stats["depth"]) + int(stats["in_flight_count"])


def _entries(server: ServerProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(server.http("GET", "/trash"))["entries"]
    return found
