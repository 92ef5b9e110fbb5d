"""A client of the engine's HTTP API for jobs: one method for each request, with a typed answer.

`reads.py` and `publish.py` of `service/http/` list the paths; `wire/` has the shapes of bodies and answers.
"""

import http.client
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import orjson

from queue_engine.client.log_api.message_ranges import MessageRanges, OffsetRange
from queue_engine.vocabulary.errors import EngineRefusedError, EngineUnreachableError, PipelineError, TopicReplacedError
from queue_engine.wire.batch import WrittenBatch, encode_batch, read_written_batch
from queue_engine.wire.cursor import CursorStats, read_cursor_list, read_server
from queue_engine.wire.error_answers import JOB_ERRORS, read_error_answer
from queue_engine.wire.lease import LeasedFiles, encode_lease_names, read_leased_files
from queue_engine.wire.records import RecordsPage, read_records_page
from queue_engine.wire.topic_state import TopicState, read_topic_state

TIMEOUT_S = 60.0
RECORDS_BYTES_MAX = 8 << 20


class LogClient:
    """One lasting connection to an engine; for one thread.

    Every method blocks until the answer comes, at most `timeout_s`. It raises EngineUnreachableError when none comes,
    EngineRefusedError for an error without a class of its own, and the errors that its docstring names.
    """

    def __init__(self, url: str, token: str = "", *, timeout_s: float = TIMEOUT_S) -> None:
        """url: http://HOST:PORT of the engine's HTTP API. token: of its --http-token, "" for none."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise EngineUnreachableError(f"url={url} is not an address such as http://127.0.0.1:4151")
        self.url = url.rstrip("/")
        self.token = token
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    # Topics and records.

    def topic(self, topic: str, *, time_ms: int | None = None) -> TopicState:
        """time_ms (Unix): request the first offset published then or later, too. Raises NotALogTopicError and
        TopicMissingError."""
        query: dict[str, object] = {"topic": topic}
        if time_ms is not None:
            query["time_ms"] = max(time_ms, 0)
        state = self._topic(query)
        if state.ranges is None:
            return state
        return replace(state, ranges=self._ranges(state, state.ranges), ranges_end=state.synced_offset)

    def _topic(self, query: dict[str, Any]) -> TopicState:
        return read_topic_state(self._request("GET", "/log/topic", query)[1])

    def _ranges(self, state: TopicState, ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
        """The ranges of an answer and of those that follow it, up to its synced offset."""
        found = list(ranges)
        at = state.ranges_end
        while at < state.synced_offset:
            more = self._topic({"topic": state.topic, "offset": at})
            if (more.number, more.id_base) != (state.number, state.id_base):
                raise TopicReplacedError(
                    f"{state.topic} at {self.url} was deleted and created again while its ranges were read"
                )
            found += more.ranges or ()
            at = more.ranges_end
        return tuple(MessageRanges(found).within(0, state.synced_offset))

    def records(self, topic: str, offset: int, *, max_bytes: int = RECORDS_BYTES_MAX) -> RecordsPage:
        """Synced records from the one that holds `offset` on. Raises NotALogTopicError and OffsetBeyondEndError."""
        query = {"topic": topic, "offset": offset, "max_bytes": min(max_bytes, RECORDS_BYTES_MAX)}
        answer, data = self._request("GET", "/log/records", query)
        return read_records_page(answer.headers, data)

    # Leases.

    def lease(self, topic: str, offset: int, *, ttl_ms: int, segments: int = 1_000) -> LeasedFiles:
        """Keep a topic's messages from `offset` on; the answer names the complete segments (at most so many) with them.
        Raises NotALogTopicError, OffsetBeyondEndError and OffsetGoneError."""
        query = {"topic": topic, "offset": offset, "ttl_ms": ttl_ms, "segments": segments}
        return read_leased_files(self._request("POST", "/log/lease", query)[1])

    def renew(self, leases: Iterable[str], *, ttl_ms: int) -> None:
        """Renew leases, one at least, for `ttl_ms` from now on: all of them or none. Raises LeaseLostError."""
        self._request("POST", "/log/renew", {"ttl_ms": ttl_ms}, encode_lease_names(leases))

    def release(self, lease: str) -> None:
        """Raises LeaseLostError when the lease does not exist."""
        self._request("POST", "/log/release", {"lease": lease})

    # Writing.

    def create_topic(self, topic: str) -> None:
        """Create a topic of the log, or do nothing when there is one. Raises NotALogTopicError."""
        self._request("POST", "/topic/create", {"topic": topic, "storage": "log"})

    def write(
        self,
        topic: str,
        bodies: Sequence[bytes],
        *,
        batch_key: bytes,
        keys: Sequence[bytes] | None = None,
        is_replayed: bool = False,
        number: int | None = None,
    ) -> WrittenBatch:
        """Publish bodies as one batch, once for its key (16 bytes) however often this is called.

        keys: of the messages, b"" for none. number: the request is refused when the topic has another one, which means
        that it was deleted and created again.
        Raises BatchConflictError, TopicReplacedError and NotALogTopicError.
        """
        query: dict[str, object] = {"topic": topic, "batch_key": batch_key.hex()}
        if is_replayed:
            query["replayed"] = "true"
        if number is not None:
            query["number"] = number
        return read_written_batch(self._request("POST", "/log/write", query, encode_batch(bodies, keys))[1])

    # Channels and pipeline cursors.

    def channels(self, topic: str) -> tuple[str, ...]:
        """The names of a topic's channels, sorted."""
        stats = orjson.loads(self._request("GET", "/stats", {"format": "json", "topic": topic})[1])
        topics = stats["topics"] or ()  # null where there is no such topic
        return tuple(sorted(channel["channel_name"] for one in topics for channel in one["channels"]))

    def cursor_move(self, topic: str, cursor: str, *, number: int, offset: int, lake: str = "") -> None:
        """lake: the identity of the lake where the messages are stored, "" for none. Raises TopicReplacedError,
        OtherLakeError and OffsetBeyondEndError."""
        query = {"topic": topic, "cursor": cursor, "number": number, "offset": offset}
        self._request("POST", "/cursor/move", query | ({"lake": lake} if lake else {}))

    def cursor_begin_anew(self, topic: str, cursor: str, *, offset: int) -> None:
        """Create a cursor at an offset that the log has; one that exists begins there again, of no lake. Raises
        NotALogTopicError and OffsetBeyondEndError; EngineRefusedError where the engine is too old for that."""
        query = {"topic": topic, "cursor": cursor, "start_offset": offset, "anew": "true"}
        found = orjson.loads(self._request("POST", "/cursor/create", query)[1])
        if not found["created"]:
            raise EngineRefusedError(
                f"{self.url} did not begin the cursor {topic}/{cursor} again at offset {offset}, and left it at "
                f"{found['offset']}: the server ignored anew=true, it is too old. Start it with this version, "
                "and try again",
                200,
                "",
            )

    def cursor_list(self) -> tuple[CursorStats, ...]:
        return read_cursor_list(self._request("GET", "/cursor/list", {})[1])

    def server(self) -> str:
        """The identity of the engine's data directory."""
        found = read_server(self._request("GET", "/cursor/list", {})[1])
        if not found:
            raise EngineRefusedError(f"{self.url} does not name its data directory: it is too old", 200, "")
        return found

    # One request.

    def _request(
        self, method: str, path: str, query: dict[str, Any], body: bytes | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        target = f"{path}?{urlencode(query)}"
        if method == "POST" and body is None:
            body = b""
        was_open = self._connection.sock is not None
        try:
            try:
                return self._sent(method, target, body)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                # The engine closes idle connections. Every request of this client may be sent twice.
                if not was_open:
                    raise
                self._connection.close()
                return self._sent(method, target, body)
        except (OSError, http.client.HTTPException) as exc:
            self._connection.close()
            raise EngineUnreachableError(f"{method} {self.url}{target} was not answered: {_reason(exc)}") from exc

    def _sent(self, method: str, target: str, body: bytes | None) -> tuple[http.client.HTTPResponse, bytes]:
        self._connection.request(method, target, body=body, headers=self._headers)
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise self._error(answer, target, data)
        return answer, data

    def _error(self, response: http.client.HTTPResponse, target: str, data: bytes) -> PipelineError:
        answer = read_error_answer(data, response.headers)
        text = f"{self.url}{target} was refused, {response.status} {answer.message}"
        if answer.detail:
            text += f": {answer.detail}"
        meaning = JOB_ERRORS.get(answer.code or answer.message)
        return meaning(text) if meaning else EngineRefusedError(text, response.status, answer.message)


def _reason(exc: Exception) -> str:
    if isinstance(exc, socket.timeout):
        return f"no answer within {TIMEOUT_S:g} s"
    return str(exc) or type(exc).__name__
