"""The log store as a whole: topics, channels and their progress over one log, with nothing in memory to help."""

import errno
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.errors import StorageError
from queue_engine.run import Run
from queue_engine.storage.background import InlineBackground
from queue_engine.storage.commit_log import SyncPolicy
from queue_engine.storage.log_backlog import RETURNED_MAX, LogBacklog
from queue_engine.storage.log_store import LogOpening, LogStore, TopicOpening
from queue_engine.storage.log_topic_store import LogTopicStore
from queue_engine.ticket import Ticket
from tests.support.background import HeldBackground
from tests.support.clock import ManualClock
from tests.support.files import FaultyFiles


class Bench:
    """A log store on a test's disk. `forget` empties its caches, so that what is read comes from files."""

    def __init__(
        self, path: Path, policy: SyncPolicy = SyncPolicy.OS, *, segment_bytes: int = 1 << 16, **options: int
    ) -> None:
        self.options = options
        self.path = path
        self.policy = policy
        self.segment_bytes = segment_bytes
        self.clock = ManualClock()
        self.start()
        self.topic = self.open_topic("t", 1)

    def start(self, *openings: TopicOpening) -> LogOpening:
        """A process begins, with what topology.json told it."""
        self.files = FaultyFiles()
        self.sync: InlineBackground | HeldBackground = InlineBackground()
        if self.policy is SyncPolicy.ALWAYS:
            self.sync = HeldBackground()
        self.log = LogStore(
            str(self.path / "log"),
            files=self.files,
            clock=self.clock,
            policy=self.policy,
            sync_interval_ms=1_000,
            sync_interval_bytes=1 << 20,
            segment_bytes=self.segment_bytes,
            memory_count_max=100,
            sync_background=self.sync,
            worker=InlineBackground(),
            **self.options,
        )
        opening = self.log.open(openings)
        self.log.reserved(self.log.reserving())
        for topic in opening.topics.values():
            topic.set_flowing(True)
        return opening

    def kill(self) -> None:
        """The process is gone: nothing is closed, nothing more is written."""
        self.files.abandon()

    def restart(self, channels: dict[int, int], *, reserved: int = 0, released: int | None = None) -> LogOpening:
        """After a kill, with topic 1 and its channels (number → start)."""
        self.kill()
        opening = self.start(TopicOpening("t", 1, 1 << 40, reserved, released, channels))
        self.topic = opening.topics[1]
        return opening

    def open_topic(self, name: str, number: int) -> LogTopicStore:
        topic = self.log.open_topic(name, number, id_base=number << 40)
        topic.set_flowing(True)
        return topic

    def publish(self, *bodies: bytes, topic: LogTopicStore | None = None, due_ms: int | None = None) -> Ticket:
        topic = topic or self.topic
        due_ns = None if due_ms is None else self.clock.monotonic_ns() + due_ms * 1_000_000
        ticket = topic.append(topic.make_batch(list(bodies)), due_ns)
        self.log.end_turn()
        return ticket

    def forget(self) -> None:
        self.log.batches.clear()
        for topic in (self.topic,):
            topic.queue.flush()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def bodies(run: Run | None) -> list[bytes]:
    return [] if run is None else [run.frame_at(index)[34:] for index in range(len(run))]


def take(backlog: LogBacklog, count_max: int = 1_000) -> Run:
    run = backlog.take(count_max, 1 << 20)
    assert run is not None
    backlog.sent(run)
    return run


def everything(backlog: LogBacklog, count_max: int = 7) -> Iterator[bytes]:
    while backlog.depth:
        run = take(backlog, count_max)
        yield from bodies(run)
        backlog.settle(run.ids)


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
    assert "No space" in str(refused.error) or "no room" in str(refused.error)
    # What is there can be read and finished meanwhile.
    assert list(everything(backlog)) == [b"a"]
    bench.files.heal()
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
    times = [run.timestamp_ns_at(index) for index in range(3)]
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
        bench.log.batches.clear()
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
    bench.files.fail("read", errno.EIO)
    with pytest.raises(StorageError, match="can't be read"):
        backlog.take(10, 1_000)
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


