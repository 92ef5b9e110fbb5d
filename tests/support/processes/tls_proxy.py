"""A small HTTPS proxy such as stands before a console: ends TLS, adds forwarding headers, passes sockets through."""

import asyncio
import ssl
import threading
from pathlib import Path
from types import TracebackType

from tests.support.certificates import Authority

RECEIVE_BYTES = 1 << 16


class TlsProxy:
    """Runs in a thread of its own, on a free loopback port. Use as a context.

    One request a connection, but for a socket's upgrade. `client_context` trusts its certificate.
    """

    def __init__(self, directory: Path, host: str, backend_port: int) -> None:
        authority = Authority(directory, "authority")
        issued = authority.issue("proxy", hosts=(host,))
        self._server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server_context.load_cert_chain(issued.certificate, issued.key)
        self.client_context = ssl.create_default_context(cafile=str(authority.certificate))
        self.client_context.check_hostname = False  # the name is the proxy's, the address is loopback
        self.port = 0
        self._backend_port = backend_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "TlsProxy":
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._server_context), self._loop
        )
        self.port = starting.result(10).sockets[0].getsockname()[1]
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        backend_reader, backend_writer = await asyncio.open_connection("127.0.0.1", self._backend_port)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n")
            if b"\r\nupgrade: websocket" not in head.lower():
                # Beside a browser's own keep-alive a close would not be heeded, and later requests go unforwarded.
                lines = head.split(b"\r\n")
                head = b"\r\n".join(line for line in lines if not line.lower().startswith(b"connection:"))
                head += b"Connection: close\r\n"
            head += b"X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n"
            backend_writer.write(head + b"\r\n")
            await asyncio.gather(_pass_on(reader, backend_writer), _pass_on(backend_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass  # one side went away
        finally:
            writer.close()
            backend_writer.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(RECEIVE_BYTES):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
