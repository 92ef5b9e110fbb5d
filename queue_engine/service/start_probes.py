"""Answers HTTP while the server starts, on the sockets that the HTTP API and the console take over.

The start keeps the engine's thread busy, and the console's has not begun. So a thread with a loop of its own answers:

    GET …/livez          200 OK
    everything else      503, where the start is; each answer closes its connection

`release` has it accept no more on a socket. Connections that come from then on, and those that the kernel holds, are
the new owner's; those that it has accepted get their answer. It needs neither the engine nor its loop.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from queue_engine.service.listeners import BACKLOG, address_of, cannot_listen

# Connections at once; further ones are closed.
CONNECTIONS_MAX = 64
# For a request's head to come, and for the client to read the answer.
_TIMEOUT_S = 5.0
_ACCEPT_AGAIN_S = 1.0
_HEAD_BYTES_MAX = 16 << 10
# A body is read up to this size: to close a socket with unread bytes would take the answer from the client.
_BODY_BYTES_MAX = 1 << 20
_ANSWER = (
    "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n"
    "Cache-Control: no-store\r\nRetry-After: 1\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
)


class StartProbes:
    """where: a few words about the start; called on this thread. All else may be called from any other."""

    def __init__(self, where: Callable[[], str]) -> None:
        self._where = where
        self._tls: dict[socket.socket, ssl.SSLContext | None] = {}  # of each socket that it accepts on
        self._connections = 0  # counted when they are accepted: the loop ends with the last
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def answer(self, sockets: Sequence[socket.socket], option: str, tls: ssl.SSLContext | None = None) -> None:
        """Listen on bound sockets. option: names their address on the command line. Raises PenstockError when another
        process has begun to listen at one of them."""
        for one in sockets:
            try:
                one.listen(BACKLOG)
            except OSError as exc:
                raise cannot_listen(address_of(one), option, exc) from exc
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_run_and_close, args=(self._loop,), name="penstock-starting", daemon=True).start()
        for one in sockets:
            self._tls[one] = tls
            self._loop.call_soon_threadsafe(self._watch, one)

    def release(self, sockets: Sequence[socket.socket]) -> None:
        """Accept no more on these sockets, which go on listening. The thread ends with the last socket."""
        loop, done = self._loop, Future[None]()
        if loop is None or not self._tls:
            return

        def let_go() -> None:
            for one in sockets:
                if one in self._tls:
                    del self._tls[one]
                    loop.remove_reader(one)
            done.set_result(None)
            self._end_with_the_last()

        loop.call_soon_threadsafe(let_go)
        done.result()

    def close(self) -> None:
        """Accept no more at all."""
        self.release(list(self._tls))

    def _watch(self, one: socket.socket) -> None:
        if one in self._tls:
            asyncio.get_running_loop().add_reader(one, self._accept, one)

    def _accept(self, one: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection, _ = one.accept()
        except BlockingIOError:
            return
        except OSError:  # as without descriptors: the kernel holds the connection meanwhile
            loop.remove_reader(one)
            loop.call_later(_ACCEPT_AGAIN_S, self._watch, one)
            return
        self._connections += 1
        task = loop.create_task(self._serve(connection, self._tls[one]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end_with_the_last(self) -> None:
        if self._loop is not None and not self._tls and not self._connections:
            self._loop.stop()
            self._loop = None

    async def _serve(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        connection.setblocking(False)
        reader = asyncio.StreamReader(limit=_HEAD_BYTES_MAX)
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        try:
            with suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_TIMEOUT_S):
                    if self._connections <= CONNECTIONS_MAX:
                        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=tls)
                        try:
                            await self._converse(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
                        finally:
                            transport.abort()  # all is sent, and read by the client or late
        finally:
            connection.close()
            self._connections -= 1
            # The transport closes its end in the loop's next round.
            loop.call_soon(self._end_with_the_last)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].split(b" ", 2)
        if target.partition(b"?")[0].endswith(b"/livez"):
            status, body = "200 OK", b"OK"
        else:
            status, body = "503 Service Unavailable", f"starting: {self._where()}".encode()
        writer.write(_ANSWER.format(status=status, length=len(body)).encode())
        if method != b"HEAD":
            writer.write(body)
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        left = _BODY_BYTES_MAX
        while left > 0 and (data := await reader.read(64 << 10)):
            left -= len(data)


def _run_and_close(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()
