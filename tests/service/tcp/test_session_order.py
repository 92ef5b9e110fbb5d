"""Answers leave in the order of their commands, however late the store says that it has what they are for.

A real session and a real engine; the store completes its appends when the test says so, the worker writes the
topology when the test says so, and the transport keeps what is written.
"""

import errno
from pathlib import Path

import pytest

from queue_engine.service.tcp.session import UNREAD_BYTES_MAX, UNSETTLED_BYTES_MAX
from queue_engine.vocabulary.errors import StorageError
from tests.service.tcp.session_bench import Bench, dpub, pub
from tests.support.nsq_socket import mpub_body, sized
from tests.support.topology import written


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_ok_waits_for_the_store(bench: Bench) -> None:
    store = bench.known_topic("t")
    client = bench.client()
    client.send(pub("t", b"one"))
    client.turn()
    assert client.frames == []
    store.complete()
    client.turn()
    assert client.frames == ["OK"]


async def test_what_follows_waits_behind_it(bench: Bench) -> None:
    slow, quick = bench.known_topic("slow"), bench.known_topic("quick")
    client = bench.client()
    client.send(pub("slow", b"one") + pub("quick", b"two") + b"IDENTIFY\n" + sized(b"{}"))
    client.turn()
    quick.complete()
    client.turn()
    assert client.frames == []
    slow.complete()
    client.turn()
    assert client.frames == ["OK", "OK", "OK"]


async def test_a_fatal_error_lets_the_answers_before_it_out_first(bench: Bench) -> None:
    store = bench.known_topic("t")
    client = bench.client()
    client.send(pub("t", b"one") + b"NONSENSE\n" + pub("t", b"never read"))
    client.turn()
    assert client.frames == []
    assert not client.transport.is_closed
    store.complete()
    client.turn()
    assert client.frames == ["OK", "E_INVALID invalid command NONSENSE"]
    assert client.transport.is_closed
    assert not store.pending


async def test_a_failed_append_is_answered_in_its_place_and_ends_the_connection(bench: Bench) -> None:
    first, second = bench.known_topic("first"), bench.known_topic("second")
    client = bench.client()
    client.send(pub("first", b"a") + b"MPUB second\n" + sized(mpub_body([b"b", b"c"])) + pub("first", b"d"))
    client.turn()
    second.fail(StorageError("the disk is full"))
    client.turn()
    assert client.frames == []
    first.complete()
    client.turn()
    assert client.frames == ["OK", "E_MPUB_FAILED MPUB failed the disk is full"]
    assert client.transport.is_closed


async def test_nothing_is_done_after_what_failed_at_once(bench: Bench) -> None:
    refusing = bench.known_topic("refusing")
    bench.known_topic("t")
    refusing.fail_next = StorageError("the disk is full")
    client = bench.client()
    client.send(dpub("refusing", b"x") + pub("t", b"must not be taken"))
    client.turn()
    assert client.frames == ["E_DPUB_FAILED DPUB failed the disk is full"]
    assert client.transport.is_closed
    assert not bench.stores["t"].pending


async def test_what_failed_at_once_waits_for_the_answers_before_it(bench: Bench) -> None:
    store, refusing = bench.known_topic("t"), bench.known_topic("refusing")
    refusing.fail_next = StorageError("the disk is full")
    client = bench.client()
    client.send(pub("t", b"one") + dpub("refusing", b"x") + pub("t", b"two"))
    client.turn()
    assert client.frames == []
    store.complete()
    client.turn()
    assert client.frames == ["OK", "E_DPUB_FAILED DPUB failed the disk is full"]


async def test_reading_pauses_above_the_bound_of_unsettled_bytes_and_goes_on_below_half(bench: Bench) -> None:
    store = bench.known_topic("t")
    client = bench.client()
    body = b"x" * (1 << 20)
    sent = 0
    while client.transport.is_reading:
        client.send(pub("t", body))
        client.turn()
        sent += 1
        assert sent <= UNSETTLED_BYTES_MAX // len(body) + 1
    assert sent * len(body) >= UNSETTLED_BYTES_MAX
    store.complete()
    assert not client.transport.is_reading
    while not client.transport.is_reading:
        store.complete()
    assert len(store.pending) <= sent // 2
    store.complete(len(store.pending))
    client.turn()
    assert client.frames == ["OK"] * sent


async def test_small_messages_count_with_what_their_answers_cost(bench: Bench) -> None:
    bench.known_topic("t")
    client = bench.client()
    command = pub("t", b"x")
    sent = 0
    while client.transport.is_reading:
        client.send(command * 500)
        client.turn()
        sent += 500
        assert sent < 200_000
    assert sent > 10_000


