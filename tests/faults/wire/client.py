"""A raw client of TCP V2 that never waits in a read: it keeps what came, frame by frame, until it is asked."""

import json
import select
import socket
import struct
import time
from collections.abc import Sequence

from tests.support.nsq_socket import FRAME_ERROR, FRAME_MESSAGE, FRAME_RESPONSE, HEARTBEAT, Message, sized
from tests.support.processes.engine_api import ANSWER_TIMEOUT_S

_UNKNOWN_ID = b"f" * 16
_CHUNK_BYTES = 1 << 20


class WireClosedError(Exception):
    """The server closed the connection."""


class WireSilentError(AssertionError):
    """The server did not answer in time."""


class WireClient:
    """One connection.

    cleared_ns: what the server had sent up to then (monotonic) has been read. errors: those that came and were not
    taken, in words.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._buffer = bytearray()
        self._frames: list[tuple[int, bytes]] = []
        self._is_closed = False
        self.cleared_ns = time.monotonic_ns()
        self.send(b"  V2")

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Send all of it, reading what comes meanwhile. Raises WireClosedError."""
        view = memoryview(data)
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while view:
            ready = self._wait(select.POLLIN | select.POLLOUT, deadline)
            if not ready:
                raise WireSilentError(f"the server takes no more of {len(data)} bytes")
            if ready & ~select.POLLOUT:
                self._read()
                if self._is_closed:
                    raise WireClosedError
            if ready & select.POLLOUT:
                try:
                    view = view[self._socket.send(view) :]
                except BlockingIOError:
                    continue
                except OSError:
                    self._is_closed = True
                    raise WireClosedError from None

    def _wait(self, events: int, deadline: float) -> int:
        """Wait for `events` (of select.poll) until the deadline. Returns those that came or errors; 0 for none."""
        poller = select.poll()  # select takes no descriptor from 1,024 on
        poller.register(self._socket, events)
        ready = poller.poll(max(deadline - time.monotonic(), 0) * 1_000)
        return ready[0][1] if ready else 0

    def _read(self) -> None:
        """Read the bytes that have arrived, without waiting."""
        while not self._is_closed:
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._is_closed = True
            self._buffer += data
            self._cut()

    def _cut(self) -> None:
        buffer = self._buffer
        at = 0
        while len(buffer) - at >= 8:
            size, kind = struct.unpack_from(">ii", buffer, at)
            if len(buffer) - at < 4 + size:
                break
            data = bytes(memoryview(buffer)[at + 8 : at + 4 + size])
            at += 4 + size
            if data == HEARTBEAT and kind == FRAME_RESPONSE:
                continue
            self._frames.append((kind, data))
        del buffer[:at]

    def messages(self) -> list[Message]:
        """The messages that have come by now."""
        self._read()
        return self._take_messages()

    def _take_messages(self) -> list[Message]:
        taken = [_message(data) for kind, data in self._frames if kind == FRAME_MESSAGE]
        self._frames = [frame for frame in self._frames if frame[0] != FRAME_MESSAGE]
        return taken

    def answer(self) -> tuple[int, bytes, list[Message]]:
        """The next answer or error, and the messages that came before it. Raises WireClosedError, WireSilentError."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            for index, (kind, data) in enumerate(self._frames):
                if kind != FRAME_MESSAGE:
                    messages = [_message(body) for _, body in self._frames[:index]]
                    del self._frames[: index + 1]
                    return kind, data, messages
            if self._is_closed:
                raise WireClosedError
            if not self._wait(select.POLLIN, deadline):
                raise WireSilentError("no answer came")
            self._read()

    def clear(self) -> tuple[list[Message], set[bytes]]:
        """All that the server had sent and answered until now: the messages, and the ids that it has refused.

        The client sends FIN for a message that does not exist: the refusal comes behind everything else. Twice, since
        the first may be answered in the turn that still has to write down what came before it.
        """
        messages: list[Message] = []
        refused: set[bytes] = set()
        for _ in range(2):
            began_ns = time.monotonic_ns()
            self.send(b"FIN " + _UNKNOWN_ID + b"\n")
            while True:
                kind, data, before = self.answer()
                messages += before
                assert kind == FRAME_ERROR, f"an answer to nothing: {data!r}"
                words = data.split(b" ")
                if words[0] not in (b"E_FIN_FAILED", b"E_REQ_FAILED", b"E_TOUCH_FAILED"):
                    raise AssertionError(f"an error that was not expected: {data!r}")
                if words[2] == _UNKNOWN_ID:
                    break
                refused.add(words[2])
        self.cleared_ns = began_ns
        return messages, refused

    def expect(self, wanted: bytes) -> list[Message]:
        """The next answer, which must be this one; returns the messages before it."""
        kind, data, messages = self.answer()
        assert (kind, data) == (FRAME_RESPONSE, wanted), f"{wanted!r} was expected and {data!r} came"
        return messages

    def identify(self, **agreed: int) -> None:
        self.send(b"IDENTIFY\n" + sized(json.dumps(agreed).encode()))
        self.expect(b"OK")

    def subscribe(self, topic: str, channel: str) -> None:
        self.send(f"SUB {topic} {channel}\n".encode())
        self.expect(b"OK")

    def say(self, verb: bytes, ids: Sequence[bytes], *rest: bytes) -> None:
        """One command for each id."""
        self.send(b"".join([b" ".join([verb, one, *rest]) + b"\n" for one in ids]))

    def close(self) -> None:
        self._socket.close()


def _message(data: bytes) -> Message:
    timestamp_ns, attempts = struct.unpack_from(">qH", data)
    return Message(timestamp_ns, attempts, data[10:26], data[26:])
