"""nsqlookupd's HTTP API: the registrations, and acts on them.

An error is `{"message": "CODE"}` with nsqlookupd's code. Web pages of other origins are refused, as by the engine.
"""

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

import orjson

from queue_engine.lookup.options import LookupOptions
from queue_engine.lookup.registrations import PeerInfo, Registrations, TooManyRegistrationsError
from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.admission.refused_connections import RefusedConnections
from queue_engine.service.http.exchange.connection import ConnectionLimits, HttpConnection, connection_pool
from queue_engine.service.http.exchange.handler import BodyLimit
from queue_engine.service.http.exchange.paced_steps import PacedSteps
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response, error_response, internal_error
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.vocabulary.client_key import ClientKey
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.names import is_valid_name
from queue_engine.vocabulary.version import NSQ_VERSION

BODY_BYTES_MAX = 64 << 10  # no path reads one
PENDING_BODY_BYTES_MAX = 16 << 20
# Answers about all registrations that are being made, or wait for each other. Clients that left are among them.
LONG_ANSWERS_MAX = 64
_STEP_ROWS = 32
_STEPS_SHARE = 0.5  # of the loop's time, while all is listed
LIMITS = ConnectionLimits(idle_timeout_ms=60_000, read_timeout_ms=10_000, write_timeout_ms=30_000)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


class _RefusedError(Exception):
    """Ends a request with an error answer. Its arguments: the status and nsqlookupd's code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    # Takes the query. Its result becomes JSON, None an empty answer; a generator makes the JSON in steps.
    handle: Callable[[dict[str, str]], Any]


class LookupHttp:
    """Handles the requests (`RequestHandler`). Give `protocol_factory` to `loop.create_server`."""

    def __init__(self, registrations: Registrations, clock: Clock, options: LookupOptions) -> None:
        self._registrations = registrations
        self._connections = connection_pool(RefusedConnections("http", options.max_connections, clock))
        self.bodies = PendingBodies(PENDING_BODY_BYTES_MAX, LIMITS.read_timeout_ms)
        self._steps = PacedSteps(_STEPS_SHARE, now_ns=clock.monotonic_ns, cpu_ns=clock.monotonic_ns)
        self._routes = {
            "/ping": _Route("GET", lambda query: b"OK"),
            "/info": _Route("GET", lambda query: {"version": NSQ_VERSION}),
            "/topics": _Route("GET", lambda query: self._topics()),
            "/channels": _Route("GET", lambda query: {"channels": registrations.channels(_topic_given(query))}),
            "/lookup": _Route("GET", self._lookup),
            "/nodes": _Route("GET", lambda query: self._nodes()),
            "/debug": _Route("GET", lambda query: self._debug()),
            "/topic/create": _Route("POST", self._create_topic),
            "/topic/delete": _Route("POST", lambda query: registrations.delete_topic(_topic_given(query))),
            "/topic/tombstone": _Route("POST", self._tombstone),
            "/channel/create": _Route("POST", self._create_channel),
            "/channel/delete": _Route("POST", self._delete_channel),
        }

    def protocol_factory(self) -> HttpConnection:
        return HttpConnection(self, LIMITS, self._connections, self.bodies)

    def close_connections(self) -> None:
        """Close every connection: now, or after its pending answer."""
        for connection in self._connections:
            connection.close_when_idle()

    # RequestHandler: called by connections.

    def begin(self, head: RequestHead) -> BodyLimit | Response:
        if _is_from_a_web_page(head):
            return error_response(403, "FORBIDDEN_ORIGIN")
        route = self._routes.get(head.path)
        if route is None:
            return error_response(404, "NOT_FOUND")
        if head.method != route.method:
            return error_response(405, "METHOD_NOT_ALLOWED")
        return BodyLimit(BODY_BYTES_MAX, lambda: error_response(413, "BODY_TOO_BIG"))

    def is_nsqd_path(self, head: RequestHead) -> bool:
        return True

    def connection_key(self, peer: str) -> ClientKey:
        return ClientKey.of(peer)

    def client_of(self, head: RequestHead) -> ClientKey:
        return ClientKey.of(head.remote_ip)

    def body_refused(self, head: RequestHead, *, is_crowded: bool) -> None:
        pass

    def finish(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        try:
            result = self._routes[head.path].handle(parse_query(head.raw_query))
        except _RefusedError as refused:
            answer(error_response(refused.status, refused.code))
            return
        except TooManyRegistrationsError as exc:
            answer(error_response(403, "LIMIT_REACHED", str(exc)))
            return
        if isinstance(result, Generator):
            if len(self._steps) >= LONG_ANSWERS_MAX:
                detail = f"{len(self._steps)} such requests are being answered and that is the most: try again"
                answer(error_response(503, "BUSY", detail))
                return
            self._steps.add(result, lambda body: answer(Response(200, body, JSON)), lambda: answer(internal_error()))
        elif head.path == "/ping":
            answer(Response(200, result, nsq_version=False))
        else:
            answer(Response(200, b"") if result is None else Response(200, orjson.dumps(result), JSON))

    # Reading.

    def _lookup(self, query: dict[str, str]) -> dict[str, Any]:
        topic = _topic_given(query)
        if not self._registrations.has_topic(topic):
            raise _RefusedError(404, "TOPIC_NOT_FOUND")
        producers = [_fields_of(info) for info in self._registrations.producers(topic)]
        return {"channels": self._registrations.channels(topic), "producers": producers}

    def _topics(self) -> Generator[None, None, bytes]:
        return orjson.dumps({"topics": (yield from self._registrations.topics_in_steps())})

    def _nodes(self) -> Generator[None, None, bytes]:
        parts: list[bytes] = []
        for info, topics in (yield from self._registrations.nodes_in_steps()):
            fields = {
                **_fields_of(info),
                "tombstones": [one.is_tombstoned for one in topics],
                "topics": [one.topic for one in topics],
            }
            parts.append(orjson.dumps(fields))
            yield
        return b'{"producers":[%b]}' % b",".join(parts)

    def _debug(self) -> Generator[None, None, bytes]:
        parts: list[bytes] = []
        key = ""
        for row in self._registrations.debug_rows():
            if row is None:
                yield
                continue
            fields = _fields_of(row.peer.info)
            fields["id"] = fields.pop("remote_address")
            fields["last_update"] = row.peer.heard_at_ns
            fields["tombstoned"] = row.tombstoned_at_ns is not None
            fields["tombstoned_at"] = row.tombstoned_at_ns or 0
            before, key = key, f"{row.category}:{row.topic}:{row.channel}"
            if key == before:
                parts.append(b"," + orjson.dumps(fields))
            else:
                parts.append(b"%b%b:[%b" % (b"]," if before else b"", orjson.dumps(key), orjson.dumps(fields)))
            if len(parts) % _STEP_ROWS == 0:
                yield
        return b"{%b%b}" % (b"".join(parts), b"]" if parts else b"")

    # Acts.

    def _create_topic(self, query: dict[str, str]) -> None:
        topic = _topic_given(query)
        if not is_valid_name(topic):
            raise _RefusedError(400, "INVALID_ARG_TOPIC")
        self._registrations.create_topic(topic)

    def _create_channel(self, query: dict[str, str]) -> None:
        self._registrations.create_channel(*_topic_and_channel_of(query))

    def _delete_channel(self, query: dict[str, str]) -> None:
        if not self._registrations.delete_channel(*_topic_and_channel_of(query)):
            raise _RefusedError(404, "CHANNEL_NOT_FOUND")

    def _tombstone(self, query: dict[str, str]) -> None:
        topic = _topic_given(query)
        if "node" not in query:
            raise _RefusedError(400, "MISSING_ARG_NODE")
        self._registrations.tombstone(topic, query["node"])


def parse_query(raw: str) -> dict[str, str]:
    """The first value of each parameter. Raises _RefusedError for a bad escape or a semicolon, as Go's parser does."""
    query: dict[str, str] = {}
    for part in raw.split("&"):
        if ";" in part or _BAD_ESCAPE.search(part):
            raise _RefusedError(400, "INVALID_REQUEST")
        if part:
            name, _, value = part.partition("=")
            query.setdefault(unquote_plus(name, errors="replace"), unquote_plus(value, errors="replace"))
    return query