async def test_messages_and_heartbeats_go_between(bench: Bench) -> None:
    jobs, slow = bench.known_topic("jobs"), bench.known_topic("slow")
    client = bench.client()
    client.send(b"SUB jobs workers\n")
    bench.background.finish()
    client.send(b"RDY 5\n")
    client.turn()
    client.send(pub("slow", b"waits"))
    bench.engine.publish("jobs", [b"work"])
    client.turn()
    jobs.complete()
    client.turn()
    assert client.frames == ["OK", "message work"]
    client.check_after(30_000)
    assert client.frames == ["OK", "message work", "_heartbeat_"]
    slow.complete()
    client.turn()
    assert client.frames == ["OK", "message work", "_heartbeat_", "OK"]


async def test_subs_ok_waits_for_the_topology_and_no_message_precedes_it(bench: Bench) -> None:
    store = bench.known_topic("jobs")
    bench.engine.publish("jobs", [b"work"])
    bench.engine.turn()
    store.complete()
    client = bench.client()
    client.send(b"SUB jobs workers\nRDY 5\n")
    client.turn()
    assert client.frames == []
    bench.background.work()
    client.turn()
    assert client.frames == []
    bench.background.answer()
    client.turn()
    assert client.frames == ["OK", "message work"]


async def test_subs_ok_goes_first_when_the_channel_is_known(bench: Bench) -> None:
    store = bench.known_topic("jobs")
    bench.engine.acts.create_channel("jobs", "workers")
    bench.background.finish()
    bench.engine.publish("jobs", [b"work"])
    bench.engine.turn()
    store.complete()
    client = bench.client()
    client.send(b"SUB jobs workers\nRDY 5\n")
    client.turn()
    assert client.frames == ["OK", "message work"]


async def test_no_message_precedes_subs_ok_that_waits_behind_another_answer(bench: Bench) -> None:
    jobs, slow = bench.known_topic("jobs"), bench.known_topic("slow")
    bench.engine.acts.create_channel("jobs", "workers")
    bench.background.finish()
    bench.engine.publish("jobs", [b"work"])
    bench.engine.turn()
    jobs.complete()
    client = bench.client()
    client.send(pub("slow", b"first") + b"SUB jobs workers\nRDY 5\n")
    client.turn()
    assert client.frames == []
    slow.complete()
    client.turn()
    assert client.frames == ["OK", "OK", "message work"]


async def test_sub_fails_when_the_topology_can_not_be_written(bench: Bench) -> None:
    bench.files.fail("write", errno.EIO)
    client = bench.client()
    client.send(b"SUB jobs workers\nRDY 5\n")
    client.turn()
    bench.background.finish()
    client.turn()
    (error,) = client.frames
    assert error.startswith("E_SUB_FAILED SUB failed ")
    assert "topology.json can't be written" in error
    assert client.transport.is_closed
    client.leave()
    assert bench.engine.topics == {}, "a refused SUB leaves neither topic nor channel"
    assert written(bench.path)["topics"] == []


async def test_a_refused_sub_leaves_no_channel_on_a_topic_that_is_there(bench: Bench) -> None:
    bench.known_topic("jobs")
    bench.files.fail("write", errno.ENOSPC)
    client = bench.client()
    client.send(b"SUB jobs workers\n")
    bench.background.finish()
    client.turn()
    assert client.frames[0].startswith("E_SUB_FAILED SUB failed ")
    assert bench.engine.catalog.topic("jobs").channels == {}
    bench.clock.advance(ms=1_000)
    bench.engine.tick()
    bench.background.finish()
    assert bench.engine.stats.health == "OK"
    assert written(bench.path)["topics"][0]["channels"] == []


async def test_rdy_before_the_channel_is_there_counts_from_then_on(bench: Bench) -> None:
    store = bench.known_topic("jobs")
    bench.engine.publish("jobs", [b"work"])
    bench.engine.turn()
    store.complete()
    client = bench.client()
    client.send(b"SUB jobs workers\nRDY 5\n")
    client.turn()
    assert client.frames == []
    bench.background.finish()
    client.turn()
    assert client.frames == ["OK", "message work"]


async def test_who_leaves_before_its_channel_is_there_is_not_its_consumer(bench: Bench) -> None:
    bench.known_topic("jobs")
    client = bench.client()
    client.send(b"SUB jobs workers\n")
    client.leave()
    bench.background.finish()
    assert bench.engine.catalog.channel("jobs", "workers").consumers == {}


