"""Whether a connection is read from: the reasons against it, and reading again when all of them are gone."""

import asyncio
from collections.abc import Callable

from queue_engine.service.admission.unread_bytes import has_unread_bytes

# Reasons to pause reading.
UNSETTLED = 1  # too many published bytes wait for their OK
UNREAD = 2  # the peer has left too many answers unread
BODY = 4  # there is no room for the body that has begun
CROWDED = 8  # there is no room for another body to begin
HELD = 16  # the answer to AUTH is awaited, or answers before that to IDENTIFY, behind which layers come
TURN = 32  # it has sent many commands, and other connections have their turn before its next ones
_OWED = UNSETTLED | HELD | TURN
WITHOUT_ROOM = BODY | CROWDED


class Reading:
    """The reading of one connection. transport: None until it is open, and once it closes. pauses: the reasons of now.

    on_resume: called with the last reason before reading goes on.
    """

    __slots__ = ("_on_resume", "pauses", "transport")

    def __init__(self, on_resume: Callable[[int], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self.pauses = 0
        self._on_resume = on_resume

    def waits_for_server(self) -> bool:
        """Whether the client need send nothing, since it waits for the server. One without room has to go on sending,
        or it waits for nothing."""
        if self.pauses & _OWED:
            return True
        return bool(self.pauses & WITHOUT_ROOM) and has_unread_bytes(self.transport)

    def pause(self, reason: int) -> None:
        if not self.pauses and self.transport is not None:
            self.transport.pause_reading()
        self.pauses |= reason

    def resume(self, reason: int) -> None:
        if not self.pauses & reason:
            return
        self.pauses &= ~reason
        if not self.pauses and self.transport is not None:
            self._on_resume(reason)
            self.transport.resume_reading()

    def begin_anew(self) -> None:
        """Read, despite all reasons: a layer comes between, and a reason that still holds is noticed again."""
        if self.pauses:
            self.resume(self.pauses)
