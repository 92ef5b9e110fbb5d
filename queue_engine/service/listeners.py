"""The sockets that one engine listens on: all are bound before it reads its files, and closed all at once."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from itertools import chain

from queue_engine.service.layers.tls_layer import tls_first
from queue_engine.service.unix_socket import UnixSocket
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.addresses import NO_PORT, is_socket_path, joined, split_address
from queue_engine.vocabulary.options.options import Options

# Connections that the kernel holds until the loop accepts them: a reconnect storm fits.
BACKLOG = 1024
TCP_ADDRESS, HTTP_ADDRESS, HTTPS_ADDRESS = "--tcp-address", "--http-address", "--https-address"


def bound(address: str, option: str) -> list[socket.socket]:
    """Sockets at HOST:PORT that do not listen yet: one for each address that the host's name has.

    option: names the address on the command line. Raises PenstockError, with a sentence that has both.
    """
    host, port = split_address(address)
    sockets: list[socket.socket] = []
    try:
        # In bytes: for a text Python imports the code of international names.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, place in dict.fromkeys(found):
            try:
                one = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue  # a kernel without this family, though the name has such an address
            sockets.append(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(place)
        if not sockets:
            raise OSError("its host has no address that this machine can have")
    except OSError as exc:
        for one in sockets:
            one.close()
        raise cannot_listen(address, option, exc) from exc
    return sockets


def cannot_listen(address: str, option: str, error: OSError) -> PenstockError:
    """The error for an address that can't be had."""
    or_end = ", or end the process that listens there" if error.errno == errno.EADDRINUSE else ""
    return PenstockError(
        f"can't listen on {address}: {error.strerror or error}. Give another address with {option}{or_end}"
    )


def address_of(one: socket.socket) -> str:
    """Where a socket is bound, as the command line has it."""
    name = one.getsockname()
    return name if isinstance(name, str) else joined(name[0], name[1])


class Listeners:
    """Where the engine listens. Belongs to the engine's thread once `bind` was called; the addresses may be read from
    any.

    tcp, http, https: host and port of NSQ's TCP protocol, of the HTTP API and of the same inside TLS; ("", 0) until it
    listens there. The path of a socket in the file system has NO_PORT.
    """

    def __init__(self) -> None:
        self.tcp: tuple[str, int] = ("", 0)
        self.http: tuple[str, int] = ("", 0)
        self.https: tuple[str, int] = ("", 0)
        self.bound: dict[str, list[socket.socket]] = {}
        """By option. A client that connects is refused until something listens."""
        self._unix_sockets: list[UnixSocket] = []
        self._servers: list[asyncio.Server] = []

    def bind(self, options: Options) -> None:
        """Bind all addresses of `options`. Raises PenstockError, with none bound, when one can't be had."""
        wanted = {TCP_ADDRESS: options.tcp_address, HTTP_ADDRESS: options.http_address}
        if options.has_tls:
            wanted[HTTPS_ADDRESS] = options.https_address
        try:
            for option, address in wanted.items():
                self.bound[option] = (
                    [self._bound_path(address, option)] if is_socket_path(address) else bound(address, option)
                )
        except PenstockError:
            self.close()
            raise

    def _bound_path(self, path: str, option: str) -> socket.socket:
        try:
            one = UnixSocket(path)
        except OSError as exc:
            raise cannot_listen(path, option, exc) from exc
        self._unix_sockets.append(one)
        return one.socket

    async def open_tcp(self, make_session: Callable[[], asyncio.Protocol], unsent_bytes_max: int) -> None:
        """unsent_bytes_max: of each connection, in the kernel; at a path its own limit holds. Raises PenstockError when
        another process has begun to listen there."""
        self.tcp = await self._listen(make_session, TCP_ADDRESS, unsent_bytes_max)

    async def open_http(self, make_connection: Callable[[], asyncio.Protocol]) -> None:
        self.http = await self._listen(make_connection, HTTP_ADDRESS)

    async def open_https(
        self, make_connection: Callable[[], asyncio.Protocol], context: Callable[[], ssl.SSLContext]
    ) -> None:
        """As `open_http`. context: for each new connection."""
        self.https = await self._listen(tls_first(make_connection, context), HTTPS_ADDRESS)

    def named(self) -> dict[str, str]:
        """Where it listens now, as start-up lines show it: name → HOST:PORT, in the order in which it began."""
        named = (("TCP", self.tcp), ("HTTP", self.http), ("HTTPS", self.https))
        return {name: joined(*address) for name, address in named if address[0]}

    def close(self) -> None:
        """Accept no more connections. Those that are open go on."""
        for server in self._servers:
            server.close()
        for one in chain.from_iterable(self.bound.values()):
            one.close()
        for unix_socket in self._unix_sockets:
            unix_socket.remove()

    async def _listen(
        self, factory: Callable[[], asyncio.Protocol], option: str, unsent_bytes_max: int | None = None
    ) -> tuple[str, int]:
        """Host and port, the free one that was found for port 0."""
        loop = asyncio.get_running_loop()
        for one in self.bound[option]:
            try:
                if one.family == socket.AF_UNIX:
                    self._servers.append(await loop.create_unix_server(factory, sock=one, backlog=BACKLOG))
                    continue
                if unsent_bytes_max is not None:  # accepted sockets have the same options
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes_max)
                self._servers.append(await loop.create_server(factory, sock=one, backlog=BACKLOG))
            except OSError as exc:  # several may bind an address before the first of them listens
                raise cannot_listen(address_of(one), option, exc) from exc
        first = self.bound[option][0].getsockname()
        return (first, NO_PORT) if isinstance(first, str) else (first[0], first[1])
