"""The nsqlookupd that a conversation is held with: ours, or a real one that the environment names as NSQLOOKUPD."""

import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conformance.server import NsqServer, real_process
from tests.support.nsq_socket import DEFAULT_TIMEOUT_S, sized
from tests.support.processes.running_lookup import RunningLookup

NSQLOOKUPD = os.environ.get("NSQLOOKUPD", "")


class LookupServer(NsqServer):
    """Its two ports. What is of topics alone is nsqd's, and not to be used."""

    def peer(self) -> "Peer":
        return Peer(self.tcp_port)


class Peer:
    """One connection of TCP V1. Use as a context."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEFAULT_TIMEOUT_S)
        self._stream = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def reply(self) -> bytes:
        """Raises EOFError when the connection is closed."""
        head = self._stream.read(4)
        if len(head) < 4:
            raise EOFError
        return self._stream.read(struct.unpack(">i", head)[0])

    def command(self, line: str) -> bytes:
        self.send(line.encode() + b"\n")
        return self.reply()

    def identify(self, name: str) -> Any:
        """As a node of this broadcast address; the decoded answer."""
        identity = {
            "broadcast_address": name,
            "hostname": name,
            "tcp_port": 4150,
            "http_port": 4151,
            "version": "1.3.0",
        }
        self.send(b"  V1IDENTIFY\n" + sized(json.dumps(identity).encode()))
        return json.loads(self.reply())

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()


@contextmanager
def running_lookup() -> Iterator[LookupServer]:
    if NSQLOOKUPD:
        places = {"tcp-address": "127.0.0.1:0", "http-address": "127.0.0.1:0"}
        with real_process(NSQLOOKUPD, places) as (tcp_port, http_port):
            yield LookupServer(tcp_port, http_port)
    else:
        with RunningLookup() as lookup:
            yield LookupServer(lookup.tcp_port, lookup.http_port)
