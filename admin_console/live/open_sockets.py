"""The sockets that are open, by session, and one look for all of them at who may still hold one."""

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Protocol

from channels.db import database_sync_to_async
from django.db import DatabaseError

from admin_console.live.socket_auth import SocketUser, users_of

logger = logging.getLogger(__name__)

# A log-out, another role and a disabled user end their sockets in this time, and what a look takes.
LOOK_EVERY_S = 2.0
# While the database can't be read, sockets stay open for so long.
UNKNOWN_S_MAX = 15.0


class HeldSocket(Protocol):
    """An open socket. `checked` hears who holds it now, None when nobody may; `unknown` that it can't be known."""

    async def checked(self, user: SocketUser | None) -> None: ...

    async def unknown(self) -> None: ...


class OpenSockets:
    """Lives on the console's event loop; looks only while a socket is open."""

    look_every_s = LOOK_EVERY_S

    def __init__(self) -> None:
        self._by_session: dict[str, set[HeldSocket]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, session_key: str, socket: HeldSocket) -> None:
        self._by_session.setdefault(session_key, set()).add(socket)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_again_and_again())

    def remove(self, session_key: str, socket: HeldSocket) -> None:
        held = self._by_session.get(session_key, set())
        held.discard(socket)
        if not held:
            self._by_session.pop(session_key, None)
        if not self._by_session and self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            # It ends later, if at all while a look is on its way: a socket that opens meanwhile gets looks of its own.
            self._task = None

    async def _look_again_and_again(self) -> None:
        known_at_s = time.monotonic()
        task = asyncio.current_task()
        while self._by_session and self._task is task:
            await asyncio.sleep(self.look_every_s)
            looked_at = set(self._by_session)
            try:
                users = await database_sync_to_async(users_of)(list(looked_at))
            except Exception as exc:
                # Whatever it is: the sockets do not go without looks because one has failed.
                is_of_database = isinstance(exc, DatabaseError)
                logger.warning("who holds the open sockets can't be read: %s", exc, exc_info=not is_of_database)
                if time.monotonic() - known_at_s > UNKNOWN_S_MAX:
                    for _, socket in self._held():
                        await self._tell(socket.unknown())
                continue
            known_at_s = time.monotonic()
            for session_key, socket in self._held():
                # A socket that opened meanwhile was checked as it opened, and this look knows nothing of it.
                if session_key in looked_at:
                    await self._tell(socket.checked(users.get(session_key)))

    @staticmethod
    async def _tell(told: Awaitable[None]) -> None:
        try:
            await told
        except Exception:
            logger.exception("an open socket could not be told who holds it")  # the others are told all the same

    def _held(self) -> list[tuple[str, HeldSocket]]:
        return [(session_key, socket) for session_key, held in self._by_session.items() for socket in held]
