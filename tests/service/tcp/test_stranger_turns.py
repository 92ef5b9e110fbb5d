"""Clients that owe a secret share one small turn, however many they are; who has given it has the turns of all."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from queue_engine.service.layers.compression_layer import CompressionLayer
from queue_engine.service.tcp.stranger_turns import STRANGER_COMMANDS, STRANGER_STEP_BYTES, StrangerTurns
from queue_engine.wire.protocol.deflate_codec import DeflateDecoder, DeflateEncoder
from tests.service.tcp.session_bench import Bench
from tests.service.tcp.test_client_auth import ANSWER, AUTH, Guarded, HeldGate, deploy
from tests.support.memory_session import MemorySession


class HeldTurns(StrangerTurns):
    """The test runs the pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[Callable[[], object]] = []

    def soon(self, piece: Callable[[], object]) -> None:
        self.pieces.append(piece)

    def run(self, count: int = 1) -> None:
        for _ in range(count):
            self.pieces.pop(0)()


@pytest.fixture
async def guarded(tmp_path: Path) -> Guarded:
    return Guarded(Bench(tmp_path), HeldGate())


@pytest.fixture
def turns() -> HeldTurns:
    return HeldTurns()


def stranger(guarded: Guarded, turns: StrangerTurns) -> MemorySession:
    client = guarded.client()
    client.strangers = turns
    return client


def unread(client: MemorySession) -> int:
    return client.session._parser.buffered_bytes // len(b"NOP\n")


async def test_strangers_do_a_few_commands_at_a_time_one_after_the_other(guarded: Guarded, turns: HeldTurns) -> None:
    clients = [stranger(guarded, turns) for _ in range(3)]
    for client in clients:
        client.send(b"NOP\n" * 3 * STRANGER_COMMANDS)
    done = 2 * STRANGER_COMMANDS
    assert [unread(client) for client in clients] == [done] * 3
    assert not any(client.transport.is_reading for client in clients)
    await asyncio.sleep(0)
    turns.run(4)
    assert [unread(client) for client in clients] == [0, done - STRANGER_COMMANDS, done - STRANGER_COMMANDS]
    turns.run(len(turns.pieces))
    turns.run(len(turns.pieces))
    assert (turns.pieces, [unread(client) for client in clients]) == ([], [0] * 3)
    assert all(client.transport.is_reading for client in clients)


async def test_who_says_at_once_who_it_is_waits_for_nobody(guarded: Guarded, turns: HeldTurns) -> None:
    flood, client = stranger(guarded, turns), stranger(guarded, turns)
    flood.send(b"NOP\n" * 1_000)
    client.send(b"IDENTIFY\n\0\0\0\2{}" + AUTH)
    guarded.gate.answers.put_nowait(deploy())
    await guarded.settle(client)
    assert client.frames == ["OK", ANSWER]
    client.send(b"NOP\n" * 500)
    assert (unread(client), len(turns.pieces)) == (0, 1)


async def test_auth_among_what_waits_ends_the_waiting(guarded: Guarded, turns: HeldTurns) -> None:
    client = stranger(guarded, turns)
    client.send(b"NOP\n" * STRANGER_COMMANDS + AUTH + b"NOP\n" * 900 + b"NONSENSE\n")
    turns.run()
    guarded.gate.answers.put_nowait(deploy())
    await guarded.settle(client)
    assert turns.pieces == []
    assert client.frames == [ANSWER, "E_INVALID invalid command NONSENSE"]


async def test_a_stranger_that_goes_while_it_waits_costs_nothing_more(guarded: Guarded, turns: HeldTurns) -> None:
    client = stranger(guarded, turns)
    client.send(b"NOP\n" * 1_000)
    client.leave()
    turns.run()
    assert (turns.pieces, unread(client)) == ([], 0)


async def test_what_a_stranger_has_compressed_is_unpacked_a_little_at_a_time(
    guarded: Guarded, turns: HeldTurns
) -> None:
    client = stranger(guarded, turns)
    session = client.session
    layer = CompressionLayer(client.transport, session, DeflateEncoder(6), DeflateDecoder(), session)
    layer.insert()
    session._transport = session._reading.transport = layer
    encoder = DeflateEncoder(9)
    layer.data_received(b"".join(encoder.encode(b"NOP\n" * (1 << 20))))  # 4 KB that stand for 4 MiB
    assert unread(client) <= STRANGER_STEP_BYTES // len(b"NOP\n") - STRANGER_COMMANDS
    turns.run(len(turns.pieces))
    # Bytes that stand for nothing take time, too: a larger read of them waits for its turn.
    nothing = stranger(guarded, turns)
    layer = CompressionLayer(nothing.transport, nothing.session, DeflateEncoder(6), DeflateDecoder(), nothing.session)
    layer.insert()
    before = len(turns.pieces)
    layer.data_received(b"\0\0\0\xff\xff" * 50_000)
    assert not nothing.transport.is_reading
    assert len(turns.pieces) == before + 1


async def test_pieces_run_one_by_one_in_order_and_one_that_fails_stops_none() -> None:
    turns, ran, told = StrangerTurns(), list[int](), list[object]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    done = asyncio.Event()
    error = RuntimeError("on purpose")

    def fails() -> None:
        raise error

    turns.soon(lambda: ran.append(1))
    turns.soon(fails)
    turns.soon(lambda: ran.append(2))
    turns.soon(done.set)
    assert ran == []
    await asyncio.wait_for(done.wait(), 30)
    assert (ran, told) == ([1, 2], [error])
