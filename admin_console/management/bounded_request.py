"""A request of the console: limits its body as it arrives, and reports its progress to its connection."""

from typing import Any

from daphne.http_protocol import WebRequest

from admin_console.vocabulary import form_limits

# Daphne itself writes any amount to the disk.
BODY_BYTES_MAX = form_limits.BYTES_MAX

_SENTENCE = f"The request has more than {BODY_BYTES_MAX >> 20} MiB, the most of the console. Nothing was done.\n"
_TOO_LARGE = (
    "HTTP/1.1 413 Content Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n"
    f"Content-Length: {len(_SENTENCE)}\r\nConnection: close\r\n\r\n{_SENTENCE}"
).encode()
# A proxy before the console may not support chunks in HTTP/1.0, and see another request in the body.
_CHUNKED_1_0 = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class BoundedRequest(WebRequest):
    """Refuses a body that is announced too large, a chunked one once it is, and chunks over HTTP/1.0."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._body_bytes = 0
        self._is_refused = False
        self._guard = self.channel.transport  # a GuardedConnection

    def isSecure(self) -> bool:
        return bool(self._guard.is_tls)

    def gotLength(self, length: int | None) -> None:
        self._guard.head_is_read(length)
        super().gotLength(length)
        if length is not None and length > BODY_BYTES_MAX:
            self._refuse(_TOO_LARGE)

    def handleContentChunk(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > BODY_BYTES_MAX:
            self._refuse(_TOO_LARGE)
        if not self._is_refused:
            super().handleContentChunk(data)

    def process(self) -> None:
        if self.clientproto != b"HTTP/1.1" and self.requestHeaders.hasHeader(b"transfer-encoding"):
            self._refuse(_CHUNKED_1_0)
        if self._is_refused:
            return
        self._guard.request_is_read()
        super().process()
        if self.transport is None:  # Daphne has given the connection to a WebSocket
            self._guard.is_now_a_socket()

    def finish(self) -> None:
        # Before `finish`, which may read the next request.
        self._guard.request_is_answered()
        super().finish()

    def _refuse(self, answer: bytes) -> None:
        if not self._is_refused:
            self._is_refused = True
            self.channel.transport.write(answer)
            self.channel.loseConnection()
