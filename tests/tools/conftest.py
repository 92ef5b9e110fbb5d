"""Running engines, and what the tools need to reach them."""

import json
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from queue_engine.client.nodes import Node
from queue_engine.client.tools.connecting import Connecting
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.running_lookup import RunningLookup


@pytest.fixture
def start_engine(tmp_path: Path) -> Iterator[Callable[..., RunningEngine]]:
    """Starts engines, each in a directory of its own unless `name` says which; they end with the test."""
    with ExitStack() as stack:
        count = 0

        def start(name: str = "", **options: Any) -> RunningEngine:
            nonlocal count
            count += 1
            return stack.enter_context(RunningEngine(tmp_path / (name or f"engine-{count}"), **options))

        yield start


@pytest.fixture
def engine(start_engine: Callable[..., RunningEngine]) -> RunningEngine:
    return start_engine()


def node_of(engine: RunningEngine) -> Node:
    return Node("127.0.0.1", engine.tcp_port)


def connecting_to(*engines: RunningEngine) -> Connecting:
    return Connecting(nodes=tuple(map(node_of, engines)), poll_s=0.1)


@pytest.fixture
def lookup() -> Iterator[RunningLookup]:
    with RunningLookup() as running:
        yield running


@contextmanager
def registered(lookup: RunningLookup, engine: RunningEngine, *topics: str) -> Iterator[Callable[[str], None]]:
    """Register the engine's topics as nsqd does, until the end; yields what registers another topic."""
    with socket.create_connection(("127.0.0.1", lookup.tcp_port), timeout=30) as connection:

        def request(command: bytes) -> None:
            connection.sendall(command)
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            answer = _exactly(connection, size)
            assert not answer.startswith(b"E_"), answer

        who = {
            "broadcast_address": "127.0.0.1",
            "hostname": "h",
            "tcp_port": engine.tcp_port,
            "http_port": engine.http_port,
            "version": "1",
        }
        body = json.dumps(who).encode()
        request(b"  V1IDENTIFY\n" + struct.pack(">i", len(body)) + body)

        def register(topic: str) -> None:
            request(b"REGISTER " + topic.encode() + b"\n")

        for topic in topics:
            register(topic)
        yield register


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        assert piece, "the nsqlookupd closed the connection"
        data += piece
    return data
