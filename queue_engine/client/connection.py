"""One TCP connection to an NSQ server: commands out, frames in, heartbeats answered, errors raised.

A connection never reconnects by itself: when it is lost it raises DisconnectedError, and its user opens another.
"""

import asyncio
import json
import logging
import os
import re
import ssl
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from queue_engine.client.secret_hosts import SecretHosts
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.message import FRAME_TYPE_MESSAGE, STORED_HEADER_BYTES
from queue_engine.vocabulary.names import NAME_LENGTH_MAX, is_valid_name
from queue_engine.vocabulary.version import VERSION
from queue_engine.wire.protocol.frames import FRAME_TYPE_ERROR, FRAME_TYPE_RESPONSE

logger = logging.getLogger(__name__)

MAGIC = b"  V2"
OPEN_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 1.0
# A larger length means that the stream is out of step.
FRAME_BYTES_MAX = 64 << 20
# Refusals of commands without an answer; the connection goes on after them. Every other error ends it.
_UNANSWERED_FAILURES = ("E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED")

_unpack_prefix = struct.Struct(">iI").unpack
_pack_size = struct.Struct(">i").pack


class RefusedError(PenstockError):
    """The server refused a command. code: such as "E_BAD_TOPIC"; description: the text behind the code."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code, _, self.description = text.partition(" ")


class DisconnectedError(PenstockError):
    """The connection failed or has ended; the text names the server and the reason."""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A client's name and its settings, as IDENTIFY sends them, and its secret for AUTH."""

    client_id: str = ""
    hostname: str = ""
    user_agent: str = f"penstock-client/{VERSION}"
    heartbeat_interval_ms: int = 30_000  # -1: none, for producers only
    msg_timeout_ms: int = 0  # 0: the server's own
    tls: ssl.SSLContext | None = None  # with one, a server without TLS is refused
    auth_secret: bytes = field(default=b"", repr=False)  # sent to servers that want AUTH, behind TLS if there is one
    secret_hosts: SecretHosts | None = None  # others get it only behind TLS that proves their name; None: all may


