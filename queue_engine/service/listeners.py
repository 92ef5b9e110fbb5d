"""The sockets that one engine listens on: opened one after the other, closed all at once."""

import asyncio
from collections.abc import Callable

from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.addresses import joined, split_address

# Connections that the kernel holds until the loop accepts them: a reconnect storm fits.
BACKLOG = 1024


class Listeners:
    """Where the engine listens. Belongs to the engine's thread; the addresses may be read from any.

    tcp, http: host and port of NSQ's TCP protocol and of the HTTP API; ("", 0) until it listens there.
    """

    def __init__(self) -> None:
        self.tcp: tuple[str, int] = ("", 0)
        self.http: tuple[str, int] = ("", 0)
        self._servers: list[asyncio.Server] = []

    async def open_tcp(self, make_session: Callable[[], asyncio.Protocol], address: str) -> None:
        """address: HOST:PORT. Raises PenstockError when it can't listen there."""
        self.tcp = await self._listen(make_session, address)

    async def open_http(self, make_connection: Callable[[], asyncio.Protocol], address: str) -> None:
        """As `open_tcp`."""
        self.http = await self._listen(make_connection, address)

    def named(self) -> dict[str, str]:
        """Where it listens now, as start-up lines show it: name → HOST:PORT, in the order in which it began."""
        return {name: joined(*address) for name, address in (("TCP", self.tcp), ("HTTP", self.http)) if address[0]}

    def close(self) -> None:
        """Accept no more connections. Those that are open go on."""
        for server in self._servers:
            server.close()

    async def _listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> tuple[str, int]:
        """Host and port, the free one that was found for port 0."""
        host, port = split_address(address)
        try:
            server = await asyncio.get_running_loop().create_server(factory, host or None, port, backlog=BACKLOG)
        except OSError as exc:
            raise PenstockError(f"can't listen on {address}: {exc.strerror or exc}") from exc
        self._servers.append(server)
        name = server.sockets[0].getsockname()
        return name[0], name[1]
