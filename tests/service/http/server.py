"""The HTTP API on a real socket and a real engine with a clock of the test's own, and a raw client for it.

Each answer that a test gets is checked against the API's own document (`documented.py`), and of each act that was done
the console makes its sentence.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import h11
import orjson

from admin_console.gateway.act_sentences import sentence_of
from queue_engine.delivery.stats import ActRecord
from queue_engine.engine.engine import Engine
from queue_engine.service.admission.act_gate import ActGate, GateOnLoop
from queue_engine.service.http.api import HttpApi, Ports
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.http.exchange.connection import ConnectionLimits
from queue_engine.service.identity.gate import Gate
from queue_engine.service.identity.guesses import Guesses
from queue_engine.service.identity.loaded_tokens import LoadedTokens
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.service.tcp.engine_turns import EngineTurns
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.permission import Permission
from tests.service.http.documented import check_answer, check_some_answer
from tests.support.clock import ManualClock
from tests.support.engine import make_engine

READ_TIMEOUT_S = 15.0  # for what comes at once, on a machine that may stall
LIMITS = ConnectionLimits(idle_timeout_ms=60_000, read_timeout_ms=10_000, write_timeout_ms=30_000)


@dataclass
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def message(self) -> str:
        """nsqd's word of an error."""
        assert self.headers[b"content-type"] == b"application/json; charset=utf-8"
        word: str = self.json["message"]
        return word

    @property
    def detail(self) -> str:
        """An error's sentence; "" for none. `documented.py` compares it with the body, where the body has one."""
        return unquote(self.headers.get(b"x-penstock-detail", b"").decode("ascii"))

    @property
    def code(self) -> str:
        """An error's finer word; "" for none."""
        return self.headers.get(b"x-penstock-code", b"").decode("ascii")


class HttpSocket:
    """One connection: sends the given bytes as they are; reads answers one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._http = h11.Connection(h11.CLIENT)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_answer(self) -> Answer:
        """The next answer; EOFError when the server closes instead."""
        if self._http.our_state is h11.IDLE:
            # What was really sent is the test's business; this readies h11 to read an answer to it.
            self._http.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
            self._http.send(h11.EndOfMessage())
        response: h11.Response | None = None
        body = b""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await asyncio.wait_for(self.reader.read(1 << 16), READ_TIMEOUT_S)
                if not data and response is None:
                    raise EOFError("the server closed without an answer")
                self._http.receive_data(data)
            elif isinstance(event, h11.InformationalResponse):
                return Answer(event.status_code, dict(event.headers), b"")
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert response is not None
                if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
                    self._http.start_next_cycle()
                headers = dict(response.headers)
                check_some_answer(response.status_code, headers, body)
                return Answer(response.status_code, headers, body)
            else:
                raise AssertionError(f"unexpected {event!r}")

    async def expect_closed(self) -> None:
        """The server closes and has nothing more to say."""
        assert await asyncio.wait_for(self.reader.read(), READ_TIMEOUT_S) == b""

    def close(self) -> None:
        self.writer.close()


@dataclass
class Server:
    """What a test needs of it."""

    engine: Engine
    api: HttpApi
    gate: Gate
    clock: ManualClock
    port: int
    acts: list[ActRecord] = field(default_factory=list)
    sockets: list[HttpSocket] = field(default_factory=list)

    @property
    def token_header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.engine.options.http_token}"}

    def new_token(self, *permissions: Permission, topics: tuple[str, ...] = (), valid_ms: int = 0) -> dict[str, str]:
        """The header of a new token, which the server knows."""
        file, now_ms = TokenFile(self.engine.options.data_path), self.clock.time_ns() // NS_PER_MS
        expires_ms = now_ms + valid_ms if valid_ms else 0
        name = f"token-{len(file.read() or ())}"
        secret = file.create(name, list(permissions), list(topics), expires_ms=expires_ms, by="", now_ms=now_ms)[1]
        self.gate.check()
        return {"Authorization": f"Bearer {secret}"}

    async def connect(self) -> HttpSocket:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.sockets.append(HttpSocket(reader, writer))
        return self.sockets[-1]

    async def request(
        self, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own."""
        socket = await self.connect()
        await socket.send(request_bytes(method, target, body, {"Host": f"127.0.0.1:{self.port}", **(headers or {})}))
        answer = await socket.read_answer()
        socket.close()
        check_answer(method, target, answer.status, answer.headers, answer.body)
        return answer


def request_bytes(method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in {"Host": "localhost", **(headers or {})}.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@asynccontextmanager
async def http_server(
    directory: Path,
    *,
    limits: ConnectionLimits | None = LIMITS,
    open_store: Any = None,
    gate: ActGate | None = None,
    own_token: str = "",
    takes_any_host: bool = False,
    **options: Any,
) -> AsyncIterator[Server]:
    """A server that ends with the block. takes_any_host: as the daemon does."""
    clock = ManualClock()
    turns = EngineTurns()
    engine = make_engine(
        directory,
        clock,
        open_store=open_store,
        on_work=turns.soon,
        broadcast_address="queue.example",
        **options,
    )
    turns.drive(engine)
    acts: list[ActRecord] = []
    ports = [4150, 0]
    on_loop = GateOnLoop(gate) if gate is not None else None
    own_gate = Gate(
        LoadedTokens(TokenFile(directory), clock),
        guesses=Guesses(clock),
        http_token=engine.options.http_token,
        own_token=own_token,
    )
    api = HttpApi(
        engine,
        ports=lambda: Ports(*ports),
        audit=HttpAudit(acts.append, on_loop),
        limits=limits,
        gate=own_gate,
        takes_any_host=takes_any_host,
    )
    listener = await asyncio.get_running_loop().create_server(api.protocol_factory, "127.0.0.1", 0)
    ports[1] = listener.sockets[0].getsockname()[1]
    server = Server(engine, api, own_gate, clock, ports[1], acts)
    try:
        yield server
        for act in acts:
            if act.is_done and act.outcome is not None:
                assert sentence_of(act.action, act.topic, act.channel, act.details, act.outcome)
    finally:
        for socket in server.sockets:
            socket.close()
        listener.close()
        api.close_connections()
        if open_store is None:
            engine.close()
