"""One HTTP/1.1 connection: it parses requests, hands them to a handler, sends the answers, and keeps deadlines.

h11 parses the protocol. The connection reads a request whole, its body within the limit that the handler gives, and
hands it on. The handler calls `answer` at once or later; the connection reads the next request after that. Requests
that a client sends ahead wait in the socket.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import formatdate
from enum import Enum
from http import HTTPStatus
from typing import cast

import h11

from queue_engine.service.admission.connection_pool import ConnectionPool
from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.admission.refused_connections import RefusedConnections
from queue_engine.service.admission.unread_bytes import has_unread_bytes, unread_bytes
from queue_engine.service.http.exchange.handler import BodyLimit, RequestHandler
from queue_engine.service.http.exchange.malformed import asks_to_stay, plain_response, reason_of
from queue_engine.service.http.exchange.request import RequestHead, head_of, host_of, join_address
from queue_engine.service.http.exchange.response import Response, error_response, internal_error
from queue_engine.service.http.reference.content_types import TEXT
from queue_engine.vocabulary.client_key import UNIX
from queue_engine.vocabulary.clock import NS_PER_MS

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX = 16 << 10
# A refused request's body up to this size is read and dropped, so that the connection can go on.
_DRAIN_BYTES_MAX = 64 << 10
# Requests of one connection that are answered in a row; then other connections have their turn.
_REQUESTS_PER_TURN = 16
# Pieces of bodies that are taken in a row: a body may come in chunks of a byte.
_PIECES_PER_TURN = 256
# A client that is refused in mid-body may go on sending for this long. Closing at once would reset the connection, and
# the client might not read the refusal.
_LINGER_MS = 2_000
# Refused connections that get an answer at the same time; further ones are closed without one.
_ANSWERED_REFUSALS_MAX = 8
_MIB = 1 << 20
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Deadlines of a connection, in milliseconds."""

    idle_timeout_ms: int  # between requests
    read_timeout_ms: int  # for a head, for a body, once more for each MiB of it; and for bytes of a body to come
    write_timeout_ms: int  # for the client to read an answer


_CROWDED = error_response(
    503, "BUSY", "bodies that have begun take all of --max-pending-body-bytes, and too many wait for it: try again"
)


class _Phase(Enum):
    """The event that the connection waits for until its deadline."""

    NONE = "nothing: there is no deadline"
    IDLE = "the next request's first byte"
    HEAD = "the end of a request's head"
    BODY = "the end of a request's body"
    ROOM = "room for a request's body"
    WRITE = "room in the socket"


