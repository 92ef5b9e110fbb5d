"""The live socket of a page: log-in checked at connect and again while open, newest update only, paced by the browser.

    browser → {"subscribe": {"page": "channel", "topic": "orders", "channel": "billing"}}
    server  → {"seq": 17, "t": 1763683200000, "stats": {…}, "tables": {…}, "points": {…}, …}   an update a second
    browser → {"ack": 17}

At most two updates are unacknowledged; of later ones only the newest waits. A browser that acknowledges nothing for
ten seconds is disconnected. Close codes: 4400 not understood, 4401 log in, 4403 not allowed, 4408 too slow, 4429 too
many sockets or too many messages.
"""

import asyncio
import logging
import time
from typing import Any

import orjson
from autobahn.exception import Disconnected
from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import path

from admin_console.hub.hub import get_hub
from admin_console.live.broadcast import Broadcast
from admin_console.live.open_sockets import OpenSockets
from admin_console.live.socket_auth import SocketUser, allowed_user, session_key_of
from admin_console.screens.build import Request
from admin_console.vocabulary.current_cluster import PerCluster

logger = logging.getLogger(__name__)

NOT_UNDERSTOOD, LOG_IN, NOT_ALLOWED, TOO_SLOW, TOO_MANY = 4400, 4401, 4403, 4408, 4429
FAILED = 1011
UNACKED_MAX = 2
ACK_TIMEOUT_S = 10.0
SUBSCRIBE_TIMEOUT_S = 10.0
INCOMING_BYTES_MAX = 2_048
# A page sends one message a second; a burst of acknowledgements after a stall is far below this limit.
INCOMING_PER_10_S_MAX = 60
SOCKETS_MAX = 1_000
SOCKETS_PER_USER_MAX = 50

_broadcasts = PerCluster(lambda: Broadcast(get_hub()))
_open_sockets = OpenSockets()


