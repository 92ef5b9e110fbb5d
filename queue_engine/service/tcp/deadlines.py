"""How long a client may take: for its magic, for a command with its body, and to read its output.

Nothing here closes a connection; the session does, which asks a few times a second. heartbeat.py has the silent ones.
"""

from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.options.options import Options

_MIB = 1 << 20


class Deadlines:
    """The deadlines of one connection. Times are monotonic nanoseconds. magic_timeout_ms: --magic-timeout."""

    def __init__(self, options: Options, now_ns: int) -> None:
        self.magic_timeout_ms = options.magic_timeout_ms
        self._command_timeout_ms = options.command_timeout_ms
        self._opened_ns = now_ns
        self._stuck_since_ns: int | None = None  # since when the client has read nothing of its output
        self._stuck_bytes = 0  # left when that was last looked at

    def begin_anew(self, now_ns: int) -> None:
        """Give the magic its whole time again: it could not be read meanwhile."""
        self._opened_ns = now_ns

    def is_magic_late(self, now_ns: int) -> bool:
        """Whether a connection whose magic is not complete is late."""
        return now_ns - self._opened_ns > self.magic_timeout_ms * NS_PER_MS

    def why_late(self, now_ns: int, began_ns: int, heard_ns: int, body_bytes: int) -> str:
        """Why an unfinished command takes too long, or "". heard_ns: when bytes last came. body_bytes: of its body."""
        timeout_ms = self._command_timeout_ms
        limit_ms = timeout_ms * (1 + body_bytes // _MIB)
        if now_ns - began_ns > limit_ms * NS_PER_MS:
            return f"command not complete within {limit_ms} ms (--command-timeout, once per MiB begun)"
        if now_ns - heard_ns > timeout_ms * NS_PER_MS:
            return f"command not complete, and nothing came for {timeout_ms} ms (--command-timeout)"
        return ""

    def writing_paused(self, now_ns: int, left_bytes: int) -> None:
        """The client has left so many bytes unread that the transport holds them."""
        self._stuck_since_ns = now_ns
        self._stuck_bytes = left_bytes

    def writing_resumed(self) -> None:
        self._stuck_since_ns = None

    def is_stuck(self, now_ns: int, left_bytes: int, limit_ns: int) -> bool:
        """Whether the client has read nothing for limit_ns while writing is paused. Call it at intervals: it looks
        whether fewer bytes are left than the last time."""
        if self._stuck_since_ns is None:
            return False
        if left_bytes < self._stuck_bytes:
            self._stuck_since_ns = now_ns
        elif now_ns - self._stuck_since_ns > limit_ns:
            return True
        self._stuck_bytes = left_bytes
        return False