class HttpConnection(asyncio.Protocol):
    """The server's end of one connection.

    pool: all open ones and the limit on them; this one enters when connected and leaves when lost. bodies: the budget
    for unfinished bodies.
    """

    def __init__(
        self,
        handler: RequestHandler,
        limits: ConnectionLimits,
        pool: "ConnectionPool[HttpConnection]",
        bodies: PendingBodies,
    ) -> None:
        self._handler = handler
        self._limits = limits
        self._pool = pool
        self._bodies = bodies
        self._has_requested_room = False  # PendingBodies has, or queues, this body
        self._is_body_waiting = False  # the body has begun and waits for room
        self.heard_ns = 0
        self._body_ends_ns = 0  # when the body has to be complete
        self._is_old_http = False  # the request is of HTTP/1.0
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._phase = _Phase.NONE
        self._timer: asyncio.TimerHandle | None = None
        self._remote_address = ""
        self._local_host = ""
        self._is_tls = False
        self._head: RequestHead | None = None  # the request being read or answered
        self._is_nsqd_path = True  # of the request that is read or answered, or was last
        self._wants_body = True  # False for HEAD, whose answer is a head alone
        self._body = bytearray()
        self._body_limit: BodyLimit | None = None
        self._refusal: Response | None = None  # waits for the end of a body that is being dropped
        self._is_answering = False  # the handler has a request and has not answered it
        self._is_advancing = False
        self._is_write_paused = False
        self._is_yielding = False  # other connections have their turn before this one's next request
        self._is_closing = False  # the connection closes after the next answer
        self._is_discarding = False  # the last answer is sent; further input is dropped

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._remote_address = join_address(peer)
        self._local_host = host_of(transport.get_extra_info("sockname"))
        self._is_tls = transport.get_extra_info("ssl_object") is not None
        refusal = self._pool.enter(self, self._handler.connection_key(host_of(peer) or UNIX))
        if refusal:
            self._refuse_one_too_many(refusal)
            return
        self._enter(_Phase.HEAD)

    def _refuse_one_too_many(self, detail: str) -> None:
        answered = self._pool.refused.answered
        if len(answered) >= _ANSWERED_REFUSALS_MAX:
            self._abort()  # an answer would hold a descriptor until the client has read it
            return
        answered.add(self)
        self._send(error_response(503, "TOO_MANY_CONNECTIONS", detail), closing=True)
        self._linger()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._pool.refused.answered.discard(self)
        self._enter(_Phase.NONE)
        self._pool.leave(self)
        self._leave_body()

    def data_received(self, data: bytes) -> None:
        if self._is_discarding:
            return
        if self._phase is _Phase.BODY:
            self.heard_ns = time.monotonic_ns()
        self._http.receive_data(data)
        self._advance()

    def eof_received(self) -> bool:
        if self._is_discarding:
            return False
        # A client may close its side after its requests and still wait for the answers.
        self._http.receive_data(b"")
        self._advance()
        return self._is_waiting

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._enter(_Phase.WRITE)

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if not self._is_discarding:
            self._enter(_Phase.NONE)
            self._advance()

    # Reading.

    def _advance(self) -> None:
        """Parse and handle the input as far as possible."""
        if self._is_advancing:
            return  # the handler answered at once: the loop below goes on with the next request
        self._is_advancing = True
        answered_max, pieces_max = _REQUESTS_PER_TURN, _PIECES_PER_TURN
        try:
            while not (self._is_discarding or self._is_waiting):
                event = self._next_event()
                if event is h11.NEED_DATA:
                    if self._head is None:
                        self._await_head()
                    break
                if isinstance(event, h11.Request):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._take(event.data)
                    pieces_max -= 1
                    if pieces_max == 0 and not self._is_discarding:
                        self._yield()
                elif isinstance(event, h11.EndOfMessage):
                    self._end()
                    answered_max -= 1
                    if answered_max == 0 and not self._is_discarding:
                        self._yield()
                else:  # closed, or nothing more is to come
                    self._close()
                    break
        except h11.RemoteProtocolError as exc:
            self._refuse_connection(plain_response(exc.error_status_hint, reason_of(exc)))
        except Exception:
            # A bug ends this connection, not the server.
            logger.exception("connection failed remote=%s", self._remote_address)
            self._refuse_connection(internal_error())
        finally:
            self._is_advancing = False
        self._pause_or_resume_reading()

    def _next_event(self) -> object:
        if self._head is not None and self._head.content_length is not None:
            return self._http.next_event()
        # Of a body not more than its trailer: it may come in chunks of a byte, and each is an event.
        unread = self._unread()
        unread_bytes, before = len(unread), bytes(unread if self._head is None else unread[:HEAD_BYTES_MAX])
        event = self._http.next_event()
        if isinstance(event, h11.Request):
            self._wants_body = event.method != b"HEAD"
        if isinstance(event, h11.Request | h11.EndOfMessage):
            read_bytes = unread_bytes - len(self._unread())
            if read_bytes > len(before):
                raise h11.RemoteProtocolError(
                    f"the trailer of a body in chunks has {read_bytes} bytes and the most is {HEAD_BYTES_MAX}",
                    error_status_hint=431,
                )
            _check_framing(event, before[:read_bytes])
        return event

    def _unread(self) -> bytearray:
        """Received bytes that are not read: h11's own buffer, which its `trailing_data` would copy."""
        unread: bytearray = self._http._receive_buffer._data
        return unread

    @property
    def _is_waiting(self) -> bool:
        """Whether the next request has to wait."""
        return self._is_answering or self._is_write_paused or self._is_yielding or self._is_body_waiting

    def _yield(self) -> None:
        self._is_yielding = True
        self._loop.call_soon(self._advance_again)

    def _advance_again(self) -> None:
        self._is_yielding = False
        if self._transport is not None:
            self._advance()

    def _pause_or_resume_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or self._is_discarding:
            return
        # Requests that are sent ahead stay in the socket's buffer.
        if self._is_waiting and transport.is_reading():
            transport.pause_reading()
        elif not self._is_waiting and not transport.is_reading():
            transport.resume_reading()

    def _await_head(self) -> None:
        # Entered once: further bytes of the same head do not extend the deadline.
        has_begun = bool(self._unread())
        if self._phase is not _Phase.HEAD:
            self._enter(_Phase.HEAD if has_begun else _Phase.IDLE)

    def _begin(self, event: h11.Request) -> None:
        self._is_old_http = event.http_version == b"1.0"
        if asks_to_stay(event):
            self._http._cstate.keep_alive = True  # h11 closes after every request of HTTP/1.0
        head = head_of(event, self._remote_address, self._local_host, is_tls=self._is_tls)
        if isinstance(head, Response):
            self._refuse_connection(head)
            return
        self._head = head
        self._is_nsqd_path = self._handler.is_nsqd_path(head)
        self._body = bytearray()
        begun = self._handler.begin(head)
        if head.refused is not None and (head.content_length is None or head.content_length > _DRAIN_BYTES_MAX):
            # Its body is not read, and its answer comes no sooner than that to a small one.
            self._is_answering = True
            self._enter(_Phase.NONE)
            head.refused(self._refuse_late)
            return
        if isinstance(begun, BodyLimit) and head.content_length is not None and head.content_length > begun.bytes_max:
            begun = begun.too_big()
            self._handler.body_refused(head, is_crowded=False)
        here_bytes = len(self._unread())
        is_here = head.content_length is not None and head.content_length <= here_bytes
        if isinstance(begun, BodyLimit) and not is_here and self._bodies.is_crowded(self._handler.client_of(head)):
            begun = _CROWDED
            self._handler.body_refused(head, is_crowded=True)
        is_continue_awaited = self._http.they_are_waiting_for_100_continue
        if isinstance(begun, BodyLimit):
            self._body_limit = begun
            expected_bytes = begun.bytes_max if head.content_length is None else head.content_length
            if not is_here:  # most bodies come with the head
                self._has_requested_room = True
                self.heard_ns = time.monotonic_ns()
                client = self._handler.client_of(head)
                self._is_body_waiting = not self._bodies.request(self, client, expected_bytes, here_bytes)
            if self._is_body_waiting:
                self._enter(_Phase.ROOM)
            else:
                self._read_body(expected_bytes)
            return
        if head.content_length is None or head.content_length > _DRAIN_BYTES_MAX or is_continue_awaited:
            self._refuse_connection(begun)
            return
        # A small body is dropped before the refusal, so that the connection can go on.
        self._refusal = begun
        self.heard_ns = time.monotonic_ns()
        self._read_body(head.content_length)

    def _refuse_late(self, response: Response) -> None:
        if self._transport is not None:
            self._is_answering = False
            self._refuse_connection(response)

    def _read_body(self, expected_bytes: int) -> None:
        if self._refusal is None and self._http.they_are_waiting_for_100_continue:
            self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        if expected_bytes:
            timeout_ns = self._limits.read_timeout_ms * NS_PER_MS
            self._body_ends_ns = time.monotonic_ns() + timeout_ns * (1 + expected_bytes // _MIB)
            self._enter(_Phase.BODY)

    def _leave_body(self) -> None:
        """Drop the body: it is handed on, or refused."""
        self._body = bytearray()
        self._is_body_waiting = False
        if self._has_requested_room:
            self._has_requested_room = False
            self._bodies.leave(self)

    def body_granted(self) -> None:
        """There is room for the body that has begun. Called by PendingBodies (`BodyReader`)."""
        assert self._head is not None
        assert self._body_limit is not None
        self._is_body_waiting = False
        if self._has_more():
            self.heard_ns = time.monotonic_ns()
        length = self._head.content_length
        self._read_body(self._body_limit.bytes_max if length is None else length)
        self._advance()

    def _has_more(self) -> bool:
        """Whether the client has sent more while it was not read from, or waits for the word to do so."""
        return self._http.they_are_waiting_for_100_continue or has_unread_bytes(self._transport)

    def _look_for_more(self) -> None:
        """Refuse a body that waits for room and does not come: others wait, too."""
        if self._has_more():
            self._enter(_Phase.ROOM)
        else:
            self._reading_took_too_long()

    @property
    def received_bytes(self) -> int:
        """The received bytes of the body that has begun: `BodyReader`."""
        return len(self._body)

    def unread_bytes(self) -> int:
        """The bytes that the kernel or a layer holds: `BodyReader`."""
        return unread_bytes(self._transport)

    def body_stalled(self, bytes_per_s: int) -> None:
        """The body comes too slowly while others wait for room. Called by PendingBodies (`BodyReader`)."""
        if not self._is_waiting:  # else other connections have their turn, and it is not read from
            self._body_took_too_long(
                f"its body comes at less than {bytes_per_s} bytes a second (a MiB in each --command-timeout), and "
                "others wait for room (--max-pending-body-bytes)"
            )

    def _take(self, data: bytes | bytearray) -> None:
        if self._refusal is not None:
            return
        assert self._body_limit is not None
        self._body += data
        if len(self._body) > self._body_limit.bytes_max:
            assert self._head is not None
            self._handler.body_refused(self._head, is_crowded=False)
            self._refuse_connection(self._body_limit.too_big())

    def _end(self) -> None:
        self._enter(_Phase.NONE)
        head, body = self._head, bytes(self._body)
        self._leave_body()
        assert head is not None
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            self._respond(refusal)
            return
        self._is_answering = True
        try:
            self._handler.finish(head, body, self._answer)
        except Exception:
            # The loop's edge: a bug fails this request, not the server.
            logger.exception("request failed method=%s path=%s remote=%s", head.method, head.path, head.remote_address)
            self._answer(internal_error())

    # Answering.

    def _answer(self, response: Response) -> None:
        if not self._is_answering or self._transport is None:
            return  # the client left before the answer
        self._is_answering = False
        self._respond(response)
        self._advance()

    def _respond(self, response: Response) -> None:
        self._head = None
        self._send(response, closing=self._is_closing)
        if self._http.our_state is h11.MUST_CLOSE or self._http.their_state is not h11.DONE:
            self._close()
            return
        self._http.start_next_cycle()
        self._wants_body = True

    def _send(self, response: Response, *, closing: bool) -> None:
        if response.error is not None and not self._is_nsqd_path:
            response = replace(response, body=response.error.encoded())
        headers = [
            ("Date", formatdate(usegmt=True)),
            *([("Content-Type", response.content_type)] if response.body or response.content_type != TEXT else ()),
            ("Content-Length", str(len(response.body))),
            ("X-Content-Type-Options", "nosniff"),
            *response.headers,
        ]
        if response.nsq_version:
            headers.append(("X-NSQ-Content-Type", "nsq; version=1.0"))
        if closing:
            headers.append(("Connection", "close"))
        elif self._is_old_http and self._http.our_state is h11.SEND_RESPONSE and self._http._cstate.keep_alive:
            headers.append(("Connection", "keep-alive"))
        send = self._http.send
        head = send(h11.Response(status_code=response.status, headers=headers, reason=_PHRASES[response.status]))
        if self._is_old_http and head:
            head = head.replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        body = send(h11.Data(data=response.body)) if self._wants_body else b""
        self._write(b"".join((head or b"", body or b"", send(h11.EndOfMessage()) or b"")))

    def _write(self, data: bytes | None) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    # Ending.

    def _refuse_connection(self, response: Response) -> None:
        """Answer a request without reading the rest of it, and close."""
        self._head = None
        self._leave_body()
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._send(response, closing=True)
        self._linger()

    def _linger(self) -> None:
        """Send nothing more, and give the client a moment to read the answer before the connection is cut."""
        self._is_discarding = True
        transport = self._transport
        if transport is None:
            return
        if transport.can_write_eof():
            transport.write_eof()
        if not transport.is_reading():
            transport.resume_reading()
        self._set_timer(_LINGER_MS, self._abort)

    def _close(self) -> None:
        """Close when all is written, or at the write deadline."""
        self._is_discarding = True
        if self._transport is not None:
            self._transport.close()
            self._enter(_Phase.WRITE)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def give_way(self) -> None:
        """End now, while no request is pending: another connection needs the place. Answers that the client has not
        taken would keep the descriptor."""
        if self._transport is not None and self._transport.get_write_buffer_size():
            self._abort()
        else:
            self._close()

    def close_when_idle(self) -> None:
        """Close now, or after the pending answer: the server stops."""
        self._is_closing = True
        if self._head is None:
            self._close()

    # Deadlines.

    def _enter(self, phase: _Phase) -> None:
        """Begin a phase and its deadline."""
        if phase is _Phase.IDLE:
            self._pool.idle(self)
        elif self._phase is _Phase.IDLE:
            self._pool.busy(self)
        self._phase = phase
        limits = self._limits
        if phase is _Phase.NONE:
            self._clear_timer()
        elif phase is _Phase.IDLE:
            self._set_timer(limits.idle_timeout_ms, self._close)
        elif phase is _Phase.WRITE:
            self._set_timer(limits.write_timeout_ms, self._abort)
        elif phase is _Phase.ROOM:
            self._set_timer(limits.read_timeout_ms, self._look_for_more)
        else:
            self._set_timer(
                limits.read_timeout_ms, self._reading_took_too_long if phase is _Phase.HEAD else self._look_at_body
            )

    def _look_at_body(self) -> None:
        """Refuse a body that is not complete in time, or of which nothing comes any more."""
        now_ns = time.monotonic_ns()
        stalls_ns = self.heard_ns + self._limits.read_timeout_ms * NS_PER_MS
        left_ns = min(stalls_ns, self._body_ends_ns) - now_ns
        if left_ns <= 0:
            self._reading_took_too_long()
        else:
            self._set_timer(left_ns / NS_PER_MS + 1, self._look_at_body)

    def _set_timer(self, after_ms: float, action: Callable[[], None]) -> None:
        self._clear_timer()
        self._timer = self._loop.call_later(after_ms / 1000, action)

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _reading_took_too_long(self) -> None:
        if self._http.their_state is h11.IDLE and not self._unread():
            self._close()  # the client has sent nothing
            return
        self._body_took_too_long("the request was not complete in time")

    def _body_took_too_long(self, why: str) -> None:
        detail = f"{why}; {len(self._body)} bytes of its body had come"
        self._refuse_connection(error_response(408, "REQUEST_TIMEOUT", detail))


def connection_pool(refused: RefusedConnections) -> ConnectionPool[HttpConnection]:
    """The pool of one server's connections."""
    return ConnectionPool(refused, HttpConnection.give_way)


def _check_framing(event: object, read: bytes) -> None:
    """Check a request's framing, against request smuggling: h11 accepts requests that a proxy may end at another byte.

    Raises h11.RemoteProtocolError for a line that ends with LF alone, and for a body in chunks of HTTP/1.0.

    read: the bytes of the event, for a head and for the end of a body in chunks; otherwise empty.
    """
    if read.count(b"\n") != read.count(b"\r\n"):
        raise h11.RemoteProtocolError("a line ends with LF alone; lines end with CRLF")
    if isinstance(event, h11.Request) and event.http_version < b"1.1" and _is_chunked(event):
        raise h11.RemoteProtocolError("a body in chunks needs HTTP/1.1")


def _is_chunked(request: h11.Request) -> bool:
    return any(name == b"transfer-encoding" for name, _ in request.headers)