class Connection:
    """An identified connection. Belongs to one event loop; make it with `open`, end it with `close`.

    agreed: the server's answer to IDENTIFY; {} from a server that does not negotiate.
    on_message: gets the data of each message frame, from its timestamp on.
    on_refused: gets refusals of FIN, REQ and TOUCH, which have no answer; without it they are logged.
    on_end: called once, when the connection is gone.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, identity: ClientIdentity, address: str
    ) -> None:
        self.identity = identity
        self.agreed: dict[str, Any] = {}
        self.on_message: Callable[[bytes], None] | None = None
        self.on_refused: Callable[[RefusedError], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self._address = address
        self._reader = reader
        self._writer = writer
        self._answers: deque[asyncio.Future[bytes]] = deque()
        self._refusal: RefusedError | None = None
        self._end_reason = ""
        self._reading = asyncio.create_task(self._read_forever(), name=f"nsq connection to {address}")

    @classmethod
    async def open(
        cls, host: str, port: int, identity: ClientIdentity | None = None, *, timeout_s: float = OPEN_TIMEOUT_S
    ) -> "Connection":
        """Connect, identify, and change to TLS and send the secret where that is due.

        Raises DisconnectedError, or RefusedError for a refused IDENTIFY or AUTH. All of it may take `timeout_s`.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        connection: Connection | None = None
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(host, port)
                connection = cls(reader, writer, identity or ClientIdentity(), address)
                writer.write(MAGIC)
                await connection._identify()
                if connection.identity.tls is not None:
                    await connection._start_tls(connection.identity.tls, host)
                if connection.agreed.get("auth_required"):
                    await connection._authenticate(host)
        except BaseException as exc:
            if connection is not None:
                await connection.close()
            if isinstance(exc, TimeoutError):
                raise DisconnectedError(f"{address} did not answer within {timeout_s:g} s") from exc
            if isinstance(exc, ssl.SSLError):
                raise DisconnectedError(f"no TLS with {address}: {_about_tls(exc)}") from exc
            if isinstance(exc, OSError):
                raise DisconnectedError(f"can't connect to {address}: {connect_reason(exc)}") from exc
            if isinstance(exc, UnicodeError):
                raise DisconnectedError(f"can't connect to {address}: {host!r} is no host's name") from exc
            raise
        return connection

    async def _identify(self) -> None:
        identity = self.identity
        wishes = {
            "client_id": identity.client_id,
            "hostname": identity.hostname,
            "user_agent": identity.user_agent,
            "heartbeat_interval": identity.heartbeat_interval_ms,
            "msg_timeout": identity.msg_timeout_ms,
            "tls_v1": identity.tls is not None,
            "feature_negotiation": True,
        }
        answer = await self.request(b"IDENTIFY\n" + sized(json.dumps(wishes).encode()))
        if answer == b"OK":
            return
        try:
            agreed = json.loads(answer)
        except (ValueError, RecursionError):
            agreed = None
        if not isinstance(agreed, dict):
            raise DisconnectedError(f"{self._address} answered IDENTIFY with no JSON object")
        self.agreed = agreed

    async def _start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Go on inside TLS; the server's first answer there is OK."""
        if not self.agreed.get("tls_v1"):
            raise DisconnectedError(f"{self._address} offers no TLS, and without it nothing is sent")
        ok: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        ok.add_done_callback(_mark_seen)
        self._answers.append(ok)
        await self._writer.start_tls(context, server_hostname=host)
        await ok

    async def _authenticate(self, host: str) -> None:
        identity = self.identity
        if not identity.auth_secret:
            raise DisconnectedError(f"{self._address} wants AUTH, and there is no secret to send")
        is_proven = identity.tls is not None and identity.tls.verify_mode is ssl.CERT_REQUIRED
        if identity.secret_hosts is not None and not is_proven and not identity.secret_hosts.allow(host):
            raise DisconnectedError(
                f"{self._address} wants AUTH, and the secret was not sent: an nsqlookupd named this address, and "
                f"without --tls, which proves a server's name, a secret goes only where --nsqd-tcp-address or "
                f"--auth-secret-to {host} allows it"
            )
        await self.request(b"AUTH\n" + sized(self.identity.auth_secret))

    @property
    def is_closed(self) -> bool:
        return self._end_reason != ""

    async def request(self, command: bytes) -> bytes:
        """Send a command that is answered, and return the answer's data.

        Several may be under way: the server answers in their order. Raises RefusedError, after which the server closes
        the connection, and DisconnectedError, after which it is unknown whether the command was carried out.
        """
        if self.is_closed:
            raise self.end_error()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        # A cancelled caller keeps its place in the line; its answer is dropped.
        answer.add_done_callback(_mark_seen)
        self._answers.append(answer)
        self._writer.write(command)
        try:
            await self._writer.drain()
        except OSError as exc:
            self._end(str(exc))
        return await answer

    def send(self, command: bytes) -> None:
        """Send a command that has no answer; does not wait. Raises DisconnectedError."""
        if self.is_closed:
            raise self.end_error()
        self._writer.write(command)

    def end_error(self) -> DisconnectedError:
        """The error by which the connection ended. Only for a closed one."""
        assert self._end_reason
        error = DisconnectedError(f"{self._address}: {self._end_reason}")
        error.__cause__ = self._refusal
        return error

    async def close(self) -> None:
        """Send the buffer, then end the connection. Pending requests get DisconnectedError. Repeatable."""
        self._end("the connection was closed")
        self._reading.cancel()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._writer.wait_closed()
        except OSError:
            self._writer.transport.abort()

    async def _read_forever(self) -> None:
        """Take frames until the connection ends, and keep the reason for `end_error`."""
        interval_ms = self.identity.heartbeat_interval_ms
        # The server sends a heartbeat every interval. After two silent ones it counts as gone; it treats clients alike.
        silence_max_s = 2 * interval_ms / 1000 + 1 if interval_ms > 0 else None
        try:
            while True:
                async with asyncio.timeout(silence_max_s):
                    size, frame_type = _unpack_prefix(await self._reader.readexactly(8))
                    if not 4 <= size <= FRAME_BYTES_MAX:
                        self._end(f"a frame of {size} bytes came; 4 to {FRAME_BYTES_MAX} are possible")
                        return
                    data = await self._reader.readexactly(size - 4)
                if frame_type == FRAME_TYPE_MESSAGE and len(data) < STORED_HEADER_BYTES:
                    self._end(f"a message of {len(data)} bytes came; the least is {STORED_HEADER_BYTES}")
                    return
                self._take_frame(frame_type, data)
        except asyncio.IncompleteReadError:
            self._end("the server closed the connection" + (f" after {self._refusal}" if self._refusal else ""))
        except TimeoutError:
            self._end(f"the server was silent for {silence_max_s:g} s")
        except OSError as exc:
            self._end(exc.strerror or str(exc))
        except Exception as exc:  # without an end, requests and receivers would wait for ever
            logger.exception("connection ended by a fault server=%s", self._address)
            self._end(f"a frame could not be handled: {exc!r}")

    def _take_frame(self, frame_type: int, data: bytes) -> None:
        if frame_type == FRAME_TYPE_MESSAGE:
            if self.on_message is not None:
                self.on_message(data)
        elif frame_type == FRAME_TYPE_RESPONSE:
            if data == b"_heartbeat_":
                self._writer.write(b"NOP\n")
            elif self._answers:
                answer = self._answers.popleft()
                if not answer.done():
                    answer.set_result(data)
        elif frame_type == FRAME_TYPE_ERROR:
            self._take_error(RefusedError(data.decode("utf-8", "replace")))

    def _take_error(self, error: RefusedError) -> None:
        if error.code in _UNANSWERED_FAILURES:
            if self.on_refused is not None:
                self.on_refused(error)
            else:
                logger.warning("refused server=%s error=%s", self._address, error)
            return
        self._refusal = error
        if self._answers:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_exception(error)

    def _end(self, reason: str) -> None:
        if self._end_reason:
            return
        self._end_reason = reason
        self._writer.close()
        while self._answers:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_exception(self.end_error())
        if self.on_end is not None:
            self.on_end()


def sized(body: bytes) -> bytes:
    """A body with its length before it, as PUB and IDENTIFY carry it."""
    return _pack_size(len(body)) + body


def checked_name(name: str) -> bytes:
    """The bytes of a topic's or channel's name. Raises ValueError: a stray newline would be a second command."""
    if not is_valid_name(name):
        raise ValueError(
            f"{name!r} is no name: 1 to {NAME_LENGTH_MAX} of . a-z A-Z 0-9 _ -, and #ephemeral behind them"
        )
    return name.encode()


def _about_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return error.reason or str(error)


def _mark_seen(answer: "asyncio.Future[bytes]") -> None:
    """Mark the answer's error as seen: asyncio would log it when the caller no longer waits."""
    if not answer.cancelled():
        answer.exception()


def connect_reason(exc: OSError) -> str:
    """Why connecting failed, in the system's words: asyncio's text repeats the address, or each of several."""
    numbers = [int(number) for number in re.findall(r"\[Errno (\d+)\]", str(exc))]
    return ", ".join(dict.fromkeys(map(os.strerror, numbers))) or exc.strerror or str(exc)
