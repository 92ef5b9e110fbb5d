"""Spark's wire protocol as a stranger on the same machine speaks it: without the secret.

frame v1, big-endian | length u64, of the whole frame | type u8 | header | body |
A request for an RPC has the header id u64, body length u32; one for a chunk has stream id u64, chunk u32, and no body.
"""

import socket
import struct
from types import TracebackType

CHUNK_REQUEST, CHUNK_SUCCESS, RPC_REQUEST, RPC_RESPONSE, RPC_FAILURE = 0, 1, 3, 4, 5
_OPEN_BLOCKS = 0
_TIMEOUT_S = 20.0


class Stranger:
    """A connection to a port of Spark's on loopback. Use as a context.

    Each request returns the answer's type and what follows it; type -1 when Spark closes the connection instead.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _TIMEOUT_S)
        self._file = self._socket.makefile("rb")

    def ask(self, endpoint: str, driver_port: int, content: bytes) -> tuple[int, bytes]:
        """content: a message for the endpoint, as Java serializes it. The answer's body, or the reason of a failure."""
        no_sender, receiver = b"\0", b"\1" + _utf("127.0.0.1") + struct.pack(">i", driver_port)
        return self._rpc(no_sender + receiver + _utf(endpoint) + content)

    def block(self, app_id: str, block_id: str) -> tuple[int, bytes]:
        """The bytes of a block of the driver's block manager, or the reason of a failure."""
        wanted = (
            struct.pack(">B", _OPEN_BLOCKS) + _text(app_id) + _text("driver") + struct.pack(">i", 1) + _text(block_id)
        )
        kind, answer = self._rpc(wanted)
        if kind != RPC_RESPONSE:
            return kind, answer
        stream_id = answer[1:9]
        kind, answer = self._exchange(CHUNK_REQUEST, stream_id + struct.pack(">i", 0))
        return kind, answer[12:]

    def _rpc(self, body: bytes) -> tuple[int, bytes]:
        kind, answer = self._exchange(RPC_REQUEST, struct.pack(">qi", 1, len(body)) + body)
        return kind, answer[12:]

    def _exchange(self, kind: int, rest: bytes) -> tuple[int, bytes]:
        self._socket.sendall(struct.pack(">qB", 9 + len(rest), kind) + rest)
        try:
            head = self._file.read(9)
            if len(head) < 9:
                return -1, b""
            length, answered = struct.unpack(">qB", head)
            return answered, self._file.read(length - 9)
        except ConnectionResetError:
            return -1, b""

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()
