"""A raw client of TCP V2: sends exactly the bytes that a test gives it, and reads frames one by one."""

import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

FRAME_RESPONSE = 0
FRAME_ERROR = 1
FRAME_MESSAGE = 2
HEARTBEAT = b"_heartbeat_"

DEFAULT_TIMEOUT_S = 30.0  # for what comes at once, on a machine that may stall


@dataclass(frozen=True)
class Message:
    """A delivered message, decoded from its frame."""

    timestamp_ns: int
    attempts: int
    id: bytes
    body: bytes


def sized(body: bytes) -> bytes:
    """A body behind its 4-byte length."""
    return struct.pack(">i", len(body)) + body


def mpub_body(bodies: Sequence[bytes]) -> bytes:
    """The body of an MPUB: the count, and each message behind its length."""
    return struct.pack(">i", len(bodies)) + b"".join(map(sized, bodies))


class NsqSocket:
    """One connection. Every read has a deadline and fails with TimeoutError when nothing comes."""

    def __init__(self, port: int | Path, *, magic: bytes = b"  V2", address: str = "127.0.0.1") -> None:
        """port: on loopback, or the path of a socket in the file system. address: our own."""
        if isinstance(port, Path):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(DEFAULT_TIMEOUT_S)
            self._socket.connect(str(port))
        else:
            at, timeout_s = ("127.0.0.1", port), DEFAULT_TIMEOUT_S
            self._socket = socket.create_connection(at, timeout_s, source_address=(address, 0))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        if magic:
            self.send(magic)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read_frame(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> tuple[int, bytes]:
        """Type and data of the next frame. Raises EOFError when the server closed the connection."""
        size, kind = struct.unpack(">ii", self._read_exactly(8, timeout_s))
        return kind, self._read_exactly(size - 4, timeout_s)

    def _read_exactly(self, count: int, timeout_s: float) -> bytes:
        self._socket.settimeout(timeout_s)
        while len(self._received) < count:
            try:
                data = self._receive()
            except ConnectionResetError:
                data = None
            if data is None:
                raise EOFError(f"closed with {self._received!r} unread")
            self._received += data
        data, self._received = self._received[:count], self._received[count:]
        return data

    def _receive(self) -> bytes | None:
        """What comes next; None at the end."""
        return self._socket.recv(1 << 16) or None

    def read_response(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> bytes:
        """The next frame, which must be a response."""
        kind, data = self.read_frame(timeout_s)
        assert kind == FRAME_RESPONSE, (kind, data)
        return data

    def read_beyond_heartbeats(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> tuple[int, bytes]:
        """The next frame that is no heartbeat. Heartbeats are answered, as a client library does."""
        while True:
            kind, data = self.read_frame(timeout_s)
            if (kind, data) != (FRAME_RESPONSE, HEARTBEAT):
                return kind, data
            self.send(b"NOP\n")

    def read_error(self) -> str:
        """The next frame but for heartbeats, which must be an error."""
        kind, data = self.read_beyond_heartbeats()
        assert kind == FRAME_ERROR, (kind, data)
        return data.decode()

    def read_message(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> Message:
        """The next frame but for heartbeats, which must be a message."""
        kind, data = self.read_beyond_heartbeats(timeout_s)
        assert kind == FRAME_MESSAGE, (kind, data)
        timestamp_ns, attempts = struct.unpack_from(">qH", data)
        return Message(timestamp_ns, attempts, data[10:26], data[26:])

    def expect_ok(self) -> None:
        """The next frame but for heartbeats is OK."""
        frame = self.read_beyond_heartbeats()
        assert frame == (FRAME_RESPONSE, b"OK"), frame

    def expect_closed(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """The server closes, having sent nothing more but heartbeats."""
        try:
            frame = self.read_beyond_heartbeats(timeout_s)
        except EOFError:
            assert self._received == b"", f"the last frame is torn: {self._received!r}"
            return
        raise AssertionError(f"another frame came instead of the end: {frame!r}")

    def read_until_closed(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[tuple[int, bytes]]:
        """The frames that come before the server closes; each must come, or the end, in time."""
        frames = []
        while True:
            try:
                frames.append(self.read_frame(timeout_s))
            except EOFError:
                return frames

    def expect_open(self) -> None:
        """Still served: a PUB is answered. Publishes to the topic "still-open"."""
        self.send(b"PUB still-open\n" + sized(b"yes"))
        self.expect_ok()

    def expect_silence(self, seconds: float) -> None:
        """Nothing comes for so long."""
        try:
            frame = self.read_frame(seconds)
        except TimeoutError:
            return
        raise AssertionError(f"silence was expected and this came: {frame!r}")

    def identify(self, **fields: Any) -> Any:
        """IDENTIFY with these fields; the decoded answer when features are negotiated, else b"OK"."""
        self.send(b"IDENTIFY\n" + sized(json.dumps(fields).encode()))
        answer = self.read_response()
        return json.loads(answer) if fields.get("feature_negotiation") else answer

    def subscribe(self, topic: str, channel: str, *, rdy: int = 0) -> None:
        self.send(f"SUB {topic} {channel}\n".encode())
        self.expect_ok()
        if rdy:
            self.send(b"RDY %d\n" % rdy)

    def publish(self, topic: str, *bodies: bytes) -> None:
        for body in bodies:
            self.send(f"PUB {topic}\n".encode() + sized(body))
            self.expect_ok()

    def finish(self, message: Message) -> None:
        self.send(b"FIN " + message.id + b"\n")

    def end(self) -> None:
        """Shut the writing side down, as `nc -N` does: the server gets the end, and may still answer."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "NsqSocket":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
