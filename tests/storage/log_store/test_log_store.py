"""The log store as a whole: topics, channels and their progress over one log, with nothing in memory to help."""

import errno
import random
from pathlib import Path

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.log_store import log_backlog
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.message import TIMESTAMP_AT, unpack_timestamp
from queue_engine.vocabulary.run import Run
from tests.support.stores.background import HeldBackground
from tests.support.stores.log_store import WRONG_UNITS, Bench, bodies, everything, forget_batches, take


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# Publishing.


def test_nothing_is_visible_before_its_sync_with_always_and_everything_of_the_turn_after(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SyncPolicy.ALWAYS)
    assert isinstance(bench.sync, HeldBackground)
    other = bench.open_topic("other", 2)
    backlog, another = bench.topic.open_channel("c"), other.open_channel("c")
    tickets = [one.append(one.make_batch([b"a", b"b"])) for one in (bench.topic, other, bench.topic)]
    bench.log.end_turn()
    syncs = bench.files.calls.count("sync_data")
    assert [ticket.done for ticket in tickets] == [False] * 3
    assert (backlog.depth, another.depth, bench.topic.end_offset) == (0, 0, 0)
    bench.sync.finish()
    assert [ticket.done and ticket.error is None for ticket in tickets] == [True] * 3
    assert (backlog.depth, another.depth) == (4, 2)
    assert bench.files.calls.count("sync_data") == syncs + 1, "three topics' batches are one group"


def test_what_failed_to_sync_is_refused_seen_by_nobody_and_final(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SyncPolicy.ALWAYS)
    assert isinstance(bench.sync, HeldBackground)
    backlog = bench.topic.open_channel("c")
    kept = bench.publish(b"kept")
    bench.sync.finish()
    bench.files.fail("sync_data", errno.EIO)
    tickets = [bench.publish(b"lost"), bench.publish(b"behind it")]
    bench.sync.finish()
    assert kept.error is None
    assert all(ticket.error is not None for ticket in tickets)
    assert bodies(take(backlog)) == [b"kept"]
    assert (backlog.depth, bench.topic.next_offset) == (0, 1)
    assert bench.publish(b"more").error is not None


