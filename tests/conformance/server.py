"""The server that a conversation is held with: ours, or a real nsqd where the environment names one.

    NSQD=/usr/local/bin/nsqd .venv/bin/python -m pytest tests/conformance

Options are nsqd's flags by their names without dashes: `{"max-msg-size": "100"}`. A conversation uses what both servers
have: the two ports, and topics of a name that no other test uses.
"""

import os
import re
import shlex
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from queue_engine.vocabulary.options.option import flag_of
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.options.parsing import parse_option
from tests.support.nsq_socket import DEFAULT_TIMEOUT_S, NsqSocket
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

NSQD = os.environ.get("NSQD", "")

_numbers = count(1)


@dataclass(frozen=True)
class HttpAnswer:
    """headers: names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class NsqServer:
    """Two ports on loopback."""

    def __init__(self, tcp_port: int, http_port: int) -> None:
        self.tcp_port = tcp_port
        self.http_port = http_port
        self._clients: list[NsqSocket] = []

    def client(self, *, magic: bytes = b"  V2") -> NsqSocket:
        """A connection to the TCP port, closed after the test."""
        client = NsqSocket(self.tcp_port, magic=magic)
        self._clients.append(client)
        return client

    def close_clients(self) -> None:
        while self._clients:
            self._clients.pop().close()

    def http(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """One request on a connection of its own. Redirects are not followed."""
        connection = HTTPConnection("127.0.0.1", self.http_port, timeout=DEFAULT_TIMEOUT_S)
        try:
            connection.request(method, target, body, dict(headers or {}))
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return HttpAnswer(answer.status, names, answer.read())
        finally:
            connection.close()

    def raw_http(self, sent: bytes, *, ends: bool = True) -> bytes:
        """All that the server answers to these bytes until it closes. ends: shut the writing side down behind them."""
        with socket.create_connection(("127.0.0.1", self.http_port), timeout=DEFAULT_TIMEOUT_S) as connection:
            connection.sendall(sent)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while data := connection.recv(1 << 16):
                    answer += data
            except ConnectionResetError:
                pass  # the server did not read all that was sent
            return answer

    def stats(self, query: str = "") -> Any:
        """`/stats?format=json&…`, decoded."""
        return self.http("GET", f"/stats?format=json&{query}").json

    def topic(self, topic: str) -> Any:
        """One topic of /stats."""
        [found] = self.stats(f"topic={topic}")["topics"]
        return found

    def channel(self, topic: str, channel: str) -> Any:
        """One channel of /stats."""
        return next(one for one in self.topic(topic)["channels"] if one["channel_name"] == channel)


def new_name(what: str = "topic") -> str:
    """A name that no other test uses."""
    return f"{what}-{os.getpid()}-{next(_numbers)}"


@contextmanager
def running(flags: Mapping[str, str], data_path: Path) -> Iterator[NsqServer]:
    """A server with these flags, and its clients, until the block ends."""
    with _real(flags, data_path) if NSQD else _ours(flags, data_path) as server:
        try:
            yield server
        finally:
            server.close_clients()


@contextmanager
def _ours(flags: Mapping[str, str], data_path: Path) -> Iterator[NsqServer]:
    names = {flag_of(spec.name).removeprefix("--"): spec.name for spec in fields(Options)}
    options = {names[flag]: parse_option(names[flag], text) for flag, text in flags.items()}
    with RunningEngine(data_path, **options) as engine:
        yield NsqServer(engine.tcp_port, engine.http_port)


@contextmanager
def _real(flags: Mapping[str, str], data_path: Path) -> Iterator[NsqServer]:
    data_path.mkdir(parents=True, exist_ok=True)
    places = {"tcp-address": "127.0.0.1:0", "http-address": "127.0.0.1:0", "data-path": str(data_path)}
    with real_process(NSQD, {**places, **flags}) as (tcp_port, http_port):
        yield NsqServer(tcp_port, http_port)


@contextmanager
def real_process(program: str, flags: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """The TCP and HTTP ports of nsqd or nsqlookupd with these flags, until the block ends."""
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([*shlex.split(program), *arguments], stdout=log, stderr=log)

        def ports() -> tuple[int, int] | None:
            assert process.poll() is None, "the server has ended"
            log.seek(0)
            found = dict(re.findall(rb"(TCP|HTTP): listening on .*:([0-9]+)", log.read()))
            return (int(found[b"TCP"]), int(found[b"HTTP"])) if len(found) == 2 else None

        try:
            listening = wait_for("the server to listen", ports)
            assert listening is not None
            yield listening
        finally:
            process.terminate()
            process.wait(DEFAULT_TIMEOUT_S)