def _topic_given(query: dict[str, str]) -> str:
    if "topic" not in query:
        raise _RefusedError(400, "MISSING_ARG_TOPIC")
    return query["topic"]


def _topic_and_channel_of(query: dict[str, str]) -> tuple[str, str]:
    topic = _topic_given(query)
    if not is_valid_name(topic):
        raise _RefusedError(400, "INVALID_ARG_TOPIC")
    if "channel" not in query:
        raise _RefusedError(400, "MISSING_ARG_CHANNEL")
    if not is_valid_name(query["channel"]):
        raise _RefusedError(400, "INVALID_ARG_CHANNEL")
    return topic, query["channel"]


def _fields_of(info: PeerInfo) -> dict[str, Any]:
    return {
        "remote_address": info.remote_address,
        "hostname": info.hostname,
        "broadcast_address": info.broadcast_address,
        "tcp_port": info.tcp_port,
        "http_port": info.http_port,
        "version": info.version,
        "topology_zone": info.topology_zone,
        "topology_region": info.topology_region,
    }


def _is_from_a_web_page(head: RequestHead) -> bool:
    """Whether a browser marks the request as sent by a page of another origin. Any Host is served, as nsqlookupd does:
    in containers it has names that no option lists."""
    origin, host = head.header(b"origin"), head.host or b""
    if origin is not None and origin.partition(b"://")[2].lower() != host.lower():
        return True
    return head.header(b"sec-fetch-site") not in (None, b"same-origin", b"none")
