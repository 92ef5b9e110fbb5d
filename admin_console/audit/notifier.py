"""`--notification-http-endpoint`: a POST for each act of the console, once it is over.

    {"action": "pause_channel", "topic": "orders", "channel": "billing", "user": "ada", "timestamp": Unix seconds,
     "remote_ip": …, "user_agent": …, "url": of the request, "via": this machine, "outcome": "done", "message": …}

The names are nsqadmin's; `outcome` and `message` are ours, and `cluster` is, the name of a cluster that has one. A
channel created with its topic is two acts, as nsqadmin reports it: create_topic, then create_channel. An act of which
nothing was done is not reported: programs that read `action` alone would take it for done. A POST that fails is sent
again, in order, and given up after minutes.
"""

import asyncio
import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from admin_console.audit.models import AuditRow, Verdict
from admin_console.audit.record import set_result_listener

logger = logging.getLogger(__name__)

DELAYS_S = (1.0, 5.0, 30.0, 120.0)
WAITING_MAX = 1_000
STOP_S = 3.0
TIMEOUT_S = 10.0
# nsqadmin's names, where they differ.
_NAMES = {
    "tombstone_producer": "tombstone_topic_producer",
    "unregister_topic": "delete_topic",
    "unregister_channel": "delete_channel",
}
_CREATE_PATH = "/api/topics"  # of nsqadmin's interface: a topic, or a channel with its topic
_PARTLY = " done"  # in the outcomes by node


class Notifier:
    """Any thread; `offer` never waits. delays_s: before each further try of a POST."""

    def __init__(self, url: str, delays_s: Sequence[float] = DELAYS_S) -> None:
        self._url = url
        self._delays_s = delays_s
        self._waiting: deque[bytes] = deque()
        self._lost = 0
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="penstock-notifier", daemon=True)

    def start(self) -> None:
        set_result_listener(self.offer)
        self._thread.start()

    def stop(self) -> None:
        """Try each that waits once, STOP_S at most; after `start`, or without it."""
        set_result_listener(None)
        self._is_stopping = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        if self._waiting:
            logger.warning("%d notifications were not sent to %s", len(self._waiting), self._url)

    def offer(self, row: AuditRow) -> None:
        """The result of an act."""
        if row.verdict == Verdict.FAILED and _PARTLY not in row.detail:
            return
        for found in documents(row):
            if len(self._waiting) >= WAITING_MAX:
                with contextlib.suppress(IndexError):
                    self._waiting.popleft()
                self._lost += 1
                logger.warning("%s takes no notifications: %d of the oldest were dropped", self._url, self._lost)
            self._waiting.append(orjson.dumps(found))
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._changed.set)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._post_all())
        except Exception:
            logger.exception("no notification is sent any more")
        finally:
            self._loop.close()

    async def _post_all(self) -> None:
        from queue_engine.client.http_json import HttpJson

        async with HttpJson(timeout_s=TIMEOUT_S, redirects_max=0) as http:
            while True:
                while self._waiting:
                    body = self._waiting[0]
                    await self._post(http, body)
                    # A newer one may have pushed it out meanwhile.
                    if self._waiting and self._waiting[0] is body:
                        self._waiting.popleft()
                if self._is_stopping:
                    return
                await self._pause(None)

    async def _pause(self, delay_s: float | None) -> None:
        """Until something changes, or `delay_s` is over."""
        self._changed.clear()
        if self._waiting and delay_s is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), delay_s)

    async def _post(self, http: Any, body: bytes) -> None:
        from queue_engine.client.http_json import HttpRefusedError, UnreachableError

        reason = ""
        for delay_s in (0.0, *self._delays_s):
            if delay_s:
                until_s = self._loop.time() + delay_s
                while not self._is_stopping and (left_s := until_s - self._loop.time()) > 0:
                    await self._pause(left_s)
                if self._is_stopping:
                    return
            try:
                await http.post(self._url, body=body, content_type="application/json")
            except HttpRefusedError as exc:
                if 200 <= exc.status < 300:
                    return
                reason = str(exc)
            except UnreachableError as exc:
                reason = str(exc)
            else:
                return
        logger.warning("a notification is given up: %s", reason)


def documents(row: AuditRow) -> list[dict[str, Any]]:
    """An act's result as nsqadmin reports it."""
    origin = row.origin
    url = origin.url if origin is not None else ""
    found = {
        "action": _NAMES.get(row.action, row.action),
        "topic": row.topic,
        "channel": row.channel,
        "node": origin.detail.partition(",")[0] if origin is not None and row.action == "tombstone_producer" else "",
        "user": row.actor,
        "timestamp": row.at_ms // 1000,
        "remote_ip": row.address,
        "user_agent": origin.user_agent if origin is not None else "",
        "url": url,
        "via": socket.gethostname(),
        "outcome": row.verdict,
        "message": row.message,
        "cluster": row.cluster,
    }
    made = [found]
    if row.action == "register_name" or urlsplit(url).path.endswith(_CREATE_PATH):
        made = [found | {"action": "create_topic", "channel": ""}]
        if row.channel:
            made.append(found | {"action": "create_channel"})
    optional = ("channel", "node", "user", "cluster")
    return [{name: value for name, value in one.items() if value or name not in optional} for one in made]