def test_a_full_disk_refuses_and_goes_on_with_the_same_offsets(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(b"a")
    bench.files.bytes_free = 10
    refused = bench.publish(b"refused")
    assert refused.error is not None
    assert "No space" in str(refused.error) or "publish refused" in str(refused.error)
    # What is there can be read and finished meanwhile.
    assert list(everything(backlog)) == [b"a"]
    bench.files.heal()
    for _ in ("the segment is completed, which nothing needs", "there is room"):
        bench.clock.advance(ms=1_100)
        bench.log.tick(bench.clock.monotonic_ns())
    assert bench.publish(b"b").error is None
    run = take(backlog)
    assert bodies(run) == [b"b"]
    assert run.ids == [b"%016x" % ((1 << 40) + 1)]


def test_a_topics_ids_rise_by_one_and_its_times_never_go_back(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(b"a")
    bench.clock.set_back(ms=10_000)
    bench.publish(b"b", b"c")
    run = take(backlog)
    assert [int(one, 16) - (1 << 40) for one in run.ids] == [0, 1, 2]
    times = [unpack_timestamp(run.frame_at(index), TIMESTAMP_AT)[0] for index in range(3)]
    assert times == sorted(times)


# Reading.


@pytest.mark.parametrize("count_max", [1, 3, 1_000])
def test_all_comes_back_from_the_files_in_order_over_segments(tmp_path: Path, count_max: int) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    other = bench.open_topic("other", 2)
    backlog, another = bench.topic.open_channel("c"), other.open_channel("c")
    sent: list[bytes] = []
    for number in range(60):
        some = [b"%d-%d" % (number, index) * 20 for index in range(number % 5 + 1)]
        sent += some
        bench.publish(*some)
        bench.publish(b"other", topic=other)
        forget_batches(bench.log.batches)
        if number % 7 == 0:
            bench.topic.queue.flush()
    assert len(bench.log.segments.list) > 5
    bench.forget()
    assert list(everything(backlog, count_max)) == sent
    assert list(everything(another)) == [b"other"] * 60
    assert backlog.progress.floor == len(sent)


def test_a_read_that_fails_loses_nothing(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(b"a", b"b")
    bench.forget()
    # One that passes costs nothing: the consume queue is made anew from the log.
    bench.files.fail("read", errno.EIO, count=10)
    with pytest.raises(StorageError, match="can't be read"):
        backlog.take(10, 1_000)
    bench.files.heal()
    assert backlog.depth == 2
    assert list(everything(backlog)) == [b"a", b"b"]


def test_a_damaged_body_costs_that_message_and_is_counted(bench: Bench) -> None:
    backlog, late = bench.topic.open_channel("c"), bench.topic.open_channel("late")
    bench.publish(b"first body", b"second body", b"third body")
    bench.forget()
    path = Path(bench.log.segments.list[0].path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"second body", b"secXnd body"))
    assert list(everything(backlog)) == [b"first body", b"third body"]
    assert (backlog.depth, backlog.damaged_count, bench.topic.damaged_count) == (0, 1, 1)
    run = take(late, 1)
    late.give_back(run, run.ids, counted=True)
    assert sorted(everything(late)) == [b"first body", b"third body"]
    assert late.progress.floor == 3


def test_a_record_that_is_lost_altogether_costs_its_batch_alone(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    for one in (b"before", b"lost", b"after"):
        bench.publish(one, one)
    bench.forget()
    position, size = bench.topic.queue.locate(2) or (0, 0)
    path = Path(bench.log.segments.list[0].path)
    data = bytearray(path.read_bytes())
    data[position : position + size] = bytes(size)
    path.write_bytes(data)
    assert list(everything(backlog)) == [b"before"] * 2 + [b"after"] * 2
    assert backlog.damaged_count == 2


@pytest.mark.parametrize("unit", WRONG_UNITS)
def test_a_wrong_unit_of_the_consume_queue_costs_no_message(bench: Bench, unit: bytes) -> None:
    backlog = bench.topic.open_channel("c")
    other = bench.open_topic("other", 2)
    for number in range(30):
        bench.publish(b"%d" % number)
        bench.publish(b"of another", topic=other)
    bench.forget()
    for offset in (0, 12, 13, 28):
        bench.write_unit(offset, unit)
    assert list(everything(backlog)) == [b"%d" % number for number in range(30)]
    assert bench.topic.damaged_count == 0


def test_a_wrong_unit_behind_a_lost_record_and_thousands_of_others_costs_no_message(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    other = bench.open_topic("other", 2)
    bench.publish(b"first")
    for number in range(3_100):
        bench.publish(b"%d" % number, topic=other)
    bench.publish(b"second")
    bench.forget()
    position, size = other.queue.locate(0) or (0, 0)
    with Path(bench.log.segments.list[0].path).open("r+b") as segment:
        segment.seek(position)
        segment.write(bytes(size))
    bench.write_unit(1, WRONG_UNITS[0])
    assert list(everything(backlog)) == [b"first", b"second"]
    assert bench.topic.damaged_count == 0


def test_a_lost_message_is_looked_for_once(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(b"lost")
    bench.forget()
    path = Path(bench.log.segments.list[0].path)
    position, size = bench.topic.queue.locate(0) or (0, 0)
    with path.open("r+b") as segment:
        segment.seek(position)
        segment.write(bytes(size))
    assert backlog.oldest_ns() is None
    bench.files.calls.clear()
    bench.publish(b"next")
    for _ in range(10):
        assert backlog.oldest_ns() is None
    assert bench.files.calls.count("read") == 0
    assert list(everything(backlog)) == [b"next"]


# Places a message can be in.


def test_what_waits_costs_no_object_and_depth_is_exact(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    for _ in range(100):
        bench.publish(*[b"x"] * 50)
    assert backlog.depth == 5_000
    run = take(backlog, 300)
    assert (len(run), backlog.depth) == (300, 4_700)
    backlog.give_back(run, run.ids[:100], counted=True)
    backlog.give_back(run, run.ids[100:200], counted=False)
    assert backlog.depth == 4_900
    backlog.settle(run.ids[200:])
    assert backlog.depth == 4_900
    assert len(list(everything(backlog, 333))) == 4_900
    assert (backlog.progress.floor, len(backlog.progress.pages)) == (5_000, 1)


def test_attempts_go_on_where_they_were(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(b"a", b"b", b"c")
    for attempt in (1, 2, 3):
        run = take(backlog)
        assert [int.from_bytes(run.frame_at(index)[16:18], "big") for index in range(3)] == [attempt] * 3
        backlog.give_back(run, run.ids, counted=True)
    run = backlog.take(1, 1_000)
    assert run is not None
    backlog.give_back(run, run.ids, counted=False)
    assert int.from_bytes(take(backlog).frame_at(0)[16:18], "big") == 4


def test_given_back_stand_behind_what_waits_until_they_are_too_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(*[b"%d" % number for number in range(9)])
    run = take(backlog, 3)
    backlog.give_back(run, run.ids, counted=True)
    assert bodies(take(backlog, 1)) == [b"3"]
    monkeypatch.setattr(log_backlog, "RETURNED_MAX", 2)
    assert bodies(take(backlog, 1)) == [b"0"]
    assert [bodies(take(backlog, 1)) for _ in range(7)] == [[b"4"], [b"5"], [b"6"], [b"7"], [b"8"], [b"1"], [b"2"]]


def test_a_peek_shows_what_was_given_back_where_it_will_come(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(*[b"%d" % number for number in range(4)])
    run = take(backlog, 2)
    backlog.give_back(run, run.ids[:1], counted=True)
    bench.publish(b"4")
    backlog.give_back(run, run.ids[1:], counted=True)
    expected = [2, 3, 0, 4, 1]
    assert [backlog.places.heads(count) for count in range(7)] == [expected[:count] for count in range(7)]
    assert [bodies(take(backlog, 1)) for _ in expected] == [[b"%d" % offset] for offset in expected]


def test_deferred_messages_are_aside_until_they_are_due(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(b"a")
    bench.publish(b"later", due_ms=500)
    bench.publish(b"b")
    assert (backlog.depth, backlog.deferred_count) == (2, 1)
    assert list(everything(backlog)) == [b"a", b"b"]
    assert backlog.progress.floor == 1
    bench.clock.advance(ms=499)
    assert backlog.release_due(bench.clock.monotonic_ns(), 10) == 0
    bench.clock.advance(ms=1)
    assert backlog.release_due(bench.clock.monotonic_ns(), 10) == 1
    assert list(everything(backlog)) == [b"later"]
    assert (backlog.progress.floor, backlog.depth, backlog.deferred_count) == (3, 0, 0)


def test_a_deferred_message_that_is_due_early_is_delivered_once(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(b"a", b"b")
    bench.publish(b"early", due_ms=1)
    bench.publish(b"c")
    bench.clock.advance(ms=5)
    backlog.release_due(bench.clock.monotonic_ns(), 10)
    assert backlog.depth == 4
    assert [bodies(take(backlog, 1)) for _ in range(4)] == [[b"a"], [b"b"], [b"c"], [b"early"]]
    assert backlog.take(1, 1_000) is None


# What a channel can be told.


def test_a_channel_is_emptied_without_reading_anything(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(*[b"x"] * 500)
    bench.publish(b"later", due_ms=1_000)
    bench.forget()
    reads = bench.files.calls.count("read")
    dropped = backlog.empty()
    assert (dropped.depth, dropped.deferred) == (500, 1)
    assert (backlog.depth, backlog.deferred_count, bench.files.calls.count("read")) == (0, 0, reads)
    bench.publish(b"new")
    assert list(everything(backlog)) == [b"new"]


def test_a_channel_is_rewound_and_has_everything_again_from_there(bench: Bench) -> None:
    backlog, other = bench.topic.open_channel("c"), bench.topic.open_channel("other")
    bench.publish(*[b"%d" % number for number in range(10)])
    assert len(list(everything(backlog))) == 10
    backlog.seek(4)
    assert (backlog.depth, other.depth) == (6, 10)
    run = take(backlog, 3)
    assert bodies(run) == [b"4", b"5", b"6"]
    assert int.from_bytes(run.frame_at(0)[16:18], "big") == 1
    backlog.seek(8)
    assert list(everything(backlog)) == [b"8", b"9"]
    backlog.seek(10**9)
    assert (backlog.depth, backlog.next_offset) == (0, 10)
    backlog.seek(0)
    assert len(list(everything(backlog))) == 10


def test_the_next_messages_can_be_looked_at_without_moving(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(*[b"%d" % number for number in range(10)])
    bench.publish(b"later", due_ms=1_000)
    bench.publish(b"last")
    run = take(backlog, 3)
    backlog.give_back(run, run.ids[1:2], counted=True)
    before = backlog.depth
    assert backlog.places.heads(5) == [3, 4, 5, 6, 7]
    assert backlog.places.heads(100) == [3, 4, 5, 6, 7, 8, 9, 11, 1]
    assert backlog.depth == before


# The topic.


def test_what_the_topic_drops_is_for_no_channel(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(b"a")
    bench.topic.set_flowing(False)
    bench.publish(b"dropped", b"dropped")
    assert bench.topic.empty().depth == 2
    bench.publish(b"b")
    bench.topic.set_flowing(True)
    assert bench.topic.pump(100) == 1
    late = bench.topic.open_channel("late")
    assert (backlog.depth, late.depth) == (2, 0)
    assert list(everything(backlog)) == [b"a", b"b"]


def test_an_ephemeral_channel_keeps_no_journal_and_drops_what_it_is_too_slow_for(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c#ephemeral")
    for _ in range(30):
        bench.publish(*[b"x"] * 10)
    assert len(list(everything(backlog))) == 100
    assert backlog.dropped_count == 200
    assert bench.log.journal.entry_count == 0
    assert bench.topic.needed_offset == 300


def test_the_least_that_a_channel_needs_holds_the_log(bench: Bench) -> None:
    first, second = bench.topic.open_channel("first"), bench.topic.open_channel("second")
    bench.publish(*[b"x"] * 10)
    assert bench.topic.needed_offset == 0
    list(everything(first))
    assert bench.topic.needed_offset == 0
    run = take(second, 4)
    second.settle(run.ids[1:])
    assert bench.topic.needed_offset == 0
    second.settle(run.ids[:1])
    assert bench.topic.needed_offset == 4


# All together.


def test_random_work_loses_and_doubles_nothing(bench: Bench) -> None:
    for seed in range(5):
        rng = random.Random(seed)
        topic = bench.open_topic(f"t{seed}", 100 + seed)
        channels = [topic.open_channel("one"), topic.open_channel("two")]
        done: list[list[bytes]] = [[], []]
        published: list[bytes] = []
        held: list[list[Run]] = [[], []]
        for step in range(400):
            act = rng.random()
            which = rng.randrange(2)
            backlog = channels[which]
            if act < 0.3:
                some = [b"%d-%d" % (step, index) for index in range(rng.randrange(1, 9))]
                published += some
                bench.publish(*some, topic=topic, due_ms=rng.choice([None, None, 20]))
            elif act < 0.55:
                run = backlog.take(rng.randrange(1, 12), 10_000)
                if run is not None:
                    backlog.sent(run)
                    held[which].append(run)
            elif act < 0.9 and held[which]:
                run = held[which].pop(rng.randrange(len(held[which])))
                ids = list(run.ids)
                rng.shuffle(ids)
                cut = rng.randrange(len(ids) + 1)
                backlog.settle(ids[:cut])
                index_of = {one: index for index, one in enumerate(run.ids)}
                done[which] += [run.frame_at(index_of[one])[34:] for one in ids[:cut]]
                if ids[cut:]:
                    due = rng.choice([None, bench.clock.monotonic_ns() + 5_000_000])
                    backlog.give_back(run, ids[cut:], counted=True, due_ns=due)
            else:
                bench.clock.advance(ms=rng.randrange(30))
                for one in channels:
                    one.release_due(bench.clock.monotonic_ns(), 100)
                forget_batches(bench.log.batches)
                bench.log.tick(bench.clock.monotonic_ns())
        for which, backlog in enumerate(channels):
            for run in held[which]:
                backlog.give_back(run, run.ids, counted=True)
            backlog.release_deferred()
            done[which] += everything(backlog)
            assert sorted(done[which]) == sorted(published)
            assert (backlog.progress.floor, backlog.deferred_count) == (topic.end_offset, 0)
