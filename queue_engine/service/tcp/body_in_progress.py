"""The body of one connection's command that did not come in one read: it asks for room, and waits or is read."""

from collections.abc import Callable

from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.admission.unread_bytes import unread_bytes
from queue_engine.service.tcp import reading
from queue_engine.service.tcp.reading import Reading
from queue_engine.vocabulary.client_key import ClientKey
from queue_engine.wire.protocol.parser import Parser


class BodyInProgress:
    """The body in progress of one connection. Implements `BodyReader`. is_begun: a body is read, or waits for room.
    on_slow: ends the connection, with the reason."""

    __slots__ = ("_bodies", "_on_slow", "_parser", "_reading", "heard_ns", "is_begun")

    def __init__(self, bodies: PendingBodies, parser: Parser, of: Reading, on_slow: Callable[[str], None]) -> None:
        self._bodies = bodies
        self._parser = parser
        self._reading = of
        self._on_slow = on_slow
        self.heard_ns = 0
        self.is_begun = False

    def begin(self, client: ClientKey, size: int, now_ns: int) -> None:
        """Request room for a body of `size` bytes; reading pauses until it is granted."""
        self.is_begun = True
        self.heard_ns = now_ns
        if not self._bodies.request(self, client, size, self._parser.buffered_bytes):
            self._reading.pause(reading.BODY)

    def leave(self) -> None:
        """The body is complete, or its connection ends."""
        if self.is_begun:
            self.is_begun = False
            self._bodies.leave(self)

    # BodyReader.

    @property
    def received_bytes(self) -> int:
        return self._parser.buffered_bytes

    def unread_bytes(self) -> int:
        return unread_bytes(self._reading.transport)

    def body_granted(self) -> None:
        self._reading.resume(reading.BODY)

    def body_stalled(self, bytes_per_s: int) -> None:
        if not self._reading.waits_for_server():  # else the client may send nothing
            self._on_slow(
                f"the body comes at less than {bytes_per_s} bytes a second (a MiB in each --command-timeout), and "
                "others wait for room (--max-pending-body-bytes)"
            )
