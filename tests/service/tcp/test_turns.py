"""One connection sends more commands than a turn has time for: others have theirs between."""

import asyncio
from pathlib import Path

import pytest

from queue_engine.service.tcp.session import COMMANDS_PER_TURN
from tests.service.tcp.session_bench import Bench, pub
from tests.support.memory_session import MemorySession


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.known_topic("t")
    return bench


async def all_turns(client: MemorySession, turns: int = 10) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
        client.turn()


async def test_many_commands_take_many_turns_and_all_are_done(bench: Bench) -> None:
    client = bench.client()
    client.send(b"NOP\n" * (2 * COMMANDS_PER_TURN) + pub("t", b"m") + b"NONSENSE\n")
    assert not client.transport.is_reading, "the next read waits for the turns of others"
    client.turn()
    assert client.frames == []
    await all_turns(client)
    bench.stores["t"].complete()
    client.turn()
    assert client.frames == ["OK", "E_INVALID invalid command NONSENSE"]


@pytest.mark.parametrize("sent", [pub("t", bytes(1_500)) * 100, b"FIN 0123456789abcdef\n" * 7_000])
async def test_a_large_read_of_commands_gives_others_a_turn(bench: Bench, sent: bytes) -> None:
    client = bench.client()
    client.send(b"SUB t ch\n")
    await all_turns(client)
    client.send(sent)
    assert not client.transport.is_reading
    await all_turns(client)
    assert client.transport.is_reading


async def test_a_large_body_is_read_without_a_pause(bench: Bench) -> None:
    client = bench.client()
    client.send(pub("t", bytes(900_000))[:256_000])
    assert client.transport.is_reading


async def test_the_end_comes_behind_the_commands_that_wait(bench: Bench) -> None:
    client = bench.client()
    client.send(b"NOP\n" * (3 * COMMANDS_PER_TURN) + pub("t", b"m"))
    client.session.eof_received()
    await all_turns(client)
    bench.stores["t"].complete()
    client.turn()
    assert client.frames == ["OK"]
    assert client.transport.is_closed


async def test_a_connection_that_is_lost_meanwhile_takes_no_command_more(bench: Bench) -> None:
    client = bench.client()
    client.send(b"NOP\n" * COMMANDS_PER_TURN + pub("t", b"m"))
    client.leave()
    await all_turns(client)
    assert not bench.stores["t"].pending
