"""What a server answers while it starts: probes over HTTP from the first moment, NSQ clients once it can serve them.

The start is held at a channel, as one with very many deferred messages holds it, by an event that the test sets.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.topic import Topic
from queue_engine.service.listeners import Listeners
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.start_progress import StartProgress
from tests.support.certificates import Certificates
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.running_engine import RunningEngine
from tests.support.storage_kinds import engine_options
from tests.support.waiting import wait_for

AT_BILLING = "starting: channel orders/billing, 66 %"


class NotedProgress(StartProgress):
    """Every place of a start."""

    def __init__(self) -> None:
        super().__init__()
        self.sentences: list[str] = []

    def at(self, step: str, done: int = 0, total: int = 0) -> None:
        super().at(step, done, total)
        self.sentences.append(self.sentence())


def runner_on(path: Path, **options: str) -> EngineRunner:
    path.mkdir(exist_ok=True)
    addresses = {"tcp_address": "127.0.0.1:0", "http_address": "127.0.0.1:0", "https_address": "127.0.0.1:0"}
    return EngineRunner(engine_options(data_path=str(path), **(addresses | options)))


def with_two_channels(path: Path, **options: str) -> None:
    with RunningEngine(path, **options) as engine, NsqSocket(engine.tcp_port) as client:
        client.publish("orders", b"before")
        for name in ("mail", "billing"):
            engine.http("POST", f"/channel/create?topic=orders&channel={name}")


def port_of(runner: EngineRunner, option: str) -> int:
    port: int = runner.listeners.bound[option][0].getsockname()[1]
    return port


def asked(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@contextmanager
def held_start(runner: EngineRunner, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The start rests at orders/billing until the event is set, which happens at the end at the latest."""
    go_on, open_channel = threading.Event(), Topic.open_channel

    def held(self: Topic, name: str, number: int) -> Channel:
        assert name != "billing" or go_on.wait(60)
        return open_channel(self, name, number)

    monkeypatch.setattr(Topic, "open_channel", held)
    runner.bind()
    thread = threading.Thread(target=runner.start)
    thread.start()
    try:
        wait_for("the held channel", lambda: asked(port_of(runner, "--http-address"), "GET", "/") == (503, AT_BILLING))
        yield go_on
    finally:
        go_on.set()
        thread.join()
        runner.stop()


def test_a_start_answers_probes_and_refuses_nsq_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_two_channels(tmp_path / "data")
    runner = runner_on(tmp_path / "data")
    with held_start(runner, monkeypatch) as go_on:
        http, tcp = port_of(runner, "--http-address"), port_of(runner, "--tcp-address")
        assert asked(http, "GET", "/livez") == (200, "OK")
        assert asked(http, "GET", "/readyz") == (503, AT_BILLING)
        assert asked(http, "GET", "/ping?x=1") == (503, AT_BILLING)
        assert asked(http, "POST", "/pub?topic=orders", bytes(500_000)) == (503, AT_BILLING)
        assert asked(http, "HEAD", "/readyz") == (503, "")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", tcp))
        go_on.set()
        wait_for("the engine", lambda: asked(http, "GET", "/readyz") == (200, "OK"))
        with NsqSocket(runner.tcp_address[1]) as client:
            assert runner.tcp_address[1] == tcp
            client.subscribe("orders", "mail", rdy=1)
            assert client.read_message().body == b"before"


def test_http_is_answered_by_the_engine_once_tcp_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, open_tcp = runner_on(tmp_path / "data"), Listeners.open_tcp
    asking: list[HTTPConnection] = []

    async def open_tcp_and_ask(self: Listeners, make: Callable[[], asyncio.Protocol], unsent_bytes_max: int) -> None:
        await open_tcp(self, make, unsent_bytes_max)
        asking.append(HTTPConnection("127.0.0.1", port_of(runner, "--http-address"), timeout=30))
        asking[0].request("GET", "/ping")
        for _ in range(2):
            runner.probes.release([])  # waits for a round of their thread, which accepts what it may

    monkeypatch.setattr(Listeners, "open_tcp", open_tcp_and_ask)
    runner.bind()
    runner.start()
    try:
        with closing(asking[0]) as connection:
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"OK")
    finally:
        runner.stop()


