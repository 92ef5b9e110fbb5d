"""Each error that the OpenAPI document states comes, on each path that it states it for, from a real request."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from queue_engine.engine.messages import message_search
from queue_engine.service.http.exchange.connection import HttpConnection
from queue_engine.service.http.reference import errors
from queue_engine.service.http.reference.endpoints import ENDPOINTS
from queue_engine.service.http.rules import PATHS, Rule
from queue_engine.vocabulary.errors import OutcomeUnknownError, StorageError
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from queue_engine.vocabulary.permission import Permission
from tests.service.http.good_requests import BATCH_KEY, BODIES, GoodRequests, prepared
from tests.service.http.server import Answer, Server, http_server
from tests.support.engine import settle
from tests.support.waiting import wait_for_async

ErrorKey = tuple[int, str]
TOKEN = "secret"


def _documented() -> dict[ErrorKey, list[str]]:
    """Status and word of each error → the paths that have it."""
    found: dict[ErrorKey, list[str]] = {}
    for path, endpoint in ENDPOINTS.items():
        for error in errors.of_path(endpoint, needs_token=PATHS[path].rule is not Rule.OPEN):
            paths = found.setdefault((error.status, error.word), [])
            if path not in paths:
                paths.append(path)
    return found


DOCUMENTED = _documented()

# Sends a request of a path that has to get the error.
Cause = Callable[[Server, GoodRequests, pytest.MonkeyPatch, str], Awaitable[Answer]]
CAUSES: dict[ErrorKey, Cause] = {}
# What the server needs for it, beside the default.
OPTIONS: dict[ErrorKey, dict[str, Any]] = {
    (404, "NOT_FOUND"): {"debug_endpoints": False},
    (403, "TOKEN_REQUIRED"): {"http_token": TOKEN},
    (403, "LIMIT_REACHED"): {"max_topics": 2, "max_channels_per_topic": 2},
    (429, "QUOTA_EXCEEDED"): {"publish_quota": ("*=1",)},
    (413, "MSG_TOO_BIG"): {"max_msg_size": 100},
    (413, "BAD_MESSAGE"): {"max_msg_size": 100},
    (503, "BUSY"): {"max_pending_body_bytes": 1},
    (503, "TOO_MANY_CONNECTIONS"): {"max_connections": 1},
}
# The limits would refuse the preparations, too.
WITHOUT_TOPICS = {(429, "QUOTA_EXCEEDED"), (503, "BUSY"), (503, "TOO_MANY_CONNECTIONS")}


def causes(status: int, word: str) -> Callable[[Cause], Cause]:
    def noted(cause: Cause) -> Cause:
        CAUSES[status, word] = cause
        return cause

    return noted


class Gate:
    """Stores rows about acts until the test says that there is no room."""

    has_room = True

    def begin(self, record: Any, then: Callable[[bool], None]) -> None:
        then(self.has_room)


def test_each_documented_error_has_a_cause_here() -> None:
    assert CAUSES.keys() == DOCUMENTED.keys()


@pytest.mark.parametrize("error", DOCUMENTED, ids=lambda error: f"{error[0]}-{error[1]}")
async def test_each_documented_error_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ErrorKey) -> None:
    async with _server(tmp_path, error) as server:
        good = GoodRequests(server, "") if error in WITHOUT_TOPICS else await prepared(server)
        for path in DOCUMENTED[error]:
            with monkeypatch.context() as patch:
                answer = await CAUSES[error](server, good, patch, path)
            assert (answer.status, answer.message) == error, path


def _server(tmp_path: Path, error: ErrorKey) -> AbstractAsyncContextManager[Server]:
    options = {"debug_endpoints": True, **OPTIONS.get(error, {})}
    return http_server(tmp_path, gate=Gate() if error == (503, "NOT_AUDITED") else None, **options)


async def test_each_finer_code_comes(tmp_path: Path) -> None:
    documented = {code for endpoint in ENDPOINTS.values() for error in endpoint.errors for code in error.codes}
    options = {"log_segment_bytes": 1 << 16, "max_body_size": 1 << 12, "max_msg_size": 1 << 12, "trash_max_bytes": 1}
    async with http_server(tmp_path, **options) as server:
        good = await prepared(server)
        for _ in range(40):
            await good.send("/pub", body=b"x" * 4_000)
        beyond = await good.send("/log/read", offset="99")
        for path in ("/cursor/delete", "/log/release", "/topic/empty", "/channel/empty"):
            assert (await good.send(path)).status == 200
        for _ in range(6):
            server.clock.advance(ms=2_000)
            server.engine.tick()
            settle(server.engine)
        gone = await good.send("/log/lease", offset="0")
    assert {answer.code for answer in (beyond, gone)} == documented


# Of all paths.


async def _raw(server: Server, sent: bytes) -> Answer:
    """The answer to bytes on a connection of their own."""
    socket = await server.connect()
    await socket.send(sent)
    answer = await socket.read_answer()
    socket.close()
    return answer


def _head(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{PATHS[path].method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def raw_cause(status: int, word: str, *lines: str) -> None:
    """An error that a request with these header lines gets, whatever its path is."""

    async def cause(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
        return await _raw(server, _head(path, *lines))

    CAUSES[status, word] = cause


raw_cause(403, "FORBIDDEN_ORIGIN", "Origin: https://evil.example")
raw_cause(413, "BODY_TOO_BIG", "Content-Length: 999999999999")


@causes(403, "FORBIDDEN_HOST")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path, headers={"Host": "evil.example"})


@causes(403, "TOKEN_REQUIRED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path)


@causes(403, "NOT_ALLOWED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    others = set(Permission) - {PATHS[path].permission}
    return await good.send(path, headers=server.new_token(*others))


@causes(405, "METHOD_NOT_ALLOWED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await server.request("GET" if PATHS[path].method == "POST" else "POST", good.target(path))


@causes(408, "REQUEST_TIMEOUT")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    socket = await server.connect()
    await socket.send(_head(path)[:-2])

    def waiting() -> list[HttpConnection]:
        return [one for one in server.api._connections if one._http.trailing_data[0] and not one._is_discarding]

    await wait_for_async("half a head to come", waiting)
    (connection,) = waiting()
    connection._reading_took_too_long()  # as the timer does
    return await socket.read_answer()


@causes(500, "INTERNAL_ERROR")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    patch.setitem(server.api._handlers, path, _fail)
    return await good.send(path)


def _fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


@causes(400, "INVALID_REQUEST")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await server.request(PATHS[path].method, f"{path}?a=%zz", BODIES.get(path, b""))


@causes(503, "BUSY")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    if not server.sockets:
        for _ in range(2):
            await (await server.connect()).send(_head("/pub", "Content-Length: 1000") + b"x")
        await wait_for_async("the budget to be crowded", lambda: server.api._bodies.is_crowded)
    return await _raw(server, _head(path, "Content-Length: 100000"))


@causes(503, "TOO_MANY_CONNECTIONS")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    if not server.sockets:
        await (await server.connect()).send(b"GET")
        await wait_for_async("a busy connection", lambda: server.api.connection_count == 1)
    return await _raw(server, _head(path))


@causes(404, "NOT_FOUND")
@causes(501, "NOT_SUPPORTED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path)


# Parameters and bodies.


def wrong(status: int, word: str, **changes: str | None) -> None:
    """An error that the good request with these changes gets."""

    async def cause(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
        return await good.send(path, **changes)

    CAUSES[status, word] = cause


wrong(400, "MISSING_ARG_TOPIC", topic=None)
wrong(400, "INVALID_ARG_TOPIC", topic="$")
wrong(400, "MISSING_ARG_CHANNEL", channel=None)
wrong(400, "INVALID_ARG_CHANNEL", channel="$")
wrong(400, "INVALID_CURSOR", cursor="a b")
wrong(400, "INVALID_DEFER", defer="soon")
wrong(404, "TOPIC_NOT_FOUND", topic="none")
wrong(404, "CHANNEL_NOT_FOUND", channel="none")
wrong(404, "CURSOR_NOT_FOUND", cursor="none")
wrong(404, "MESSAGE_NOT_FOUND", offset="99")
wrong(404, "SEARCH_NOT_FOUND", search="none")
wrong(404, "TRASH_NOT_FOUND", id="999")


@causes(400, "INVALID_OPTION")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await server.request("GET", path.replace("{opt}", "colour"))


@causes(400, "INVALID_VALUE")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path, changed=True, body=b"loud")


@causes(413, "INVALID_VALUE")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path, changed=True, body=b"")


@causes(400, "MSG_EMPTY")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path, body=b"")


@causes(400, "INVALID_TOPIC")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    # Reading the server's own topic is no error; acts on it are.
    name = SAMPLES_TOPIC if PATHS[path].action and PATHS[path].action != "read_messages" else "$"
    return await good.send(path, topic=name)


@causes(400, "INVALID_STORAGE")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    key = {"key": "k"}
    further = {"/pub": key, "/channel/messages": key, "/channel/create": {"start": "start"}}.get(path, {})
    if path == "/topic/create":
        return await good.send(path, storage="cloud")
    return await good.send(path, **{"topic": "old", **further})


@causes(403, "LIMIT_REACHED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    if path in ("/pub", "/mpub", "/log/write", "/topic/create"):
        return await good.send(path, topic="third")
    if path.startswith("/channel/message/"):
        return await good.send(path, offset=None, body=b"0123456789abcdef\n" * 1_001)
    if path == "/channel/search":
        patch.setattr(message_search, "RUNNING_MAX", 0)
    if path == "/trash/restore":
        assert (await good.send("/channel/create")).status == 200
        return await good.send(path)
    place = "start_offset" if path.endswith("/create") else "offset"
    return await good.send(path, **{place: "99", "to": None})


@causes(404, "LEASE_NOT_FOUND")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path, lease="none", body=b"none")


@causes(409, "TOPIC_CHANGED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path, number="99")


@causes(409, "LAKE_CHANGED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    await good.send(path, lake="one")
    return await good.send(path, lake="another")


@causes(409, "COUNTS_CHANGED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    for _ in range(2):
        # The first time they go to the channel, then they wait at the topic.
        assert (await good.send("/mpub", body=b"x\n" * 1_100)).status == 200
        settle(server.engine)
        server.engine.acts.pause_topic("orders")
    return await good.send(path, expected="1")


@causes(409, "TRASH_CONFLICT")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    server.engine.acts.delete_topic("orders")
    settle(server.engine)
    return await good.send(path)


@causes(409, "BATCH_KEY_CONFLICT")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    assert (await good.send(path)).status == 200
    return await good.send(path, batch_key=BATCH_KEY, body=b"\0\0\0\1\0\0\0\0\0\1y")


@causes(413, "MSG_TOO_BIG")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path, body=b"x" * 101)


@causes(413, "BAD_BODY")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path, binary="true", body=b"\0\0\0\0")


@causes(413, "BAD_MESSAGE")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    return await good.send(path, binary="true", body=b"\0\0\0\1\0\0\0\x65" + b"x" * 101)


# The engine, the disk and the audit list fail.


@causes(409, "FENCED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    if path == "/channel/seek":  # the preview before it reads only, and fences nothing
        patch.setattr(server.engine.topics["orders"].channels["billing"].backlog, "prepare_seek", _fail)
        return await good.send(path)
    for name in ("act", "topic", "channel"):
        patch.setattr(server.engine.catalog, name, _fail)
    return await good.send(path)


@causes(500, "OUTCOME_UNKNOWN")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    def is_unknown(*_: Any, **__: Any) -> Any:
        raise OutcomeUnknownError("the act was written, and syncing that failed")

    action = PATHS[path].action
    places = (server.engine.acts, server.engine.quarantine, server.engine.message_acts, server.engine.trash)
    patch.setattr(next(one for one in places if hasattr(one, action)), action, is_unknown)
    return await good.send(path)


@causes(503, "STORAGE_REFUSED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    def refuse(*_: Any, **__: Any) -> Any:
        raise StorageError("No space left on device")

    patch.setattr(server.engine.topics["orders"].store, "append", refuse)
    patch.setattr(server.engine.log, "write_batch", refuse)
    return await good.send(path)


@causes(503, "FENCED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    if not server.engine.topics["orders"].fence:
        server.engine.topics["orders"].stop("a test", ValueError("seven"))
    return await good.send(path)


@causes(503, "EXITING")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    if not PATHS[path].action and PATHS[path].method == "GET":
        server.api.close_connections()  # as a stop does: large answers are compressed no more
        return await good.send(path, headers={"Accept-Encoding": "gzip"})
    server.engine.begin_closing()
    return await good.send(path, changed=True)


@causes(503, "NOT_AUDITED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    patch.setattr(Gate, "has_room", False)
    return await good.send(path, changed=True)


@causes(429, "QUOTA_EXCEEDED")
async def _(server: Server, good: GoodRequests, patch: pytest.MonkeyPatch, path: str) -> Answer:
    await good.send(path)
    return await good.send(path, **({"batch_key": "f" * 32} if path == "/log/write" else {}))
