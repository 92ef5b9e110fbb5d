"""A limit on request bodies, where they come in: Daphne alone would put any amount of them on the disk first."""

from typing import Any

from daphne.http_protocol import WebRequest

BODY_BYTES_MAX = 8 << 20  # a message of 1 MiB as a form, three times its size at worst, and room

_TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class BoundedRequest(WebRequest):  # type: ignore[misc]
    """Refuses a body that is announced too large at once, and a chunked one when it becomes so."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._body_bytes = 0
        self._is_refused = False

    def gotLength(self, length: int | None) -> None:
        super().gotLength(length)
        if length is not None and length > BODY_BYTES_MAX:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > BODY_BYTES_MAX:
            self._refuse()
        if not self._is_refused:
            super().handleContentChunk(data)

    def process(self) -> None:
        if not self._is_refused:
            super().process()

    def _refuse(self) -> None:
        if not self._is_refused:
            self._is_refused = True
            self.channel.transport.write(_TOO_LARGE)
            self.channel.loseConnection()