class LiveConsumer(AsyncWebsocketConsumer):
    """One browser tab's socket."""

    open_sockets: dict[int, int] = {}  # user id → sockets, over the whole process
    ack_timeout_s = ACK_TIMEOUT_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._broadcast = _broadcasts.made()
        self._user: SocketUser | None = None
        self._request: Request | None = None
        self._session_key = ""
        self._is_counted = False
        self._is_over = False
        self._waiting: tuple[bytes, int] | None = None
        self._unacked: list[int] = []
        self._acked_at_s = 0.0
        self._incoming_at_s: list[float] = []
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self) -> None:
        user = await allowed_user(self.scope)
        # Accepted first: a browser sees the close code of an open socket only.
        await self.accept()
        if user is None:
            await self._end(LOG_IN)
            return
        held = self.open_sockets.get(user.user_id, 0)
        if held >= SOCKETS_PER_USER_MAX or sum(self.open_sockets.values()) >= SOCKETS_MAX:
            await self._end(TOO_MANY)
            return
        self._user = user
        self._is_counted = True
        self.open_sockets[user.user_id] = held + 1
        self._acked_at_s = time.monotonic()
        self._session_key = session_key_of(self.scope)
        _open_sockets.add(self._session_key, self)
        self._tasks = [asyncio.create_task(self._send_updates()), asyncio.create_task(self._watch_pace())]
        for task in self._tasks:
            task.add_done_callback(self._watch_task)

    async def disconnect(self, code: int) -> None:
        self._is_over = True
        if self._request is not None:
            self._broadcast.remove(self._request, self)
            self._request = None
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if self._is_counted and self._user is not None:
            self._is_counted = False
            _open_sockets.remove(self._session_key, self)
            left = self.open_sockets.get(self._user.user_id, 1) - 1
            if left > 0:
                self.open_sockets[self._user.user_id] = left
            else:
                self.open_sockets.pop(self._user.user_id, None)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._is_over or self._user is None:
            return
        now_s = time.monotonic()
        self._incoming_at_s = [at_s for at_s in self._incoming_at_s if now_s - at_s < 10.0]
        self._incoming_at_s.append(now_s)
        if len(self._incoming_at_s) > INCOMING_PER_10_S_MAX:
            await self._end(TOO_MANY)
            return
        if text_data is None or len(text_data) > INCOMING_BYTES_MAX:
            await self._end(NOT_UNDERSTOOD)
            return
        try:
            message = orjson.loads(text_data)
        except ValueError:
            message = None
        match message:
            case {"ack": int(sequence)}:
                self._acked(sequence)
            case {"subscribe": page_fields}:
                await self._subscribe(page_fields)
            case _:
                await self._end(NOT_UNDERSTOOD)

    def offer(self, update: bytes, sequence: int) -> None:
        """Take an update to send when the browser is ready for it; an older one that still waits is dropped."""
        self._waiting = (update, sequence)
        self._wake.set()

    async def _subscribe(self, page_fields: object) -> None:
        assert self._user is not None, "only an open socket receives"
        try:
            request = Request.parse(page_fields, self._user.role)
        except ValueError as exc:
            logger.info("refused a subscription user=%s why=%s", self._user.username, exc)
            await self._end(NOT_UNDERSTOOD)
            return
        if self._request is not None:
            self._broadcast.remove(self._request, self)
        self._request = request
        self._broadcast.add(request, self)
        live = get_hub().live
        if live is not None:
            self.offer(await self._broadcast.build_update(request, live), live.snapshot.sequence)

    def _acked(self, sequence: int) -> None:
        # Updates arrive in order: an acknowledgement covers those before it.
        self._unacked = [sent for sent in self._unacked if sent > sequence]
        self._acked_at_s = time.monotonic()
        self._wake.set()

    async def _send_updates(self) -> None:
        while not self._is_over:
            await self._wake.wait()
            self._wake.clear()
            if self._waiting is None or len(self._unacked) >= UNACKED_MAX:
                continue
            update, sequence = self._waiting
            self._waiting = None
            if not self._unacked:
                self._acked_at_s = time.monotonic()
            self._unacked.append(sequence)
            try:
                await self.send(text_data=update.decode())
            except Disconnected:
                # A browser that leaves sends a close frame. Until its connection has gone, which `disconnect` reports,
                # Daphne refuses messages to a closed socket.
                self._is_over = True

    async def checked(self, user: SocketUser | None) -> None:
        """End the socket unless `user`, as `OpenSockets` has read him, is the one it was opened for."""
        if user is None:
            await self._end(LOG_IN)
        elif self._user is not None and user.role != self._user.role:
            # The page was made for another role. It reloads, with the buttons of the new one.
            await self._end(NOT_ALLOWED)

    async def unknown(self) -> None:
        """End the socket: `OpenSockets` could not read for too long whether its log-in still holds."""
        await self._end(FAILED)

    async def _watch_pace(self) -> None:
        """End the socket of a page that does not subscribe, or of a browser that acknowledges nothing."""
        opened_at_s = time.monotonic()
        while not self._is_over:
            await asyncio.sleep(self.ack_timeout_s / 2)
            now_s = time.monotonic()
            has_stalled = bool(self._unacked) and now_s - self._acked_at_s > self.ack_timeout_s
            if has_stalled or (self._request is None and now_s - opened_at_s > SUBSCRIBE_TIMEOUT_S):
                await self._end(TOO_SLOW)

    async def _end(self, code: int) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._wake.set()
        await self.close(code)

    def _watch_task(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            logger.error("a socket's task failed", exc_info=task.exception())
            if not self._is_over:
                self._tasks.append(asyncio.get_running_loop().create_task(self._end(FAILED)))


# The sockets' paths; each has its rule in permissions/table.py. Django's annotations of `path` allow views only.
_live: Any = LiveConsumer.as_asgi()
websocket_urlpatterns: list[Any] = [path("ws/live/", _live)]
