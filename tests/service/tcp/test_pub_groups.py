"""What connections publish that wait for each OK: one publish a topic and turn, and each gets its own answer."""

from pathlib import Path

import pytest

from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.options.options import GATHERED_BYTES_MAX, MPUB_SIZE_BYTES
from tests.service.tcp.session_bench import Bench, pub
from tests.support.memory_session import MemorySession
from tests.support.nsq_socket import sized
from tests.support.stores.delayed_store import DelayedStore


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def publishers(bench: Bench, count: int, topic: str = "t") -> list[MemorySession]:
    """Clients whose PUB lines are known: each has published once and has its OK."""
    store = bench.known_topic(topic)
    clients = [bench.client() for _ in range(count)]
    for client in clients:
        client.send(pub(topic, b"first"))
        client.turn()
        store.complete()
        client.turn()
        assert client.frames == ["OK"]
        client.transport.written = b""
    return clients


def bodies_of(store: DelayedStore) -> list[list[bytes]]:
    return [list(batch.bodies) for batch, *_ in store.pending]


def published_by_client(bench: Bench) -> list[tuple[tuple[str, int], ...]]:
    return [client.pub_counts for client in bench.engine.stats.now().producers]


async def test_one_turn_of_many_clients_is_one_append_and_each_gets_its_ok(bench: Bench) -> None:
    clients = publishers(bench, 3)
    store = bench.stores["t"]
    for number, client in enumerate(clients):
        client.send(pub("t", b"body %d" % number))
    bench.turns.run()
    assert bodies_of(store) == [[b"body 0", b"body 1", b"body 2"]]
    assert [client.frames for client in clients] == [[], [], []]
    store.complete()
    bench.turns.run()
    assert [client.frames for client in clients] == [["OK"], ["OK"], ["OK"]]
    assert bench.engine.topics["t"].message_count == 6


async def test_topics_have_appends_of_their_own(bench: Bench) -> None:
    [client], [other] = publishers(bench, 1, "t"), publishers(bench, 1, "u")
    client.send(pub("t", b"one"))
    other.send(pub("u", b"two"))
    bench.turns.run()
    bench.stores["u"].complete()
    bench.turns.run()
    assert (client.frames, other.frames) == ([], ["OK"])
    bench.stores["t"].complete()
    assert client.frames == ["OK"]


async def test_what_comes_behind_a_pub_that_waits_is_done_and_answered_behind_it(bench: Bench) -> None:
    client, other = publishers(bench, 2)
    store = bench.stores["t"]
    other.send(pub("t", b"of another"))
    client.send(pub("t", b"one"))
    client.send(pub("t", b"two"))
    client.send(b"IDENTIFY\n" + sized(b"{}"))
    bench.turns.run()
    assert [body for bodies in bodies_of(store) for body in bodies] == [b"of another", b"one", b"two"]
    assert client.frames == []
    store.complete(len(store.pending))
    bench.turns.run()
    assert client.frames == ["OK", "OK", "OK"]
    assert other.frames == ["OK"]
    assert published_by_client(bench) == [(("t", 3),), (("t", 2),)]


async def test_a_fatal_command_behind_a_pub_lets_its_ok_out_first(bench: Bench) -> None:
    [client] = publishers(bench, 1)
    client.send(pub("t", b"one"))
    client.send(b"NONSENSE\n")
    client.turn()
    assert (client.frames, client.transport.is_closed) == ([], False)
    bench.stores["t"].complete()
    client.turn()
    assert client.frames == ["OK", "E_INVALID invalid command NONSENSE"]
    assert client.transport.is_closed


async def test_a_failed_append_is_told_to_each_of_them(bench: Bench) -> None:
    clients = publishers(bench, 2)
    for client in clients:
        client.send(pub("t", b"one"))
    bench.turns.run()
    bench.stores["t"].fail(StorageError("the disk is full"))
    bench.turns.run()
    for client in clients:
        assert client.frames == ["E_PUB_FAILED PUB failed the disk is full"]
        assert client.transport.is_closed
    assert published_by_client(bench) == [(("t", 1),)] * 2


async def test_what_the_engine_refuses_at_once_is_told_and_nothing_behind_it_is_taken(bench: Bench) -> None:
    client, other = publishers(bench, 2)
    bench.stores["t"].fail_next = StorageError("the disk is full")
    client.send(pub("t", b"one"))
    client.send(pub("t", b"must not be taken"))
    other.send(pub("t", b"two"))
    bench.turns.run()
    assert client.frames == ["E_PUB_FAILED PUB failed the disk is full"]
    assert client.transport.is_closed
    assert bodies_of(bench.stores["t"]) == [[b"two"]]


async def test_large_bodies_do_not_make_one_large_append(bench: Bench) -> None:
    clients = publishers(bench, 3)
    store = bench.stores["t"]
    body = b"x" * (GATHERED_BYTES_MAX // 2 - MPUB_SIZE_BYTES)
    for client in clients:
        client.send(pub("t", body))
    bench.turns.run()
    assert [len(bodies) for bodies in bodies_of(store)] == [2, 1]
    store.complete(2)
    bench.turns.run()
    assert [client.frames for client in clients] == [["OK"]] * 3


async def test_what_is_appended_together_is_no_more_than_an_mpub_may_be(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_msg_size=4_096, max_body_size=4_096)
    clients = publishers(bench, 3)
    for client in clients:
        client.send(pub("t", b"x" * 2_000))
    bench.turns.run()
    assert [len(bodies) for bodies in bodies_of(bench.stores["t"])] == [2, 1]


async def test_who_left_gets_nothing_and_the_others_their_ok(bench: Bench) -> None:
    client, other = publishers(bench, 2)
    client.send(pub("t", b"one"))
    other.send(pub("t", b"two"))
    bench.turns.run()
    client.leave()
    bench.stores["t"].complete()
    bench.turns.run()
    assert (client.frames, other.frames) == ([], ["OK"])


async def test_a_stop_lets_the_ok_out_first(bench: Bench) -> None:
    [client] = publishers(bench, 1)
    client.send(pub("t", b"one"))
    bench.turns.run()
    client.session.close()
    assert not client.transport.is_closed
    bench.stores["t"].complete()
    bench.turns.run()
    assert client.frames == ["OK"]
    assert client.transport.is_closed


async def test_a_client_that_reads_no_ok_is_not_read_from(bench: Bench) -> None:
    [client] = publishers(bench, 1)
    client.session.pause_writing()
    client.send(pub("t", b"one"))
    bench.turns.run()
    bench.stores["t"].complete()
    bench.turns.run()
    assert client.frames == ["OK"]  # in its turn, by the way that looks at how much lies unread