def test_given_back_and_new_take_turns_until_too_many_are_given_back(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c")
    bench.publish(*[b"%d" % number for number in range(6)])
    run = take(backlog, 2)
    backlog.give_back(run, run.ids, counted=True)
    assert [bodies(take(backlog, 1)) for _ in range(4)] == [[b"0"], [b"2"], [b"1"], [b"3"]]
    backlog._returned.append(0, RETURNED_MAX + 1)
    assert [bodies(take(backlog, 1)) for _ in range(2)] == [[b"0"], [b"1"]]


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
    assert bodies(take(backlog, 1)) == [b"early"]
    assert list(everything(backlog)) == [b"a", b"b", b"c"]


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
    assert backlog.seek(4).done
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
    assert backlog.heads(5) == [1, 3, 4, 5, 6]
    assert backlog.heads(100) == [1, 3, 4, 5, 6, 7, 8, 9, 11]
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
    assert bench.topic.hold_offset == 300


def test_the_least_that_a_channel_needs_holds_the_log(bench: Bench) -> None:
    first, second = bench.topic.open_channel("first"), bench.topic.open_channel("second")
    bench.publish(*[b"x"] * 10)
    assert bench.topic.hold_offset == 0
    list(everything(first))
    assert bench.topic.hold_offset == 0
    run = take(second, 4)
    second.settle(run.ids[1:])
    assert bench.topic.hold_offset == 0
    second.settle(run.ids[:1])
    assert bench.topic.hold_offset == 4


# Space.


def test_disk_bytes_are_the_part_of_the_log_that_is_needed(bench: Bench) -> None:
    first, second = bench.topic.open_channel("first", 7), bench.topic.open_channel("second", 8)
    other = bench.open_topic("other", 2)
    bench.publish(b"x" * 1_000)
    bench.publish(b"y" * 1_000, topic=other)
    bench.publish(b"z" * 1_000)
    all_of_it = first.disk_bytes()
    assert 3_000 < all_of_it < 4_000
    assert bench.topic.disk_bytes() == second.disk_bytes() == all_of_it
    assert 2_000 < other.disk_bytes() < all_of_it
    take_one = take(first, 1)
    first.settle(take_one.ids)
    assert 1_000 < first.disk_bytes() < 2_000, "what lies between belongs to another topic"
    assert bench.topic.disk_bytes() == second.disk_bytes() == all_of_it
    list(everything(first))
    assert (first.disk_bytes(), bench.topic.disk_bytes()) == (0, all_of_it)
    list(everything(second))
    assert (second.disk_bytes(), bench.topic.disk_bytes()) == (0, 0)
    bench.log.holds.take("reader", 1, 1, 60_000)
    assert 1_000 < bench.topic.disk_bytes() < 2_000
    assert bench.topic.open_channel("brief#ephemeral").disk_bytes() == 0


def test_what_is_finished_is_kept_for_as_long_as_it_shall_be(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096, retention_ms=10_000)
    channel = bench.topic.open_channel("c", 7)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    list(everything(channel))
    bench.clock.advance(ms=10_000)
    assert bench.log.remove_unneeded() == 0
    channel.seek(0)
    assert channel.depth == 50
    list(everything(channel))
    bench.clock.advance(ms=1)
    assert bench.log.remove_unneeded() > 3
    assert bench.topic.oldest_offset > 0


def test_what_is_finished_is_kept_until_it_is_too_much(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096, retention_bytes=10_000)
    channel = bench.topic.open_channel("c", 7)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    list(everything(channel))
    assert bench.log.remove_unneeded() > 0
    sealed = [one for one in bench.log.segments.list if one.is_sealed]
    assert 5_000 < sum(one.end - one.position for one in sealed) <= 10_000
    assert bench.log.remove_unneeded() == 0


def test_segments_go_when_the_slowest_channel_has_passed_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    fast, slow = bench.topic.open_channel("fast", 7), bench.topic.open_channel("slow", 8)
    idle = bench.open_topic("idle", 2)
    idle.open_channel("c", 9)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    assert len(bench.log.segments.list) > 5
    assert len(list(everything(fast))) == 50
    assert bench.log.remove_unneeded() == 0
    run = take(slow, 25)
    slow.settle(run.ids[:20])
    removed = bench.log.remove_unneeded()
    assert removed >= 1
    assert len(list((tmp_path / "log" / "segments").iterdir())) == len(bench.log.segments.list)
    oldest = bench.topic.oldest_offset
    assert 0 < oldest <= 20
    position, _ = bench.topic.queue.locate(oldest) or (0, 0)
    assert bench.log.segments.list[0].position <= position < bench.log.segments.list[0].next_position
    # What is left can be read again, from the oldest there is.
    bench.log.batches.clear()
    fast.seek(0)
    assert [int(one[:2]) for one in everything(fast)][:1] == [oldest]
    slow.give_back(run, run.ids[20:], counted=True)
    assert len(list(everything(slow))) == 30
    assert bench.log.remove_unneeded() > 0
    bench.log.end_turn()
    bench.restart({7: 0, 8: 0})
    slow = bench.topic.open_channel("slow", 8)
    assert slow.depth == 0
    bench.publish(b"new")
    assert list(everything(slow)) == [b"new"]


def test_a_topic_without_channels_and_a_paused_one_hold_what_waits(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    for _ in range(30):
        bench.publish(b"x" * 300)
    assert bench.log.remove_unneeded() == 0
    bench.topic.empty()
    assert bench.log.remove_unneeded() > 0
    assert bench.topic.depth == 0


def test_a_deleted_topic_holds_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    bench.topic.open_channel("c", 7)
    for _ in range(30):
        bench.publish(b"x" * 300)
    bench.topic.delete()
    assert bench.log.remove_unneeded() > 1
    assert len(bench.log.segments.list) <= 2, "the one written to, and the one made ahead"


def test_what_can_not_be_told_to_be_unneeded_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096)
    backlog = bench.topic.open_channel("c", 7)
    for _ in range(30):
        bench.publish(b"x" * 300)
    backlog.settle(take(backlog, 20).ids)
    bench.forget()
    bench.files.fail("read", errno.EIO, count=5)
    before = len(bench.log.segments.list)
    bench.clock.advance(ms=1_000)
    bench.log.tick(bench.clock.monotonic_ns())
    assert len(bench.log.segments.list) == before
    bench.files.heal()
    bench.clock.advance(ms=1_000)
    bench.log.tick(bench.clock.monotonic_ns())
    assert len(bench.log.segments.list) < before


# Restarts.


@pytest.mark.parametrize("is_killed", [True, False])
def test_what_was_settled_stays_so_and_the_rest_comes_again_with_its_attempts(bench: Bench, is_killed: bool) -> None:
    backlog = bench.topic.open_channel("c", 7)
    bench.topic.open_channel("other", 8)
    bench.publish(*[b"%d" % number for number in range(8)])
    run = take(backlog, 5)
    backlog.settle([run.ids[0], run.ids[3]])
    backlog.give_back(run, [run.ids[4]], counted=True)
    again = take(backlog, 1)
    assert bodies(again) == [b"4"]
    bench.log.end_turn()
    if not is_killed:
        bench.log.close()
    opening = bench.restart({7: 0, 8: 0})
    assert opening.log.damages == []
    assert (opening.unknown_records, opening.progress.dropped) == (0, 0)
    backlog = bench.topic.open_channel("c", 7)
    other = bench.topic.open_channel("other", 8)
    assert (backlog.depth, other.depth, bench.topic.depth) == (6, 8, 0)
    found: dict[bytes, int] = {}
    while backlog.depth:
        run = take(backlog)
        for index, body in enumerate(bodies(run)):
            found[body] = int.from_bytes(run.frame_at(index)[16:18], "big")
    assert found == {b"1": 2, b"2": 2, b"4": 3, b"5": 1, b"6": 1, b"7": 1}


def test_deferred_messages_are_still_deferred_and_released_ones_are_not(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c", 7)
    bench.publish(b"at publish", due_ms=10_000)
    bench.publish(b"plain", b"by requeue")
    run = take(backlog)
    backlog.settle(run.ids[:1])
    backlog.give_back(run, run.ids[1:], counted=True, due_ns=bench.clock.monotonic_ns() + 20_000_000_000)
    bench.log.end_turn()
    bench.restart({7: 0})
    backlog = bench.topic.open_channel("c", 7)
    assert (backlog.depth, backlog.deferred_count) == (0, 2)
    bench.clock.advance(ms=10_000)
    backlog.release_due(bench.clock.monotonic_ns(), 10)
    assert bodies(take(backlog)) == [b"at publish"]
    backlog.release_all_deferred()
    bench.log.end_turn()
    bench.restart({7: 0})
    backlog = bench.topic.open_channel("c", 7)
    assert (backlog.depth, backlog.deferred_count) == (2, 0)
    run = take(backlog)
    assert sorted(bodies(run)) == [b"at publish", b"by requeue"]
    assert [int.from_bytes(run.frame_at(index)[16:18], "big") for index in range(2)] == [2, 2]


def test_offsets_that_may_have_been_given_are_not_given_again_and_are_no_depth(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c", 7)
    bench.publish(b"a", b"b")
    bench.restart({7: 0}, reserved=1_000)
    backlog = bench.topic.open_channel("c", 7)
    bench.publish(b"c")
    assert backlog.depth == 3
    run = take(backlog)
    assert bodies(run) == [b"a", b"b", b"c"]
    assert [int(one, 16) - (1 << 40) for one in run.ids] == [0, 1, 1_000]
    backlog.settle(run.ids)
    bench.log.end_turn()
    assert backlog.progress.floor == 1_001
    bench.restart({7: 0}, reserved=2_000)
    backlog = bench.topic.open_channel("c", 7)
    assert (backlog.depth, bench.topic.queue.gaps) == (0, [(2, 998)])


def test_nothing_of_a_deleted_topic_or_channel_appears_again(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c", 7)
    bench.publish(b"old", b"old")
    take(backlog)
    bench.topic.delete()
    bench.log.end_turn()
    bench.kill()
    opening = bench.start(TopicOpening("t", 2, 2 << 40, 0, None, {9: 0}))
    assert opening.unknown_records == 1
    topic = opening.topics[2]
    again = topic.open_channel("c", 9)
    assert (topic.depth, again.depth) == (0, 0)
    bench.publish(b"new", topic=topic)
    assert list(everything(again)) == [b"new"]


def test_what_waited_at_a_paused_topic_waits_there_again(bench: Bench) -> None:
    bench.topic.open_channel("c", 7)
    bench.publish(b"a")
    bench.topic.set_flowing(False)
    bench.publish(b"b", b"c")
    bench.restart({7: 0}, released=1)
    bench.topic.set_flowing(False)
    backlog = bench.topic.open_channel("c", 7)
    assert (bench.topic.depth, backlog.depth) == (2, 1)
    bench.topic.set_flowing(True)
    assert bench.topic.pump(10) == 2
    assert list(everything(backlog)) == [b"a", b"b", b"c"]


def test_messages_that_are_gone_are_no_depth_though_a_power_cut_undid_their_settling(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096, checkpoint_interval_ms=10)
    channel = bench.topic.open_channel("c", 7)
    bench.publish(b"first")
    bench.log.tick(0)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    run = take(channel, 4)
    bench.log.end_turn()
    # What a power cut may leave: the checkpoint and the progress of now, and the segments of later.
    shutil.copytree(tmp_path / "log" / "progress", tmp_path / "progress")
    shutil.copy(tmp_path / "log" / "checkpoint", tmp_path / "checkpoint")
    channel.settle(run.ids)
    assert len(list(everything(channel))) == 47
    bench.log.end_turn()
    assert bench.log.remove_unneeded() > 1
    bench.kill()
    shutil.rmtree(tmp_path / "log" / "progress")
    shutil.copytree(tmp_path / "progress", tmp_path / "log" / "progress")
    shutil.copy(tmp_path / "checkpoint", tmp_path / "log" / "checkpoint")
    bench.restart({7: 0})
    channel = bench.topic.open_channel("c", 7)
    depth = channel.depth
    assert 0 < depth < 45
    assert len(list(everything(channel))) == depth


def test_what_a_paused_topic_dropped_stays_so_though_topology_json_has_not_heard(bench: Bench) -> None:
    channel = bench.topic.open_channel("c", 7)
    bench.publish(b"before")
    assert list(everything(channel)) == [b"before"]
    bench.topic.set_flowing(False)
    frozen = bench.topic.released
    bench.publish(b"later", due_ms=1_000)
    bench.publish(b"now")
    bench.topic.empty()
    bench.log.end_turn()
    bench.restart({7: 0}, released=frozen)
    channel = bench.topic.open_channel("c", 7)
    bench.publish(b"after")
    while bench.topic.pump(100):
        pass
    assert (channel.depth, channel.deferred_count) == (1, 0)
    assert list(everything(channel)) == [b"after"]


def test_all_that_is_derived_may_be_gone(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c", 7)
    for number in range(20):
        bench.publish(b"%d" % number, b"x")
    bench.publish(b"later", due_ms=5_000)
    backlog.settle(take(backlog, 11).ids)
    bench.log.close()
    shutil.rmtree(bench.path / "log" / "queues")
    bench.restart({7: 0})
    backlog = bench.topic.open_channel("c", 7)
    assert (backlog.depth, backlog.deferred_count) == (29, 1)
    assert next(everything(backlog)) == b"x"


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
                bench.log.batches.clear()
                bench.log.tick(bench.clock.monotonic_ns())
        for which, backlog in enumerate(channels):
            for run in held[which]:
                backlog.give_back(run, run.ids, counted=True)
            backlog.release_all_deferred()
            done[which] += everything(backlog)
            assert sorted(done[which]) == sorted(published)
            assert (backlog.progress.floor, backlog.deferred_count) == (topic.end_offset, 0)


def test_random_work_with_kills_in_between_loses_nothing_and_repeats_nothing_settled(tmp_path: Path) -> None:
    for seed in range(6):
        bench = Bench(tmp_path / str(seed), segment_bytes=4_096)
        rng = random.Random(seed)
        backlog = bench.topic.open_channel("c", 7)
        published: set[bytes] = set()
        settled: set[bytes] = set()
        attempts: dict[bytes, int] = {}
        held: list[Run] = []
        for step in range(300):
            act = rng.random()
            if act < 0.3:
                some = [b"%d-%d" % (step, index) for index in range(rng.randrange(1, 9))]
                published.update(some)
                bench.publish(*some, due_ms=rng.choice([None, None, None, 20]))
            elif act < 0.6:
                run = backlog.take(rng.randrange(1, 12), 10_000)
                if run is not None:
                    backlog.sent(run)
                    for index, body in enumerate(bodies(run)):
                        assert body not in settled
                        made = int.from_bytes(run.frame_at(index)[16:18], "big")
                        assert made == attempts.get(body, 0) + 1
                        attempts[body] = made
                    held.append(run)
            elif act < 0.85 and held:
                run = held.pop(rng.randrange(len(held)))
                cut = rng.randrange(len(run) + 1)
                backlog.settle(run.ids[:cut])
                settled.update(bodies(run)[:cut])
                if run.ids[cut:]:
                    due = rng.choice([None, bench.clock.monotonic_ns() + 5_000_000])
                    backlog.give_back(run, run.ids[cut:], counted=True, due_ns=due)
                bench.log.end_turn()
            elif act < 0.95:
                bench.clock.advance(ms=rng.randrange(3_000))
                backlog.release_due(bench.clock.monotonic_ns(), 100)
                bench.log.tick(bench.clock.monotonic_ns())
            else:
                before = backlog.depth + backlog.deferred_count + sum(map(len, held))
                if rng.random() < 0.3:
                    bench.log.close()
                opening = bench.restart({7: 0})
                backlog = bench.topic.open_channel("c", 7)
                held.clear()
                assert opening.log.damages == []
                assert backlog.depth + backlog.deferred_count == before == len(published - settled)
        for run in held:
            backlog.give_back(run, run.ids, counted=True)
        backlog.release_all_deferred()
        assert set(everything(backlog)) == published - settled
        bench.kill()


@pytest.mark.parametrize("unit", [bytes(20), b"\xff" * 20, b"\0" * 7 + b"\x40" + b"\0" * 3 + b"\xcd" + bytes(8)])
def test_a_wrong_unit_of_the_consume_queue_costs_no_message(bench: Bench, unit: bytes) -> None:
    backlog = bench.topic.open_channel("c")
    other = bench.open_topic("other", 2)
    for number in range(30):
        bench.publish(b"%d" % number)
        bench.publish(b"of another", topic=other)
    bench.forget()
    path = bench.path / "log" / "queues" / "1" / f"{0:020d}.queue"
    data = path.read_bytes()
    for offset in (0, 12, 13, 28):
        data = data[: offset * 20] + unit + data[(offset + 1) * 20 :]
    path.write_bytes(data)
    assert list(everything(backlog)) == [b"%d" % number for number in range(30)]
    assert bench.topic.damaged_count == 0
