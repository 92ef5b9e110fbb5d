"""The open sockets by session, and one database check for all of them: whose session still holds."""

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Protocol

from channels.db import database_sync_to_async
from django.db import DatabaseError

from admin_console.live.socket_auth import SocketUser, users_of

logger = logging.getLogger(__name__)

# After a log-out, another role or a disabled user, sockets end within this time and that of a check.
CHECK_EVERY_S = 2.0
# How long sockets stay open while the database can't be read.
UNKNOWN_S_MAX = 15.0


class OpenSocket(Protocol):
    """An open socket. `checked` gets the user of its session, None where it has ended; `unknown`: it can't be read."""

    async def checked(self, user: SocketUser | None) -> None: ...

    async def unknown(self) -> None: ...


class OpenSockets:
    """Belongs to the console's event loop; checks only while a socket is open."""

    check_every_s = CHECK_EVERY_S

    def __init__(self) -> None:
        self._by_session: dict[str, set[OpenSocket]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, session_key: str, socket: OpenSocket) -> None:
        self._by_session.setdefault(session_key, set()).add(socket)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._check_repeatedly())

    def remove(self, session_key: str, socket: OpenSocket) -> None:
        held = self._by_session.get(session_key, set())
        held.discard(socket)
        if not held:
            self._by_session.pop(session_key, None)
        if not self._by_session and self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            # The task may end later, after a check that is under way; a socket that opens meanwhile starts a new task.
            self._task = None

    async def _check_repeatedly(self) -> None:
        read_at_s = time.monotonic()
        task = asyncio.current_task()
        while self._by_session and self._task is task:
            await asyncio.sleep(self.check_every_s)
            checked_keys = set(self._by_session)
            try:
                users = await database_sync_to_async(users_of)(list(checked_keys))
            except Exception as exc:
                # The checks go on after any failure.
                is_of_database = isinstance(exc, DatabaseError)
                logger.warning("the users of the open sockets can't be read: %s", exc, exc_info=not is_of_database)
                if time.monotonic() - read_at_s > UNKNOWN_S_MAX:
                    for _, socket in self._held():
                        await self._call(socket.unknown())
                continue
            read_at_s = time.monotonic()
            for session_key, socket in self._held():
                # A socket that opened meanwhile was checked as it opened, and is not in `users`.
                if session_key in checked_keys:
                    await self._call(socket.checked(users.get(session_key)))

    @staticmethod
    async def _call(call: Awaitable[None]) -> None:
        try:
            await call
        except Exception:
            logger.exception("an open socket could not be checked")  # the check of the others goes on

    def _held(self) -> list[tuple[str, OpenSocket]]:
        return [(session_key, socket) for session_key, held in self._by_session.items() for socket in held]
