"""nsqd's HTTP API over the engine: the same paths, parameters, status codes and words.

An error is `{"message": "WORD"}` with nsqd's word; where a limit was passed or the disk refused, a `detail`
beside it says so in a sentence. Publishing and every act are answered once they are as durable as they will
be. Beyond nsqd: a request that names an unknown host or comes from a foreign page is refused
(`http_access.py`), and a binary /mpub must be exactly as long as its messages say.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Generator
from typing import Any
from urllib.parse import unquote_plus

import orjson

from queue_engine.clock import NS_PER_MS, NS_PER_S
from queue_engine.delivery.stats import ActRecord, EngineSnapshot, Outcome
from queue_engine.engine import HEALTHY, Engine
from queue_engine.errors import (
    BatchKeyConflictError,
    ClosedError,
    CursorNotFoundError,
    InvalidCursorError,
    InvalidStorageError,
    LeaseNotFoundError,
    LimitError,
    PenstockError,
    ProtocolError,
    RequestError,
    ReservedTopicError,
    TopicChangedError,
)
from queue_engine.log_acts import START, Target
from queue_engine.names import is_reserved, is_valid_name
from queue_engine.options import Options
from queue_engine.protocol.parser import split_messages
from queue_engine.service import http_cursors, http_log, http_write
from queue_engine.service.http_access import HostCheck
from queue_engine.service.http_connection import (
    JSON,
    BodyLimit,
    ConnectionLimits,
    HttpConnection,
    RequestHead,
    Response,
    error_response,
)
from queue_engine.service.http_log import BodyAccess
from queue_engine.service.http_metrics import CONTENT_TYPE as METRICS
from queue_engine.service.http_metrics import metrics_text
from queue_engine.service.http_stats import COLLECTOR_PAUSES, stats_json, stats_text
from queue_engine.ticket import DONE, Ticket
from queue_engine.version import VERSION

logger = logging.getLogger(__name__)

Answer = Callable[[Response], None]
Query = dict[str, str]
_Read = tuple[Response, Ticket]  # what is answered, once the ticket is done

WRITE_TIMEOUT_MS = 30_000
OFFSET_MAX = (1 << 62) - 1
MAX_DEFLATE_LEVEL = 6  # nsqd's default; compression itself is answered as off
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}\Z")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

_OK = Response(200, b"OK")
_EMPTY = Response(200, b"")

# The acts, by the last part of their path, in the engine's words.
_TOPIC_ACTS = ("create", "delete", "empty", "pause", "unpause")


class Refusal(Exception):
    """A request is answered with an error; caught where requests are handled."""

    def __init__(self, status: int, word: str, detail: str = "") -> None:
        super().__init__(word)
        self.status = status
        self.word = word
        self.detail = detail

    def response(self) -> Response:
        return error_response(self.status, self.word, self.detail)


class HttpApi:
    """Answers nsqd's HTTP requests on the engine's loop. Give `protocol_factory` to `loop.create_server`."""

    def __init__(
        self,
        engine: Engine,
        options: Options,
        *,
        addresses: Callable[[], tuple[int, int]],
        on_act: Callable[[ActRecord], None] | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        """addresses: the real TCP and HTTP ports. on_act: told of every act, failures included.

        limits: other deadlines than the options'.
        """
        self._engine = engine
        self._options = options
        self._addresses = addresses
        self._on_act = on_act
        self._host_check = HostCheck((options.effective_broadcast_address, *options.allowed_host))
        self._connections: set[HttpConnection] = set()
        self._connection_limits = limits or ConnectionLimits(
            idle_timeout_ms=options.client_timeout_ms,
            read_timeout_ms=options.command_timeout_ms,
            write_timeout_ms=WRITE_TIMEOUT_MS,
        )
        self._routes: dict[str, dict[str, Callable[[RequestHead, bytes, Answer], None]]] = {
            "/ping": {"GET": self._ping},
            "/info": {"GET": self._info},
            "/stats": {"GET": self._stats},
            "/metrics": {"GET": self._metrics},
            "/pub": {"POST": self._pub},
            "/mpub": {"POST": self._mpub},
        }
        self._body_access = BodyAccess(options.http_address, options.http_token)
        self._routes["/topic/messages"] = {"GET": self._messages}
        self._routes["/log/read"] = {"GET": self._read_log}
        self._routes["/log/write"] = {"POST": self._write}
        self._routes["/log/records"] = {"GET": self._read_records}
        self._routes["/log/topic"] = {"GET": self._log_topic}
        self._routes["/log/lease"] = {"POST": self._lease}
        self._routes["/log/release"] = {"POST": self._release}
        self._routes["/channel/seek"] = {"POST": self._seek}
        for path, (method, _, _) in http_cursors.ACTS.items():
            self._routes[path] = {method: self._cursor_act}
        for verb in _TOPIC_ACTS:
            self._routes[f"/topic/{verb}"] = {"POST": self._topic_act}
            self._routes[f"/channel/{verb}"] = {"POST": self._channel_act}
        COLLECTOR_PAUSES.watch()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def protocol_factory(self) -> HttpConnection:
        """The protocol of one new connection."""
        return HttpConnection(self, self._connection_limits, self._connections, self._options.max_connections)

    def close_connections(self) -> None:
        """Close every connection: now, or after the answer it waits for."""
        for connection in list(self._connections):
            connection.close_when_idle()

    # What a connection asks.

    def begin(self, head: RequestHead) -> BodyLimit | Response:
        refusal = self._host_check.refusal(head)
        if refusal is not None:
            return refusal
        methods = self._routes.get(head.path)
        if methods is None:
            return error_response(404, "NOT_FOUND")
        if head.method not in methods:
            return error_response(405, "METHOD_NOT_ALLOWED")
        if head.path == "/pub":
            limit = self._options.max_msg_size
            return BodyLimit(limit, self._too_big("MSG_TOO_BIG", "message", head, limit))
        limit = self._options.max_body_size
        return BodyLimit(limit, self._too_big("BODY_TOO_BIG", "body", head, limit))

    def finish(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        try:
            self._routes[head.path][head.method](head, body, answer)
        except Refusal as refusal:
            answer(refusal.response())

    @staticmethod
    def _too_big(word: str, thing: str, head: RequestHead, limit: int) -> Response:
        size = "more" if head.content_length is None else f"{head.content_length} bytes"
        return error_response(413, word, f"the {thing} has {size} and the most is {limit} bytes")

    # Asking.

    def _ping(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        health = self._engine.health
        answer(Response(200 if health == HEALTHY else 500, health.encode("utf-8", "replace"), nsq_version=False))

    def _info(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        options = self._options
        tcp_port, http_port = self._addresses()
        info = {
            "version": VERSION,
            "broadcast_address": options.effective_broadcast_address,
            "hostname": socket.gethostname(),
            "http_port": http_port,
            "tcp_port": tcp_port,
            "start_time": self._engine.started_at_ns // NS_PER_S,
            "max_heartbeat_interval": options.max_heartbeat_interval_ms * NS_PER_MS,
            "max_output_buffer_size": options.max_output_buffer_size,
            "max_output_buffer_timeout": options.max_output_buffer_timeout_ms * NS_PER_MS,
            "max_deflate_level": MAX_DEFLATE_LEVEL,
            "topology_zone": "",
            "topology_region": "",
        }
        answer(Response(200, orjson.dumps(info), JSON))

    def _stats(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        query = _parse_query(head.raw_query)
        topic, channel = query.get("topic", ""), query.get("channel", "")
        include_clients = _BOOLEANS.get(query.get("include_clients", ""), True)
        include_mem = _BOOLEANS.get(query.get("include_mem", ""), True)
        is_json = query.get("format") == "json"

        def encode(snapshot: EngineSnapshot) -> Response:
            if is_json:
                return Response(200, stats_json(snapshot, topic=topic, include_mem=include_mem), JSON)
            return Response(200, stats_text(snapshot, topic=topic, include_mem=include_mem))

        self._answer_snapshot(
            self._engine.stats_in_slices(lambda t, c: include_clients, topic=topic, channel=channel), encode, answer
        )

    def _metrics(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        slices = self._engine.stats_in_slices(lambda topic, channel: False)
        self._answer_snapshot(slices, lambda found: Response(200, metrics_text(found), METRICS), answer)

    @staticmethod
    def _answer_snapshot(
        slices: Generator[None, None, EngineSnapshot], encode: Callable[[EngineSnapshot], Response], answer: Answer
    ) -> None:
        loop = asyncio.get_running_loop()

        def step() -> None:
            # Thousands of channels take a while: others have their turn between the slices.
            try:
                next(slices)
            except StopIteration as stop:
                answer(encode(stop.value))
            except Exception:
                logger.exception("figures not made")
                answer(error_response(500, "INTERNAL_ERROR"))
            else:
                loop.call_soon(step)

        step()

    # Topics of the log.

    def _messages(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        def read(query: Query) -> _Read:
            topic = _publish_topic(query)
            count_max = http_log.limit_of(query)
            target = http_log.target_of(query, offset="offset", time_ms="time_ms", word="from")
            channel = query.get("channel", "")
            if channel and target is not None:
                raise http_log.QueryError("a channel shows what comes next: no offset, time_ms or from with it")
            if channel:
                page = self._engine.peek_channel(topic, channel, count_max)
            else:
                page = self._engine.read_messages(topic, target or Target(word=START), count_max)
            self._tell_read(head, topic, channel, len(page.messages))
            return http_log.page_response(page), DONE

        self._answer_read(head, answer, read)

    def _read_log(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        def read(query: Query) -> _Read:
            topic = _publish_topic(query)
            offset = http_log.whole_number(query, "offset", None, OFFSET_MAX)
            frames = self._engine.read_frames(topic, offset, http_log.bytes_of(query))
            self._tell_read(head, topic, "", frames.count)
            return http_log.frames_response(frames), DONE

        self._answer_read(head, answer, read)

    def _read_records(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        def read(query: Query) -> _Read:
            topic = _publish_topic(query)
            offset = http_log.whole_number(query, "offset", None, OFFSET_MAX)
            records = self._engine.read_records(topic, offset, http_log.records_bytes_of(query))
            self._tell_read(head, topic, "", records.next_offset - records.first_offset)
            return http_log.records_response(records), DONE

        self._answer_read(head, answer, read)

    def _log_topic(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        def read(query: Query) -> _Read:
            return http_log.place_response(self._engine.log_place(_publish_topic(query), http_log.time_of(query))), DONE

        self._answer_read(head, answer, read)

    def _lease(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        def read(query: Query) -> _Read:
            ttl_ms, segments_max = http_log.ttl_of(query), http_log.segments_of(query)
            offset = http_log.whole_number(query, "offset", None, OFFSET_MAX) if "offset" in query else None
            if "lease" in query:
                lease, ticket = self._engine.renew_lease(
                    query["lease"], ttl_ms=ttl_ms, offset=offset, segments_max=segments_max
                )
            else:
                topic = _publish_topic(query)
                if offset is None:
                    raise http_log.QueryError("offset is missing")
                lease, ticket = self._engine.lease_log(topic, offset, ttl_ms=ttl_ms, segments_max=segments_max)
            self._tell_read(head, lease.topic, "", lease.next_offset - lease.first_offset)
            return http_log.lease_response(lease), ticket

        self._answer_read(head, answer, read)

    def _release(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        def read(query: Query) -> _Read:
            if "lease" not in query:
                raise http_log.QueryError("lease is missing")
            return _EMPTY, self._engine.release_lease(query["lease"])

        self._answer_read(head, answer, read)

    def _answer_read(self, head: RequestHead, answer: Answer, read: Callable[[Query], _Read]) -> None:
        """What shows bodies, or where they are: only to those who may see them, and known to the audit."""
        complaint = self._body_access.complaint(head)
        if complaint:
            refusal = Refusal(403, "TOKEN_REQUIRED", complaint)
            self._refuse_act(head, "read_messages", "", "", refusal, answer)
            return
        query = _parse_query(head.raw_query)
        try:
            response, ticket = read(query)
        except http_log.QueryError as exc:
            raise Refusal(400, "INVALID_REQUEST", str(exc)) from exc
        except PenstockError as exc:
            raise _act_refusal(exc) from exc

        def settled(done: Ticket) -> None:
            answer(response if done.error is None else _act_refusal(done.error).response())

        ticket.when_done(settled)

    def _cursor_act(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        _, action, act = http_cursors.ACTS[head.path]
        complaint = self._body_access.complaint(head)
        if complaint:
            self._refuse_act(head, action, "", "", Refusal(403, "TOKEN_REQUIRED", complaint), answer)
            return
        query = _parse_query(head.raw_query)
        names = (query.get("topic", ""), query.get("cursor", ""))

        def refuse(refusal: Refusal) -> None:
            if action not in http_cursors.AUDITED:
                answer(refusal.response())
            else:
                self._refuse_act(head, action, *names, refusal, answer)

        try:
            response, ticket, outcome = act(self._engine, query)
        except http_log.QueryError as exc:
            refuse(Refusal(400, "INVALID_REQUEST", str(exc)))
            return
        except PenstockError as exc:
            refuse(_act_refusal(exc))
            return

        def settled(done: Ticket) -> None:
            if done.error is not None:
                refuse(_act_refusal(done.error))
                return
            if action in http_cursors.AUDITED:
                self._tell(ActRecord(action, *names, head.remote_address, "", outcome))
            answer(response)

        ticket.when_done(settled)

    def _tell_read(self, head: RequestHead, topic: str, channel: str, count: int) -> None:
        self._tell(ActRecord("read_messages", topic, channel, head.remote_address, "", Outcome(depth=count)))

    def _seek(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        query = self._act_query(head, "seek_channel", answer)
        if query is None:
            return
        topic, channel = query.get("topic", ""), query.get("channel", "")
        try:
            target = http_log.target_of(query, offset="offset", time_ms="time_ms", word="to")
            if target is None:
                raise http_log.QueryError("where to is missing: offset, time_ms or to=start|end")
            preview = self._engine.seek_preview(topic, channel, target)
        except http_log.QueryError as exc:
            refusal = Refusal(400, "INVALID_REQUEST", str(exc))
            self._refuse_act(head, "seek_channel", topic, channel, refusal, answer)
            return
        except PenstockError as exc:
            self._refuse_act(head, "seek_channel", topic, channel, _act_refusal(exc), answer)
            return
        done = http_log.seek_response(preview)
        self._act(head, "seek_channel", topic, channel, answer, done, target=target)

    # Publishing.

    def _pub(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        if not body:
            raise Refusal(400, "MSG_EMPTY")
        query = _parse_query(head.raw_query)
        topic = _publish_topic(query)
        defer_ms = 0
        if "defer" in query:
            defer_ms = _defer_ms(query["defer"], self._options.max_req_timeout_ms)
        try:
            key = http_write.message_key_of(query)
        except http_log.QueryError as exc:
            raise Refusal(400, "INVALID_REQUEST", str(exc)) from exc
        if key is not None:
            self._answer_published(lambda: (_OK, self._engine.publish_keyed(topic, body, key)), answer)
        else:
            self._publish(topic, [body], defer_ms, answer)

    def _write(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        query = _parse_query(head.raw_query)
        topic = _publish_topic(query)
        try:
            asked = http_write.write_query_of(query)
            bodies, keys = http_write.split_keyed(body, self._options.max_msg_size)
        except http_log.QueryError as exc:
            raise Refusal(400, "INVALID_REQUEST", str(exc)) from exc

        def write() -> _Read:
            written, ticket = self._engine.write_batch(
                topic,
                bodies,
                batch_key=asked.batch_key,
                keys=keys,
                is_replayed=asked.is_replayed,
                number=asked.number,
            )
            return http_write.written_response(written), ticket

        self._answer_published(write, answer)

    @staticmethod
    def _answer_published(publish: Callable[[], _Read], answer: Answer) -> None:
        try:
            response, ticket = publish()
        except PenstockError as exc:
            raise _publish_refusal(exc) from exc

        def settled(done: Ticket) -> None:
            answer(response if done.error is None else _publish_refusal(done.error).response())

        ticket.when_done(settled)

    def _mpub(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        query = _parse_query(head.raw_query)
        topic = _publish_topic(query)
        # nsqd takes any value it does not know for true.
        is_binary = "binary" in query and _BOOLEANS.get(query["binary"], True)
        bodies = self._split_binary(body) if is_binary else self._split_lines(body)
        self._publish(topic, bodies, 0, answer)

    def _split_binary(self, body: bytes) -> list[bytes]:
        options = self._options
        count = int.from_bytes(body[:4], "big", signed=True)
        if len(body) < 4 or not 0 < count <= (options.max_body_size - 4) // 5:
            shown = f"the message count is {count}" if len(body) >= 4 else f"{len(body)} bytes hold no message count"
            raise Refusal(413, "BAD_BODY", f"{shown}; it must be 1 to {(options.max_body_size - 4) // 5}")
        try:
            return split_messages(body, 0, len(body), options.max_msg_size)
        except ProtocolError as exc:
            raise Refusal(413, exc.code.removeprefix("E_"), exc.description) from exc

    def _split_lines(self, body: bytes) -> list[bytes]:
        bodies = [line for line in body.split(b"\n") if line]
        longest = max(map(len, bodies), default=0)
        if longest > self._options.max_msg_size:
            limit = self._options.max_msg_size
            raise Refusal(413, "MSG_TOO_BIG", f"a message has {longest} bytes and the most is {limit} bytes")
        return bodies

    def _publish(self, topic: str, bodies: list[bytes], defer_ms: int, answer: Answer) -> None:
        engine = self._engine
        try:
            if is_reserved(topic):
                raise ReservedTopicError(topic)
            # Nothing but empty lines is no message, and still makes the topic, as in nsqd.
            ticket = engine.publish(topic, bodies, defer_ms=defer_ms) if bodies else engine.create_topic(topic)[1]
        except PenstockError as exc:
            raise _publish_refusal(exc) from exc

        def settled(done: Ticket) -> None:
            answer(_OK if done.error is None else _publish_refusal(done.error).response())

        ticket.when_done(settled)

    # Acts.

    def _topic_act(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        verb = head.path.rpartition("/")[2]
        query = self._act_query(head, f"{verb}_topic", answer)
        if query is None:
            return
        topic = query.get("topic")
        if topic is None:
            self._refuse_act(head, f"{verb}_topic", "", "", Refusal(400, "MISSING_ARG_TOPIC"), answer)
        # The others find no topic of such a name, and say that.
        elif verb in ("create", "empty") and not is_valid_name(topic):
            self._refuse_act(head, f"{verb}_topic", topic, "", Refusal(400, "INVALID_TOPIC"), answer)
        elif verb == "create" and "storage" in query:
            self._act(head, "create_topic", topic, "", answer, storage=query["storage"])
        else:
            self._act(head, f"{verb}_topic", topic, "", answer)

    def _channel_act(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        verb = head.path.rpartition("/")[2]
        action = f"{verb}_channel"
        query = self._act_query(head, action, answer)
        if query is None:
            return
        topic, channel = query.get("topic"), query.get("channel")
        word = ""
        if topic is None:
            word = "MISSING_ARG_TOPIC"
        elif not is_valid_name(topic):
            word = "INVALID_ARG_TOPIC"
        elif channel is None:
            word = "MISSING_ARG_CHANNEL"
        elif not is_valid_name(channel):
            word = "INVALID_ARG_CHANNEL"
        if word:
            self._refuse_act(head, action, topic or "", channel or "", Refusal(400, word), answer)
        else:
            assert topic is not None
            assert channel is not None
            details: dict[str, Any] = {}
            try:
                start = http_log.target_of(query, offset="start_offset", time_ms="start_time_ms", word="start")
            except http_log.QueryError as exc:
                refusal = Refusal(400, "INVALID_REQUEST", str(exc))
                self._refuse_act(head, action, topic, channel, refusal, answer)
                return
            if verb == "create" and start is not None:
                details["start"] = start
            self._act(head, action, topic, channel, answer, **details)

    def _act_query(self, head: RequestHead, action: str, answer: Answer) -> Query | None:
        try:
            return _parse_query(head.raw_query)
        except Refusal as refusal:
            self._refuse_act(head, action, "", "", refusal, answer)
            return None

    def _act(
        self,
        head: RequestHead,
        action: str,
        topic: str,
        channel: str,
        answer: Answer,
        done_response: Response | None = None,
        **details: Any,
    ) -> None:
        engine = self._engine
        acts: dict[str, Callable[..., tuple[Outcome, Ticket]]] = {
            "create_topic": engine.create_topic,
            "delete_topic": engine.delete_topic,
            "empty_topic": engine.empty_topic,
            "pause_topic": engine.pause_topic,
            "unpause_topic": engine.unpause_topic,
            "create_channel": engine.create_channel,
            "delete_channel": engine.delete_channel,
            "empty_channel": engine.empty_channel,
            "pause_channel": engine.pause_channel,
            "unpause_channel": engine.unpause_channel,
            "seek_channel": engine.seek_channel,
        }
        names = (topic, channel) if channel else (topic,)
        try:
            outcome, ticket = acts[action](*names, **details)
        except PenstockError as exc:
            self._refuse_act(head, action, topic, channel, _act_refusal(exc), answer)
            return

        def settled(done: Ticket) -> None:
            if done.error is not None:
                self._refuse_act(head, action, topic, channel, _act_refusal(done.error), answer)
                return
            self._tell(ActRecord(action, topic, channel, head.remote_address, "", outcome))
            answer(done_response or _EMPTY)

        ticket.when_done(settled)

    def _refuse_act(
        self, head: RequestHead, action: str, topic: str, channel: str, refusal: Refusal, answer: Answer
    ) -> None:
        error = f"{refusal.word}: {refusal.detail}" if refusal.detail else refusal.word
        self._tell(ActRecord(action, topic, channel, head.remote_address, error, None))
        answer(refusal.response())

    def _tell(self, record: ActRecord) -> None:
        if self._on_act is not None:
            self._on_act(record)


def _parse_query(raw: str) -> Query:
    """The first value of each parameter. As Go reads them: a bad escape or a semicolon spoils the whole."""
    query: Query = {}
    for part in raw.split("&"):
        if ";" in part or _BAD_ESCAPE.search(part):
            raise Refusal(400, "INVALID_REQUEST")
        if part:
            name, _, value = part.partition("=")
            query.setdefault(unquote_plus(name, errors="replace"), unquote_plus(value, errors="replace"))
    return query


def _publish_topic(query: Query) -> str:
    topic = query.get("topic")
    if topic is None:
        raise Refusal(400, "MISSING_ARG_TOPIC")
    if not is_valid_name(topic):
        raise Refusal(400, "INVALID_TOPIC")
    return topic


def _defer_ms(text: str, limit_ms: int) -> int:
    defer_ms = int(text) if _WHOLE_NUMBER.match(text) else -1
    if not 0 <= defer_ms <= limit_ms:
        raise Refusal(400, "INVALID_DEFER", f"defer={text} is not a whole number of milliseconds from 0 to {limit_ms}")
    return defer_ms


def _publish_refusal(error: Exception) -> Refusal:
    if isinstance(error, LimitError):
        return Refusal(403, error.code, str(error))
    if isinstance(error, TopicChangedError | BatchKeyConflictError):
        return Refusal(409, error.code, str(error))
    if isinstance(error, InvalidStorageError):
        return Refusal(400, error.code, str(error))
    if isinstance(error, RequestError):
        return Refusal(400, error.code, str(error) if isinstance(error, ReservedTopicError) else "")
    # nsqd has one word for every publish that failed; the sentence tells a stop from a disk that refuses.
    return Refusal(503, "EXITING", "" if isinstance(error, ClosedError) else str(error))


def _act_refusal(error: Exception) -> Refusal:
    if isinstance(error, ClosedError):
        return Refusal(503, "EXITING")
    if isinstance(error, LimitError):
        return Refusal(403, error.code, str(error))
    if isinstance(error, TopicChangedError):
        return Refusal(409, error.code, str(error))
    if isinstance(error, RequestError):
        told = InvalidStorageError | LeaseNotFoundError | CursorNotFoundError | InvalidCursorError | ReservedTopicError
        detail = str(error) if isinstance(error, told) else ""
        return Refusal(404 if error.code.endswith("_NOT_FOUND") else 400, error.code, detail)
    return Refusal(500, "INTERNAL_ERROR", str(error))
