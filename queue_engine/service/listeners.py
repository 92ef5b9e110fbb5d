"""The sockets that one engine listens on: opened one after the other, closed all at once."""

import asyncio
import socket
import ssl
from collections.abc import Callable

from queue_engine.service.layers.tls_entry import tls_first
from queue_engine.service.unix_socket import UnixSocket
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.addresses import NO_PORT, is_socket_path, joined, split_address

# Connections that the kernel holds until the loop accepts them: a reconnect storm fits.
BACKLOG = 1024


class Listeners:
    """Where the engine listens. Belongs to the engine's thread; the addresses may be read from any.

    tcp, http, https: host and port of NSQ's TCP protocol, of the HTTP API and of the same inside TLS; ("", 0) until it
    listens there. The path of a socket in the file system has NO_PORT.
    """

    def __init__(self) -> None:
        self.tcp: tuple[str, int] = ("", 0)
        self.http: tuple[str, int] = ("", 0)
        self.https: tuple[str, int] = ("", 0)
        self._unix_sockets: list[UnixSocket] = []
        self._servers: list[asyncio.Server] = []

    async def open_tcp(self, make_session: Callable[[], asyncio.Protocol], address: str, unsent_bytes_max: int) -> None:
        """address: HOST:PORT, or a path. unsent_bytes_max: of each connection, in the kernel; at a path its own limit
        holds. Raises PenstockError when it can't listen there."""
        self.tcp = await self._listen(make_session, address, unsent_bytes_max)

    async def open_http(self, make_connection: Callable[[], asyncio.Protocol], address: str) -> None:
        """address: HOST:PORT, or a path. Raises PenstockError when it can't listen there."""
        self.http = await self._listen(make_connection, address)

    async def open_https(
        self, make_connection: Callable[[], asyncio.Protocol], address: str, context: Callable[[], ssl.SSLContext]
    ) -> None:
        """As `open_http`, HOST:PORT alone. context: for each new connection."""
        self.https = await self._listen(tls_first(make_connection, context), address)

    def named(self) -> dict[str, str]:
        """Where it listens now, as start-up lines show it: name → HOST:PORT, in the order in which it began."""
        named = (("TCP", self.tcp), ("HTTP", self.http), ("HTTPS", self.https))
        return {name: joined(*address) for name, address in named if address[0]}

    def close(self) -> None:
        """Accept no more connections. Those that are open go on."""
        for server in self._servers:
            server.close()
        for one in self._unix_sockets:
            one.remove()

    async def _listen(
        self, factory: Callable[[], asyncio.Protocol], address: str, unsent_bytes_max: int | None = None
    ) -> tuple[str, int]:
        """Host and port, the free one that was found for port 0."""
        if is_socket_path(address):
            await self._listen_at_path(factory, address)
            return address, NO_PORT
        host, port = split_address(address)
        try:
            server = await asyncio.get_running_loop().create_server(factory, host or None, port, backlog=BACKLOG)
        except OSError as exc:
            raise PenstockError(f"can't listen on {address}: {exc.strerror or exc}") from exc
        self._servers.append(server)
        if unsent_bytes_max is not None:
            for one in server.sockets:  # what it accepts has the same options
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes_max)
        name = server.sockets[0].getsockname()
        return name[0], name[1]

    async def _listen_at_path(self, factory: Callable[[], asyncio.Protocol], path: str) -> None:
        try:
            one = UnixSocket(path)
            self._unix_sockets.append(one)
            loop = asyncio.get_running_loop()
            self._servers.append(await loop.create_unix_server(factory, sock=one.socket, backlog=BACKLOG))
        except OSError as exc:
            raise PenstockError(f"can't listen on {path}: {exc.strerror or exc}") from exc
