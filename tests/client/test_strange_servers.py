"""Our own client against servers that are not right: it never waits for good, and says why it ended."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from queue_engine.client.connection import ClientIdentity, Connection, DisconnectedError
from queue_engine.client.consumer import Consumer
from queue_engine.client.producer import Producer

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PROMPT = ClientIdentity(heartbeat_interval_ms=10)


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">ii", len(data) + 4, kind) + data


@asynccontextmanager
async def server_that(behaves: Behaviour) -> AsyncIterator[int]:
    """A server on a free loopback port that does `behaves` once it was sent an IDENTIFY; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"IDENTIFY\n")
        await behaves(reader, writer)
        await reader.read()  # until the client is gone
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes what comes and never answers."""


async def agrees(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers IDENTIFY, as a server without feature negotiation, and nothing after."""
    writer.write(frame(0, b"OK"))


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    async with server_that(says_nothing) as port:
        with pytest.raises(DisconnectedError, match=f"127.0.0.1:{port} did not answer within 0.1 s"):
            await Connection.open("127.0.0.1", port, timeout_s=0.1)


@pytest.mark.slow(reason="waits for the better part of a second")
async def test_a_server_that_falls_silent_is_given_up() -> None:
    async with server_that(agrees) as port, await Producer.open("127.0.0.1", port, PROMPT) as producer:
        assert producer.connection.agreed == {}
        with pytest.raises(DisconnectedError, match=r"the server was silent for 1\.02 s"):
            await producer.publish("t", b"x")


async def test_closing_ends_what_waits_for_an_answer() -> None:
    async with server_that(agrees) as port:
        producer = await Producer.open("127.0.0.1", port)
        waiting = asyncio.create_task(producer.publish("t", b"x"))
        await asyncio.sleep(0)
        await producer.close()
        with pytest.raises(DisconnectedError, match="the connection was closed"):
            await waiting


@pytest.mark.parametrize("size", [3, -1, (64 << 20) + 1])
async def test_an_impossible_frame_size_ends_the_connection(size: int) -> None:
    async def lies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(0, b"OK") + struct.pack(">ii", size, 2))

    async with server_that(lies) as port, await Producer.open("127.0.0.1", port) as producer:
        with pytest.raises(DisconnectedError, match=f"a frame of {size} bytes"):
            await producer.publish("t", b"x")


async def test_a_heartbeat_in_the_middle_of_answers_is_answered_and_is_none() -> None:
    heard = asyncio.get_running_loop().create_future()

    async def beats(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(0, b"OK"))
        await reader.readuntil(b"PUB t\n" + struct.pack(">i", 1) + b"x")
        writer.write(frame(0, b"_heartbeat_"))
        heard.set_result(await reader.readline())
        writer.write(frame(0, b"OK"))

    async with server_that(beats) as port, await Producer.open("127.0.0.1", port) as producer:
        await producer.publish("t", b"x")
        assert await heard == b"NOP\n"


@pytest.mark.parametrize("answer", [b"[]", b"{", b"null", b"[" * 100_000])
async def test_an_answer_to_identify_that_is_no_object_is_a_reason(answer: bytes) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(0, answer))

    async with server_that(answers) as port:
        with pytest.raises(DisconnectedError, match="no JSON object"):
            await Connection.open("127.0.0.1", port)


async def test_a_message_without_a_whole_header_ends_the_connection() -> None:
    async def lies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(0, b'{"max_rdy_count": "many"}'))
        await reader.readuntil(b"SUB t c\n")
        writer.write(frame(0, b"OK"))
        await reader.readuntil(b"RDY 1\n")
        writer.write(frame(2, b"short"))

    async with server_that(lies) as port, await Consumer.open("127.0.0.1", port, "t", "c") as consumer:
        async with asyncio.timeout(30):
            with pytest.raises(DisconnectedError, match="a message of 5 bytes came; the least is 26"):
                await consumer.receive()


async def test_a_fault_in_a_callback_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Else what waits for an answer would wait for ever."""

    async def delivers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(0, b"OK"))
        await reader.readuntil(b"PUB t\n" + struct.pack(">i", 1) + b"x")
        writer.write(frame(2, b"x" * 30))

    def fail(data: bytes) -> None:
        raise KeyError("a fault")

    async with server_that(delivers) as port, await Producer.open("127.0.0.1", port) as producer:
        producer.connection.on_message = fail
        with pytest.raises(DisconnectedError, match=r"a frame could not be handled: KeyError\('a fault'\)"):
            await producer.publish("t", b"x")
    assert "connection ended by a fault" in caplog.text