async def test_a_stop_lets_the_answers_out_first_and_takes_nothing_more(bench: Bench) -> None:
    store = bench.known_topic("t")
    client = bench.client()
    client.send(pub("t", b"one"))
    client.turn()
    client.session.close()
    client.send(pub("t", b"too late"))
    client.turn()
    assert client.frames == []
    assert not client.transport.is_closed
    store.complete()
    client.turn()
    assert client.frames == ["OK"]
    assert client.transport.is_closed
    assert not store.pending


async def test_a_stop_gives_back_what_a_consumer_holds(bench: Bench) -> None:
    store = bench.known_topic("jobs")
    client = bench.client()
    client.send(b"SUB jobs workers\n")
    bench.background.finish()
    client.send(b"RDY 1\n")
    bench.engine.publish("jobs", [b"work"])
    client.turn()
    store.complete()
    client.turn()
    client.session.close()
    assert client.transport.is_closed
    channel = bench.engine.catalog.channel("jobs", "workers")
    assert (channel.in_flight_count, channel.backlog.depth) == (0, 1)


async def test_an_append_that_ends_after_the_connection_harms_nobody(bench: Bench) -> None:
    store = bench.known_topic("t")
    client, other = bench.client(), bench.client()
    body = b"x" * (1 << 20)
    while client.transport.is_reading:
        client.send(pub("t", body))
        client.turn()
    other.send(pub("t", b"mine"))
    client.leave()
    client.turn()
    store.complete(len(store.pending))
    other.turn()
    assert client.frames == []
    assert other.frames == ["OK"]


# Deadlines of commands.


async def test_a_publisher_that_never_pauses_is_not_cut(bench: Bench) -> None:
    """Every read ends in the middle of a command, but never the same one."""
    store = bench.known_topic("t")
    client = bench.client()
    stream = pub("t", b"x" * 100) * 2_000
    step = len(pub("t", b"x" * 100)) + 1
    for at in range(0, 100 * step, step):
        client.send(stream[at : at + step])
        client.turn()
        store.complete(len(store.pending))
        client.check_after(500)
    assert not client.transport.is_closed


async def test_a_command_that_does_not_end_is_cut(bench: Bench) -> None:
    client = bench.client()
    client.send(pub("t", b"x" * 100)[:-1])
    client.check_after(9_900)
    assert not client.transport.is_closed
    client.check_after(200)
    client.turn()
    why = "command not complete within 10000 ms (--command-timeout, once per MiB begun)"
    assert client.frames == [f"E_INVALID {why}: 103 of 104 bytes of its body came"]
    assert client.transport.is_closed


async def test_a_large_body_on_a_slow_link_has_time_as_long_as_it_goes_on(bench: Bench) -> None:
    client = bench.client()
    body = b"x" * (3 << 20)
    command = b"MPUB t\n" + sized(mpub_body([body[: 1 << 20]] * 3))
    step = len(command) // 12 + 1
    for at in range(0, 11 * step, step):
        client.send(command[at : at + step])
        client.check_after(3_000)
    assert not client.transport.is_closed
    client.check_after(7_500)
    client.turn()
    assert client.transport.is_closed
    assert client.frames[-1].startswith("E_INVALID command not complete within 40000 ms")
    other = bench.client()
    other.send(command[:1_000])
    other.check_after(10_100)
    other.turn()
    assert "nothing came for 10000 ms" in other.frames[0]
    assert other.transport.is_closed


async def test_what_waits_for_the_disk_is_neither_silent_nor_slow(bench: Bench) -> None:
    store = bench.known_topic("t")
    client = bench.client()
    command = pub("t", b"x" * (1 << 20))
    client.send(command[:1_000])
    while client.transport.is_reading:
        client.send(command[1_000:] + command[:1_000])
        client.turn()
    client.check_after(61_000)
    client.check_after(61_000)
    assert not client.transport.is_closed
    store.complete(len(store.pending))
    client.turn()
    assert client.transport.is_reading
    client.check_after(9_000)
    assert not client.transport.is_closed
    client.check_after(2_000)
    client.turn()
    assert client.transport.is_closed


# A peer that does not read.


async def test_who_reads_no_answers_is_not_read_from(bench: Bench) -> None:
    bench.known_topic("t")
    client = bench.client()
    client.send(b"SUB t c\n")
    bench.background.finish()
    client.turn()
    client.transport.is_full = True
    fins = b"FIN 0123456789abcdef\n" * 1_000
    sent = 0
    while client.transport.is_reading:
        client.send(fins)
        client.turn()
        sent += len(fins)
        assert sent < 4 * UNREAD_BYTES_MAX
    assert client.transport.get_write_buffer_size() < 2 * UNREAD_BYTES_MAX
    client.transport.drain()
    assert client.transport.is_reading
    client.send(b"NOP\n")
    assert not client.transport.is_closed
