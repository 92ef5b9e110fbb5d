"""The transport of an HTTP connection without a socket."""

from typing import Any


class HttpTransport:
    """What the connection writes, and whether it ended."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def get_extra_info(self, name: str) -> Any:
        return None if name == "socket" else ("127.0.0.1", 4151)

    def write(self, data: bytes) -> None:
        self.written += data

    def is_reading(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True
