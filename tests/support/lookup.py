"""nsqlookupd's core on a clock of the test's own, and a peer that speaks TCP V1 to it."""

import json
import struct
from typing import Any

import orjson

from queue_engine.lookup.http import LookupHttp
from queue_engine.lookup.options import LookupOptions
from queue_engine.lookup.registrations import Registrations
from queue_engine.lookup.session import LookupSession
from queue_engine.service.http.exchange.handler import BodyLimit
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Response
from tests.support.clock import ManualClock
from tests.support.nsq_socket import sized

IDENTITY = {
    "broadcast_address": "node-1",
    "hostname": "node-1.example",
    "tcp_port": 4150,
    "http_port": 4151,
    "version": "1.3.0",
}


def replies_of(data: bytes) -> list[bytes]:
    """The replies in what nsqlookupd sent."""
    replies = []
    while data:
        (size,) = struct.unpack_from(">i", data)
        replies.append(data[4 : 4 + size])
        data = data[4 + size :]
    return replies


class LookupPeer:
    """A peer of a `LookupSession`."""

    def __init__(self, lookup: "Lookup", remote_address: str) -> None:
        self.session = LookupSession(
            lookup.registrations,
            lookup.clock,
            remote_address,
            lambda: {"version": "x", "tcp_port": 4160, "http_port": 4161, "broadcast_address": "l", "hostname": "l"},
            silence_ms=600_000,
        )
        assert self.send(b"  V1") == []

    def send(self, data: bytes) -> list[bytes]:
        """The replies to these bytes."""
        return replies_of(self.session.receive(data))

    def command(self, line: str) -> str:
        (reply,) = self.send(line.encode() + b"\n")
        return reply.decode()

    def identify(self, **fields: Any) -> "LookupPeer":
        (reply,) = self.send(b"IDENTIFY\n" + sized(json.dumps({**IDENTITY, **fields}).encode()))
        assert json.loads(reply)["http_port"] == 4161
        return self


class Lookup:
    """Registrations, and the HTTP API over them, without sockets."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        given = LookupOptions(**options)
        given.validate()
        self.registrations = Registrations(
            self.clock,
            inactive_ms=given.inactive_producer_timeout_ms,
            tombstone_ms=given.tombstone_lifetime_ms,
            entries_max=given.max_registrations,
        )
        self.http = LookupHttp(self.registrations, self.clock, given)
        self._ports = iter(range(50_000, 60_000))

    def peer(self) -> LookupPeer:
        """A new connection."""
        return LookupPeer(self, f"10.0.0.1:{next(self._ports)}")

    def response(self, method: str, target: str, headers: dict[str, str] | None = None) -> Response:
        path, _, raw_query = target.partition("?")
        given = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        head = RequestHead(method, path, raw_query, b"lookup:4161", given, 0, "10.0.0.9:1", "10.0.0.1")
        begun = self.http.begin(head)
        if not isinstance(begun, BodyLimit):
            return begun
        answers: list[Response] = []
        self.http.finish(head, b"", answers.append)
        (answer,) = answers
        return answer

    def get(self, target: str) -> Any:
        """The JSON of a GET that is answered 200."""
        response = self.response("GET", target)
        assert response.status == 200, response
        return orjson.loads(response.body)

    def post(self, target: str) -> None:
        """A POST that is answered 200 with an empty body."""
        response = self.response("POST", target)
        assert (response.status, response.body) == (200, b""), response

    def error(self, method: str, target: str) -> tuple[int, str]:
        """Status and code of an error."""
        response = self.response(method, target)
        document = orjson.loads(response.body)
        assert set(document) == {"message"}
        return response.status, document["message"]

    def producers(self, topic: str) -> list[str]:
        """The broadcast addresses that /lookup names."""
        return [one["broadcast_address"] for one in self.get(f"/lookup?topic={topic}")["producers"]]
