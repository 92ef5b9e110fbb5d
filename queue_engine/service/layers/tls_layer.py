"""TLS on a connection, as the server's side of it: OpenSSL works on two buffers in memory, the socket stays ours.

So the handshake, its deadline, pauses and limits are those of any other connection, and nothing waits in a task.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

from queue_engine.service.layers.layer import Layer

# nsqd's deadline of a handshake.
HANDSHAKE_TIMEOUT_MS = 5_000
# The most bytes of a record, and so of a read of OpenSSL's.
_RECORD_BYTES = 16 << 10
# Output before the end of the handshake waits for it: an answer, no more.
_EARLY_BYTES_MAX = 64 << 10
# TLS itself answers a peer (key updates, alerts). A peer that asks for answers and reads none is cut at this.
_UNREAD_ANSWERS_MAX = 64 << 10
# Behind a large read the loop would read on at once, up to 32 times, and records of a byte take as long as full ones.
_LARGE_READ_BYTES = 128 << 10

# One for all connections, since the loop's thread alone reads: as much as uvloop reads from a socket at once.
_plain = memoryview(bytearray((256 << 10) + _RECORD_BYTES))


class TlsLayer(Layer):
    """Decrypts input, encrypts output. Call `insert`, then `data_received` with the bytes read before.

    on_done: the handshake is done; the session above may write. on_failed: it failed, with the reason; TLS's own alert
    is written, the transport below is open and has no reader.
    """

    def __init__(
        self,
        below: asyncio.Transport,
        above: asyncio.Protocol,
        context: ssl.SSLContext,
        *,
        on_done: Callable[[], None] | None = None,
        on_failed: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(below, above)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._on_done = on_done
        self._on_failed = on_failed
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._unread_answers = 0  # bytes of TLS's own answers, since the peer had read all
        self._is_paused = False  # who is above has paused reading
        self._is_turn_of_others = False
        self._is_below_paused = False
        self.is_done = False
        """Whether the handshake is done."""

    @property
    def tls(self) -> ssl.SSLObject:
        return self._tls

    # The protocol above calls these.

    def write(self, data: Any) -> None:
        if self._is_closing:
            return
        if not self.is_done:
            self._early_bytes += len(data)
            if self._early_bytes > _EARLY_BYTES_MAX:
                self.abort()
            else:
                self._early.append(bytes(data))
            return
        try:
            left = memoryview(data)
            while left:
                left = left[self._tls.write(left) :]
        except ssl.SSLError:
            self.abort()  # the peer has broken the stream
            return
        self._below.write(self._outgoing.read())

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self.is_done:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # the peer's own end is not waited for
            self._send()
        self._below.close()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._settle_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._settle_reading()

    def is_reading(self) -> bool:
        return not self._is_paused

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._tls if name == "ssl_object" else super().get_extra_info(name, default)

    # The transport below calls these.

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        self._incoming.write(data)
        if not self.is_done and not self._shake_hands():
            return
        self._read()
        if len(data) >= _LARGE_READ_BYTES and not self._is_turn_of_others:
            self._is_turn_of_others = True
            self._settle_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        self._is_turn_of_others = False
        self._settle_reading()

    def _settle_reading(self) -> None:
        """Pause the transport below as long as there is a reason."""
        is_wanted = self._is_paused or self._is_turn_of_others
        if is_wanted == self._is_below_paused or self.is_closing():
            return
        self._is_below_paused = is_wanted
        if is_wanted:
            self._below.pause_reading()
        else:
            self._below.resume_reading()

    def eof_received(self) -> bool | None:
        return self._above.eof_received() if self.is_done else False

    def _shake_hands(self) -> bool:
        """Go on with the handshake; returns whether it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return False
        except ssl.SSLError as exc:
            self._send()  # the alert
            if self._on_failed is None:
                self.abort_after_alert()
            else:
                self._on_failed(_reason(exc))
            return False
        self.is_done = True
        self._send()
        early, self._early = self._early, []
        on_done = self._on_done
        self._forget_callbacks()
        if on_done is not None:
            on_done()
        if early:
            self.write(b"".join(early))
        return not self._is_closing

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_callbacks()
        super().connection_lost(exc)

    def _forget_callbacks(self) -> None:
        """They are called once, and who has them has this layer: without the circle OpenSSL's memory goes with the
        connection, and not when the collector comes by."""
        self._on_done = self._on_failed = None

    def abort_after_alert(self) -> None:
        """End the connection once its output has gone."""
        self._is_closing = True
        self._below.close()

    def _read(self) -> None:
        """Pass on all that has come, in one piece: a socket's read at most."""
        parts: list[bytes] = []
        end = 0
        is_ended = False
        try:
            while True:
                if end + _RECORD_BYTES > len(_plain):
                    parts.append(bytes(_plain[:end]))
                    end = 0
                count = cast(int, self._tls.read(_RECORD_BYTES, _plain[end:]))
                if not count:
                    is_ended = True
                    break
                end += count
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            is_ended = True
        except ssl.SSLError:
            self._send()  # the alert
            self.abort_after_alert()
            return
        if end:
            parts.append(bytes(_plain[:end]))
        if self._outgoing.pending:
            if not self._below.get_write_buffer_size():
                self._unread_answers = 0
            self._unread_answers += self._outgoing.pending
            self._send()
            if self._unread_answers > _UNREAD_ANSWERS_MAX:
                self.abort()
                return
        if parts:
            self._above.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
        if is_ended and not self._is_closing and not self._above.eof_received():
            self.close()

    def _send(self) -> None:
        if self._outgoing.pending and not self._below.is_closing():
            self._below.write(self._outgoing.read())


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason in words: `NO_SHARED_CIPHER` → "no shared cipher"."""
    reason = getattr(error, "verify_message", "") or (error.reason or str(error)).replace("_", " ").lower()
    return f"TLS handshake failed: {reason}"


def tls_first(
    make_protocol: Callable[[], asyncio.Protocol], context: Callable[[], ssl.SSLContext]
) -> Callable[[], asyncio.Protocol]:
    """Makes the protocol of each new connection where TLS begins with the first byte, as on HTTPS: one that
    `make_protocol` makes, inside TLS of the context of now.

    It gets its connection before the handshake, so that limits and deadlines hold from the first moment. A
    handshake that takes longer than HANDSHAKE_TIMEOUT_MS is cut.
    """
    return lambda: _TlsEntry(make_protocol(), context())


class _TlsEntry(asyncio.Protocol):
    """Stands in for the protocol until the connection is there."""

    def __init__(self, above: asyncio.Protocol, context: ssl.SSLContext) -> None:
        self._above = above
        self._context = context

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        layer = TlsLayer(cast(asyncio.Transport, transport), self._above, self._context)
        layer.insert()
        asyncio.get_running_loop().call_later(HANDSHAKE_TIMEOUT_MS / 1000, _cut_if_stalled, layer)
        self._above.connection_made(layer)


def _cut_if_stalled(layer: TlsLayer) -> None:
    if not layer.is_done:
        layer.abort()
