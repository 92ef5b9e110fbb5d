"""A layer of a connection: a protocol for the transport below, a transport for the protocol above.

    session                    commands, answers and messages
    compression_layer.py       snappy or deflate, when IDENTIFY has agreed on one
    tls_layer.py               TLS, when IDENTIFY has agreed on it, and on HTTPS from the first byte
    the socket's transport     uvloop's

Who is above writes, pauses reading and closes as on a transport. A connection without layers has the socket's
transport itself, so it pays nothing for them.
"""

import asyncio
from typing import Any, cast


class Layer(asyncio.Transport, asyncio.Protocol):
    """Passes everything on, unchanged. Above it is one protocol, below it one transport."""

    def __init__(self, below: asyncio.Transport, above: asyncio.Protocol) -> None:
        super().__init__()
        self._below = below
        self._above = above
        self._is_closing = False

    def insert(self) -> None:
        """Read from the transport below, from now on."""
        self._below.set_protocol(self)

    # The protocol above calls these.

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._below.write(data)

    def close(self) -> None:
        self._is_closing = True
        self._below.close()

    def abort(self) -> None:
        self._is_closing = True
        self._below.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._below.is_closing()

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def is_reading(self) -> bool:
        return self._below.is_reading()

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._above = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._above

    # The transport below calls these.

    def data_received(self, data: bytes) -> None:
        self._above.data_received(data)

    def eof_received(self) -> bool | None:
        return self._above.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._above.connection_lost(exc)

    def pause_writing(self) -> None:
        self._above.pause_writing()

    def resume_writing(self) -> None:
        self._above.resume_writing()