def test_the_hand_over_loses_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_two_channels(tmp_path / "data")
    runner = runner_on(tmp_path / "data")
    answers: list[tuple[int, str]] = []
    enough = threading.Event()

    def ask_again_and_again(port: int) -> None:
        while not enough.is_set():
            answers.append(asked(port, "GET", "/ping"))

    with held_start(runner, monkeypatch) as go_on:
        port = port_of(runner, "--http-address")
        # It came before the hand-over, and sends its request behind it.
        with socket.create_connection(("127.0.0.1", port)) as early, early.makefile("rb") as answer:
            asking = [threading.Thread(target=ask_again_and_again, args=(port,)) for _ in range(4)]
            for thread in asking:
                thread.start()
            wait_for("answers of the start", lambda: len(answers) > 20)
            go_on.set()
            wait_for("answers of the engine", lambda: answers[-20:].count((200, "OK")) == 20)
            enough.set()
            for thread in asking:
                thread.join()
            early.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer.readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
    assert set(answers) == {(503, AT_BILLING), (200, "OK")}


def test_probes_inside_tls_are_answered_and_another_server_gets_its_sockets(
    tmp_path: Path, certificates: Certificates
) -> None:
    pair = certificates.server
    runner = runner_on(tmp_path / "data", tls_cert=str(pair.certificate), tls_key=str(pair.key))
    runner.bind()
    try:
        sockets = runner.bind_beside("127.0.0.1:0", "--console-address", is_tls=True)
        for port in (port_of(runner, "--https-address"), sockets[0].getsockname()[1]):
            context = certificates.client_context()
            with closing(HTTPSConnection("127.0.0.1", port, timeout=30, context=context)) as connection:
                connection.request("GET", "/livez")
                assert connection.getresponse().read() == b"OK"
        runner.probes.release(sockets)
        with socket.create_connection(sockets[0].getsockname()) as client:
            sockets[0].setblocking(True)
            accepted, address = sockets[0].accept()
            accepted.close()
            assert address == client.getsockname()
        sockets[0].close()
    finally:
        runner.unbind()


@pytest.mark.parametrize("option", ["--tcp-address", "--http-address", "--https-address"])
def test_a_taken_port_is_found_before_anything_is_done(tmp_path: Path, option: str, certificates: Certificates) -> None:
    pair = certificates.server
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        field = option.removeprefix("--").replace("-", "_")
        options = {"tls_cert": str(pair.certificate), "tls_key": str(pair.key), field: address}
        runner = runner_on(tmp_path / "data", **options)
        sentence = (
            f"can't listen on {address}: Address already in use. "
            f"Give another address with {option}, or end the process that listens there"
        )
        with pytest.raises(PenstockError, match=f"^{re.escape(sentence)}$"):
            runner.start()
    assert list((tmp_path / "data").iterdir()) == []
    runner_on(tmp_path / "data").bind()  # nothing is held


def test_a_start_says_which_step_it_is_at(tmp_path: Path) -> None:
    with_two_channels(tmp_path / "data", storage="log")
    for name in ("checkpoint", "none"):
        runner = runner_on(tmp_path / "data")
        progress = runner.start_progress = NotedProgress()
        runner.start()
        runner.stop()
        assert progress.sentences[-3:] == [
            "topic orders, 0 %",
            "channel orders/mail, 33 %",
            "channel orders/billing, 66 %",
        ]
        assert "reading the progress of channels" in progress.sentences
        if name == "checkpoint":
            assert "consume queue of topic orders, 0 %" in progress.sentences
            (tmp_path / "data" / "log" / "checkpoint").unlink()
        else:
            assert any(re.fullmatch("reading the log, [0-9]+ %", one) for one in progress.sentences)
