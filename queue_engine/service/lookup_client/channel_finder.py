"""Asks nsqlookupds over HTTP which channels a topic has on other nodes, before the topic is created here.

Without that, a channel would miss messages published here until one of its consumers has found this server. The topic
waits for the answers, at most `--lookupd-find-timeout`; other topics go on.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import orjson

from queue_engine.service.loop.name_lookups import NameLookups, SocketAddress
from queue_engine.vocabulary.ticket import Ticket

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

# Requests under way; further topics wait for them within their own time.
REQUESTS_MAX = 32
ANSWER_BYTES_MAX = 1 << 20


class ChannelFinder:
    """Belongs to the engine's thread. `close` ends running requests."""

    def __init__(self, timeout_ms: int, names: NameLookups[list[SocketAddress]]) -> None:
        """timeout_ms: how long a topic waits at most."""
        self._timeout_s = timeout_ms / 1000
        self._names = names
        self._session: aiohttp.ClientSession | None = None
        self._requests = asyncio.Semaphore(REQUESTS_MAX)
        self._tasks: set[asyncio.Task[Any]] = set()

    def find(self, topic: str, addresses: Sequence[str]) -> tuple[Ticket, Sequence[str]]:
        """The names of the topic's channels at the nsqlookupds with these HTTP addresses. They are in the list when
        the ticket is done, which is never rejected: an nsqlookupd that does not answer is logged."""
        ticket, names = Ticket(), list[str]()
        task = asyncio.create_task(self._find(topic, addresses, names))
        self._tasks.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                logger.error("topic %s is created without its channels of other nodes", topic, exc_info=error)
            ticket.resolve()

        task.add_done_callback(ended)
        return ticket, names

    def prepare(self) -> None:
        """Have the client of HTTP ready before the first topic waits for it: importing it takes a third of a second,
        which the loop must not wait for."""
        if self._session is None and not self._tasks:
            task = asyncio.create_task(self._open_session())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
            await asyncio.sleep(0)  # the tickets are resolved by callbacks of the tasks
        if self._session is not None:
            await self._session.close()

    async def _find(self, topic: str, addresses: Sequence[str], names: list[str]) -> None:
        requests = [asyncio.create_task(self._channels_at(address, topic)) for address in addresses]
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.wait(requests)
        except TimeoutError:
            pass
        finally:
            for one in requests:
                one.cancel()
        for address, one in zip(addresses, requests, strict=True):
            if not one.done() or one.cancelled():
                why = f"no answer in {self._timeout_s:g} s"
            elif (error := one.exception()) is not None:
                why = str(error) or type(error).__name__
            else:
                names += [name for name in one.result() if name not in names]
                continue
            logger.warning("topic %s: nsqlookupd at %s did not return its channels: %s", topic, address, why)

    async def _channels_at(self, address: str, topic: str) -> list[str]:
        """Raises an error of aiohttp, OSError or ValueError."""
        async with self._requests:
            session = await self._open_session()
            url = f"http://{address}/channels?topic={quote(topic, safe='')}"
            async with session.get(url, allow_redirects=False) as answer:
                data = await answer.content.read(ANSWER_BYTES_MAX + 1)
                while not answer.content.at_eof() and len(data) <= ANSWER_BYTES_MAX:
                    data += await answer.content.read(ANSWER_BYTES_MAX + 1 - len(data))
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        if len(data) > ANSWER_BYTES_MAX:
            raise ValueError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        try:
            channels = orjson.loads(data)["channels"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as exc:
            raise ValueError("the answer names no channels") from exc
        if not isinstance(channels, list):
            raise ValueError("the answer names no channels")
        return [name for name in channels if isinstance(name, str)]

    async def _open_session(self) -> "aiohttp.ClientSession":
        if self._session is None:
            aiohttp = await asyncio.to_thread(__import__, "aiohttp")
            if self._session is None:
                self._session = aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(resolver=cast(Any, _Resolver(self._names, self._timeout_s))),
                    cookie_jar=aiohttp.DummyCookieJar(),
                )
        assert self._session is not None
        return self._session


class _Resolver:
    """An `aiohttp.abc.AbstractResolver`; that class would have aiohttp imported at the start."""

    def __init__(self, names: NameLookups[list[SocketAddress]], timeout_s: float) -> None:
        self._names = names
        self._timeout_s = timeout_s

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, Any]]:
        """The host's addresses of `family`, 0 for any. Raises OSError."""
        return [
            {"hostname": host, "host": address[0], "port": port, "family": found, "proto": protocol, "flags": 0}
            for found, _, protocol, _, address in await self._names.find(host, port, self._timeout_s)
            if family in (0, found)
        ]

    async def close(self) -> None:
        pass
