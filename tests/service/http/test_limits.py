"""What an HTTP connection costs at most: sizes, deadlines, numbers; and that it stays in order meanwhile.

Each test runs on uvloop, as the product does, and on asyncio's own loop: they differ in how a socket ends.
"""

import asyncio
import functools
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from queue_engine.service.http.exchange.connection import HEAD_BYTES_MAX, ConnectionLimits
from tests.service.http.server import LIMITS, Server, http_server, request_bytes
from tests.support.http_transport import HttpTransport
from tests.support.stores.delayed_store import DelayedStore
from tests.support.waiting import wait_for_async

SHORT = ConnectionLimits(idle_timeout_ms=150, read_timeout_ms=150, write_timeout_ms=150)


def on_both_loops(scenario: Callable[[Path], Awaitable[None]]) -> Callable[..., None]:
    asyncios_own = pytest.param(asyncio.new_event_loop, marks=pytest.mark.slow(reason="uvloop has the same test"))

    @pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncios_own], ids=["uvloop", "asyncio"])
    @functools.wraps(scenario)
    def run(new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(asyncio.wait_for(scenario(tmp_path), 30))

    del run.__wrapped__  # pytest is to see run's own parameters
    return run


async def until(server: Server, *, connections: int) -> None:
    """Wait until so many connections are open."""
    await wait_for_async(
        f"{connections} connections", lambda: server.api.connection_count == connections, every_s=0.005
    )


@on_both_loops
async def test_requests_sent_ahead_are_answered_in_order(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        client = await server.connect()
        many = [request_bytes("POST", f"/topic/create?topic=t{number}") for number in range(100)]
        many += [request_bytes("POST", "/pub?topic=t0", b"x" * number) for number in range(1, 100)]
        many += [request_bytes("POST", "/pub?topic=t0"), request_bytes("GET", "/ping")]
        await client.send(b"".join(many))
        statuses = [(await client.read_answer()).status for _ in many]
        assert statuses == [200] * 199 + [400, 200]
        assert server.engine.catalog.topic("t0").store.depth == 99


@on_both_loops
async def test_a_request_in_single_bytes_is_a_request(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        client = await server.connect()
        for byte in request_bytes("POST", "/pub?topic=t", b"hello"):
            await client.send(bytes([byte]))
        assert (await client.read_answer()).status == 200


@on_both_loops
async def test_a_body_in_chunks_is_joined_and_counted(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_msg_size=1000) as server:
        client = await server.connect()
        head = b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        await client.send(head + b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")
        assert (await client.read_answer()).status == 200
        assert server.engine.catalog.topic("t").store.depth == 1
        # More than allowed is refused as soon as it is more, and the rest is not waited for.
        await client.send(head + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\nx\r\n")
        answer = await client.read_answer()
        assert (answer.status, answer.message) == (413, "MSG_TOO_BIG")
        assert answer.headers[b"connection"] == b"close"
        await client.expect_closed()


class CountedReads(HttpTransport):
    """Whether the connection reads from it."""

    reads = True

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


@on_both_loops
async def test_a_body_in_tiny_chunks_gives_others_a_turn(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        connection, transport = server.api.protocol_factory(), CountedReads()
        connection.connection_made(cast(asyncio.Transport, transport))
        head = b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.data_received(head + b"1\r\nx\r\n" * 1_000)
        assert not transport.reads, "the next read waits for the turns of others"
        await wait_for_async("its turns", lambda: transport.reads)
        connection.data_received(b"0\r\n\r\n")
        await wait_for_async("the answer", lambda: transport.written.startswith(b"HTTP/1.1 200"))
        connection.connection_lost(None)


async def test_a_piece_of_a_body_costs_no_copy_of_what_came_with_it(tmp_path: Path) -> None:
    copied_bytes = 0

    class Watched(bytearray):
        def __getitem__(self, which: Any) -> Any:
            nonlocal copied_bytes
            got = super().__getitem__(which)
            copied_bytes += len(got) if isinstance(which, slice) else 0
            return got

        def __bytes__(self) -> bytes:
            raise AssertionError(f"all {len(self)} bytes are copied")

    async with http_server(tmp_path) as server:
        connection, transport = server.api.protocol_factory(), CountedReads()
        connection.connection_made(cast(asyncio.Transport, transport))
        head = b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.data_received(head)
        connection._http._receive_buffer._data = Watched()
        pieces = 5_000
        connection.data_received(b"1\r\nx\r\n" * pieces + b"f4240\r\n" + b"x" * 400_000)
        await wait_for_async("all pieces to be read", lambda: len(connection._body) >= pieces)
        assert copied_bytes <= pieces * (HEAD_BYTES_MAX + 100) + 1_000_000
        connection.connection_lost(None)


async def test_what_follows_a_body_in_chunks_is_bounded(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        client = await server.connect()
        head = b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
        await client.send(head + b"0\r\nX: " + b"x" * HEAD_BYTES_MAX + b"\n\r\n")
        answer = await client.read_answer()
        assert (answer.status, answer.body) == (431, b"431 Request Header Fields Too Large")
        await client.expect_closed()


@on_both_loops
async def test_a_declared_size_is_refused_before_the_body(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        client = await server.connect()
        await client.send(b"POST /mpub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n")
        answer = await client.read_answer()
        assert (answer.status, answer.message) == (413, "BODY_TOO_BIG")
        assert answer.detail == "the body has 999999999999 bytes and the most is 5242880 bytes"
        await client.expect_closed()


@on_both_loops
async def test_a_refusal_reaches_a_client_that_is_still_sending(tmp_path: Path) -> None:
    # Closing at once would reset the connection and could lose the answer.
    async with http_server(tmp_path) as server:
        client = await server.connect()
        head = b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n\r\n"
        client.writer.write(head + b"x" * 4_000_000)
        answer = await client.read_answer()
        assert answer.message == "MSG_TOO_BIG"
        await client.expect_closed()  # an end, and not a reset


@on_both_loops
async def test_after_a_small_refused_body_the_connection_goes_on(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_msg_size=10) as server:
        client = await server.connect()
        await client.send(request_bytes("POST", "/pub?topic=t", b"x" * 11) + request_bytes("GET", "/ping"))
        assert (await client.read_answer()).message == "MSG_TOO_BIG"
        assert (await client.read_answer()).body == b"OK"


@on_both_loops
async def test_expect_continue(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        client = await server.connect()
        await client.send(
            request_bytes("POST", "/pub?topic=t", headers={"Expect": "100-continue", "Content-Length": "5"})
        )
        assert (await client.read_answer()).status == 100
        await client.send(b"hello")
        assert (await client.read_answer()).body == b"OK"
        # What would be refused is refused instead of asked for.
        await client.send(
            request_bytes("POST", "/pub?topic=t", headers={"Expect": "100-continue", "Content-Length": "5000000"})
        )
        assert (await client.read_answer()).status == 413


@on_both_loops
async def test_a_long_head_is_refused(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        client = await server.connect()
        await client.send(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * HEAD_BYTES_MAX)
        answer = await client.read_answer()
        assert (answer.status, answer.body) == (431, b"431 Request Header Fields Too Large")
        await client.expect_closed()


NO_HTTP = (
    b"nonsense\r\n\r\n",
    b"GET /ping\r\n\r\n",
    b"GET /ping HTTP/1.1\r\n\r\n",
    b"GET /ping HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    b"GET /ping HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n",
    b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    b"GET /ping HTTP/1.1\nHost: localhost\n\n",
    b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX: y\n\r\n",
    b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\n",
    b"POST /pub?topic=t HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\n",
    b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"  V2" + b"SUB t c\n" * 5000,
)


async def test_what_is_no_http_is_refused_and_closed(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for sent in NO_HTTP:
            client = await server.connect()
            await client.send(sent)
            answer = await client.read_answer()
            assert (answer.status, answer.body) == (400, b"400 Bad Request"), sent
            assert answer.detail, sent
            assert "bytearray" not in answer.detail
            await client.expect_closed()
            assert (await server.request("GET", "/ping")).status == 200
            assert server.engine.topics == {}, sent


@on_both_loops
async def test_http_1_0_and_connection_close_end_the_connection(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for request in (
            b"GET /ping HTTP/1.0\r\n\r\n",
            b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        ):
            client = await server.connect()
            await client.send(request)
            assert (await client.read_answer()).body == b"OK"
            await client.expect_closed()


@on_both_loops
async def test_head_is_refused_by_a_head_alone(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        client = await server.connect()
        await client.send(request_bytes("HEAD", "/ping"))
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 405 ")
        await client.send(request_bytes("GET", "/ping"))
        assert (await client.read_answer()).body == b"OK"


@on_both_loops
async def test_a_client_may_close_its_side_and_wait(tmp_path: Path) -> None:
    store = DelayedStore()
    async with http_server(tmp_path, open_store=lambda name: store) as server:
        client = await server.connect()
        await client.send(request_bytes("POST", "/pub?topic=t", b"x"))
        client.writer.write_eof()
        assert (await server.request("GET", "/ping")).status == 200
        store.complete()
        assert (await client.read_answer()).body == b"OK"
        await client.expect_closed()


@on_both_loops
async def test_a_client_that_ends_in_mid_request_is_forgotten(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        client = await server.connect()
        await client.send(b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab")
        client.writer.write_eof()
        assert (await client.read_answer()).status == 400
        await client.expect_closed()
        await until(server, connections=0)
        assert server.engine.topics == {}


@on_both_loops
async def test_a_slow_head_is_cut_however_it_drips(tmp_path: Path) -> None:
    async with http_server(tmp_path, limits=SHORT) as server:
        client = await server.connect()
        answer = asyncio.ensure_future(client.read_answer())
        # A byte every 10 ms would go on for four seconds.
        sent = 0
        for byte in b"GET /ping HTTP/1.1\r\nHost: localhost\r\n" * 10:
            if answer.done():
                break
            client.writer.write(bytes([byte]))
            sent += 1
            await asyncio.sleep(0.01)
        assert sent < 200
        assert ((await answer).status, (await answer).message) == (408, "REQUEST_TIMEOUT")


@on_both_loops
async def test_a_slow_body_is_cut(tmp_path: Path) -> None:
    async with http_server(tmp_path, limits=SHORT) as server:
        client = await server.connect()
        await client.send(b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab")
        answer = await client.read_answer()
        assert (answer.status, answer.message) == (408, "REQUEST_TIMEOUT")
        assert answer.detail == "the request was not complete in time; 2 bytes of its body had come"
        await client.expect_closed()


@on_both_loops
async def test_who_says_nothing_is_closed_without_a_word(tmp_path: Path) -> None:
    async with http_server(tmp_path, limits=SHORT) as server:
        silent, idle = await server.connect(), await server.connect()
        await idle.send(request_bytes("GET", "/ping"))
        await idle.read_answer()
        await silent.expect_closed()
        await idle.expect_closed()
        await until(server, connections=0)


@on_both_loops
async def test_an_answer_that_is_due_is_not_cut_by_a_deadline(tmp_path: Path) -> None:
    store = DelayedStore()
    async with http_server(tmp_path, limits=SHORT, open_store=lambda name: store) as server:
        client = await server.connect()
        await client.send(request_bytes("POST", "/pub?topic=t", b"x"))
        silent = await server.connect()
        await silent.expect_closed()  # so long the deadlines are
        silent = await server.connect()
        await silent.expect_closed()
        store.complete()
        assert (await client.read_answer()).body == b"OK"


@on_both_loops
async def test_who_does_not_read_is_cut_and_costs_one_answer(tmp_path: Path) -> None:
    async with http_server(tmp_path, limits=SHORT, max_topics=2000) as server:
        for number in range(2000):
            server.engine.acts.create_topic(f"{number:054d}#ephemeral")
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(raw, ("127.0.0.1", server.port))
        with raw:
            await loop.sock_sendall(raw, request_bytes("GET", "/stats?format=json") * 200)
            await until(server, connections=1)
            await until(server, connections=0)
        # An answer has 0.7 MB: no more were made than the socket and one buffer took.
        assert server.engine.stats.now().sequence < 20
        assert (await server.request("GET", "/ping")).status == 200


@on_both_loops
async def test_connections_are_counted_and_limited(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_connections=3) as server:
        first = [await server.connect() for _ in range(3)]
        await until(server, connections=3)
        refused = await server.connect()
        answer = await refused.read_answer()
        assert (answer.status, answer.message) == (503, "TOO_MANY_CONNECTIONS")
        assert answer.detail == "too many connections: the most is 3"
        await refused.expect_closed()
        first[0].close()
        await until(server, connections=2)
        assert (await server.request("GET", "/ping")).status == 200


@on_both_loops
async def test_who_is_idle_for_longest_makes_room_for_who_asks(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_connections=3) as server:
        kept = [await server.connect() for _ in range(3)]
        for connection in (kept[1], kept[0], kept[2]):
            await connection.send(request_bytes("GET", "/ping"))
            assert (await connection.read_answer()).status == 200
        asking = await server.connect()
        await asking.send(request_bytes("GET", "/ping"))
        assert (await asking.read_answer()).status == 200
        await kept[1].expect_closed()
        await until(server, connections=3)
        for connection in (kept[0], kept[2], asking):
            await connection.send(request_bytes("GET", "/ping"))
            assert (await connection.read_answer()).status == 200


@on_both_loops
async def test_a_stop_lets_the_answer_that_is_due_out(tmp_path: Path) -> None:
    store = DelayedStore()
    async with http_server(tmp_path, limits=LIMITS, open_store=lambda name: store) as server:
        idle, waiting = await server.connect(), await server.connect()
        await idle.send(request_bytes("GET", "/ping"))
        await idle.read_answer()
        await waiting.send(request_bytes("POST", "/pub?topic=t", b"x"))
        assert (await server.request("GET", "/ping")).status == 200
        server.api.close_connections()
        await idle.expect_closed()
        store.complete()
        answer = await waiting.read_answer()
        assert (answer.body, answer.headers[b"connection"]) == (b"OK", b"close")
        await waiting.expect_closed()
        await until(server, connections=0)
