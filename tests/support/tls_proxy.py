"""A small HTTPS proxy before the console: what README's nginx recipe sets up, on a free loopback port."""

import asyncio
import datetime
import ipaddress
import ssl
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

START_TIMEOUT_S = 10.0
HEAD_BYTES_MAX = 65_536
CHUNK_BYTES = 65_536

Head = tuple[str, list[tuple[str, str]]]  # first line; header names in lower case, in order


class TlsProxy:
    """Serves https://127.0.0.1:`port` from a thread of its own and passes everything on to `upstream_port`.

    client_address: what it writes into X-Forwarded-For, in place of whatever the client sent there.
    upstream_port may be set after `start`: the server behind needs to know the proxy's port first.
    """

    def __init__(self, directory: Path, *, client_address: str) -> None:
        self.port = 0
        self.upstream_port = 0
        self._client_address = client_address
        self._context = _self_signed(directory)
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def origin(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(START_TIMEOUT_S), "the proxy did not come up"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context, limit=HEAD_BYTES_MAX)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await _read_head(reader):
                await self._pass_on(head, reader, writer)
        except (OSError, EOFError):
            pass  # either side went away
        finally:
            writer.close()

    async def _pass_on(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request and its answer over an upstream connection of its own; a socket, once upgraded, to its end."""
        first_line, headers = head
        theirs = dict(headers)
        kept = [
            item for item in headers if item[0] not in ("host", "connection", "upgrade") and "forwarded" not in item[0]
        ]
        kept += [
            ("host", theirs["host"].partition(":")[0]),  # nginx's $host has no port
            ("x-forwarded-for", self._client_address),
            ("x-forwarded-proto", "https"),
            ("connection", "upgrade"),
        ]
        if "upgrade" in theirs:
            kept.append(("upgrade", theirs["upgrade"]))
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.upstream_port, limit=HEAD_BYTES_MAX)
        try:
            up_writer.write(_written(first_line, kept))
            await _copy_body(theirs, reader, up_writer)
            answer = await _read_head(up_reader)
            if answer is None:
                raise EOFError("the server closed without an answer")
            status = answer[0].split(" ")[1]
            writer.write(_written(*answer))
            if status == "101":
                await _both_ways((reader, writer), (up_reader, up_writer))
                raise EOFError("the socket has ended")
            if status not in ("204", "304") and not first_line.startswith("HEAD "):
                await _copy_body(dict(answer[1]), up_reader, writer)
            await writer.drain()
        finally:
            up_writer.close()


async def _read_head(reader: asyncio.StreamReader) -> Head | None:
    """A request's or an answer's head; None at the end of the connection."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first_line, *lines = raw.decode("latin-1").split("\r\n")[:-2]
    parted = (line.partition(":") for line in lines)
    return first_line, [(name.lower(), value.strip()) for name, _, value in parted]


def _written(first_line: str, headers: list[tuple[str, str]]) -> bytes:
    return "\r\n".join([first_line, *(f"{name}: {value}" for name, value in headers), "", ""]).encode("latin-1")


async def _copy_body(headers: dict[str, str], source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    if "chunked" in headers.get("transfer-encoding", ""):
        while True:
            size_line = await source.readline()
            size = int(size_line.split(b";")[0], 16)
            target.write(size_line + await source.readexactly(size + 2))
            await target.drain()
            if not size:
                return
    left = int(headers.get("content-length", 0))
    while left:
        data = await source.readexactly(min(left, CHUNK_BYTES))
        left -= len(data)
        target.write(data)
        await target.drain()


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _both_ways(client: Ends, upstream: Ends) -> None:
    """Copy in both directions until one side ends; then neither is worth keeping."""
    directions = [
        asyncio.ensure_future(_copy_all(client[0], upstream[1])),
        asyncio.ensure_future(_copy_all(upstream[0], client[1])),
    ]
    _, pending = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    for direction in pending:
        direction.cancel()
    await asyncio.gather(*directions, return_exceptions=True)


async def _copy_all(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK_BYTES):
        target.write(data)
        await target.drain()


def _self_signed(directory: Path) -> ssl.SSLContext:
    """A server's context with a certificate of our own for 127.0.0.1, good for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = directory / "proxy.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
