"""Pipeline cursors: where they stand, what they gave up, and what of the log is kept until they pass it; what they
have in common with leases is in `test_reader_registry.py`."""

import errno
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.fetch.log_reader import LogReader
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogStore
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.readers import cursors as cursors_module
from queue_engine.storage.readers.cursors import (
    CONSUMER_CURSOR_MS,
    DELETED,
    EXPIRED,
    RETENTION,
    TOPIC_DELETED,
    Cursor,
    CursorGap,
    Cursors,
    EndedCursor,
    decode_cursors,
    encode_cursors,
)
from queue_engine.storage.readers.reader_registry import Maker
from queue_engine.vocabulary.errors import OutcomeUnknownError
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.background import HeldBackground

FIXTURES = Path(__file__).parent.parent / "fixtures"
FIXED = [
    Cursor(
        "archive",
        7,
        1_200,
        topic="orders",
        id_base=912,
        created_ms=1_800_000_000_000,
        gaps=(CursorGap(300, 900, RETENTION, 1_800_000_000_500),),
    ),
    Cursor("copy", 9, 0, topic="invoices", id_base=4, created_ms=1_900_000_000_000),
]
FIXED_ENDED = [
    EndedCursor(
        Cursor("archive", 3, 10, topic="old", id_base=5, created_ms=1_700_000_000_000), 40, DELETED, 1_750_000_000_000
    ),
    EndedCursor(
        Cursor("archive", 4, 2, topic="gone", id_base=6, created_ms=1_700_000_000_000),
        None,
        TOPIC_DELETED,
        1_760_000_000_000,
    ),
]


class Bench:
    """The cursors alone, on a real directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.files = FaultyFiles()
        self.start(1, 2)

    def start(self, *topics: int) -> str:
        self.cursors = Cursors(str(self.directory), files=self.files, clock=self.clock, worker=InlineBackground())
        return self.cursors.open(topics)

    def create(self, number: int, name: str, offset: int) -> Cursor:
        self.cursors.create(f"t{number}", number, number << 40, name, offset)
        return self.get(number, name)

    def get(self, number: int, name: str) -> Cursor:
        cursor = self.cursors.get(number, name)
        assert cursor is not None
        return cursor


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_cursor_that_ends_tells_what_it_gave_up(bench: Bench) -> None:
    bench.create(1, "a", 30)
    bench.create(1, "b", 40)
    bench.cursors.delete(bench.get(1, "a"), 50)
    bench.cursors.forget_topic(1, 60)
    told = [(one.cursor.name, one.cursor.offset, one.next_offset, one.reason) for one in bench.cursors.ended]
    assert told == [("a", 30, 50, DELETED), ("b", 40, 60, TOPIC_DELETED)]


def test_a_cursor_never_goes_back(bench: Bench) -> None:
    cursor = bench.create(1, "a", 30)
    assert bench.cursors.move(cursor, 29).done
    assert bench.cursors.move(cursor, 30).done
    assert bench.get(1, "a") == cursor


def test_asked_for_less_while_a_move_is_being_written_it_waits_for_that(tmp_path: Path) -> None:
    worker = HeldBackground()
    cursors = Cursors(str(tmp_path), files=FaultyFiles(), clock=ManualClock(), worker=worker)
    cursors.create("t", 1, 7, "a", 20)
    cursor = cursors.get(1, "a")
    assert cursor is not None
    again = cursors.move(cursor, 15)
    worker.work()
    worker.answer()
    assert not again.done
    worker.finish()
    assert again.done


def test_a_restart_knows_its_gaps(bench: Bench) -> None:
    bench.create(1, "a", 30)
    bench.cursors.give_up(bench.get(1, "a"), 50, RETENTION)
    assert bench.cursors.move(bench.get(1, "a"), 60).done
    before = bench.get(1, "a")
    assert bench.start(1, 2) == ""
    assert bench.get(1, "a") == before
    assert before.offset == 60
    assert before.gaps == (CursorGap(30, 50, RETENTION, bench.clock.time_ns() // 1_000_000),)


def test_a_topic_that_is_gone_at_a_start_took_its_cursors_along(bench: Bench) -> None:
    bench.create(1, "a", 30)
    bench.start(2)
    (ended,) = bench.cursors.ended
    assert (ended.cursor.topic, ended.cursor.offset, ended.next_offset, ended.reason) == ("t1", 30, None, TOPIC_DELETED)
    bench.cursors.tick()
    bench.start(2)
    assert bench.cursors.ended == [ended], "and the file knows it, too"


def test_a_deletion_that_did_not_come_to_pass_leaves_the_cursors(bench: Bench) -> None:
    before = bench.create(1, "a", 30)
    bench.create(2, "b", 1)
    bench.cursors.delete(bench.get(2, "b"), 4)
    bench.cursors.forget_topic(1, 90)
    assert bench.start(1, 2) == ""
    assert bench.get(1, "a") == before
    assert bench.cursors.get(2, "b") is None, "that was deleted by itself"
    assert [one.reason for one in bench.cursors.ended] == [DELETED]


def test_asked_again_after_a_failed_write_it_is_written_again(bench: Bench) -> None:
    cursor = bench.create(1, "a", 30)
    bench.files.fail("sync", errno.ENOSPC, count=2)
    assert bench.cursors.move(cursor, 40).error
    assert bench.get(1, "a").offset == 30, "what was refused is not so"
    assert bench.cursors.move(bench.get(1, "a"), 40).error
    assert bench.cursors.move(bench.get(1, "a"), 40).error is None
    bench.start(1)
    assert bench.get(1, "a").offset == 40


@pytest.mark.parametrize("operation", ["write", "sync", "rename"])
def test_what_the_disk_refuses_is_as_it_was_now_and_at_the_next_start(bench: Bench, operation: str) -> None:
    kept, gone = bench.create(1, "kept", 30), bench.create(1, "gone", 5)
    bench.files.fail(operation, errno.EIO, count=3)
    assert bench.cursors.move(kept, 40).error
    assert bench.cursors.delete(gone, 90).error
    assert bench.cursors.create("t1", 1, 1, "new", 7).error
    for is_restarted in (False, True):
        if is_restarted:
            bench.cursors.tick()
            bench.start(1)
        assert {one.name: one.offset for one in bench.cursors.all()} == {"kept": 30, "gone": 5}
        assert bench.cursors.ended == []


def test_a_replaced_file_whose_name_was_not_synced_leaves_the_outcome_open(bench: Bench) -> None:
    cursor = bench.create(1, "a", 30)
    bench.files.fail("sync", errno.EIO, nth=2)
    assert isinstance(bench.cursors.move(cursor, 40).error, OutcomeUnknownError)
    assert bench.get(1, "a").offset == 30
    bench.cursors.tick()
    assert bench.cursors.error is None
    bench.start(1)
    assert bench.get(1, "a").offset == 30


def test_what_was_given_up_one_after_the_other_is_one_gap(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.create(1, "a", 0)
    for upto in (10, 20, 35):
        bench.clock.advance(ms=1_000)
        bench.cursors.give_up(bench.get(1, "a"), upto, RETENTION)
    now_ms = bench.clock.time_ns() // 1_000_000
    assert bench.get(1, "a").gaps == (CursorGap(0, 35, RETENTION, now_ms),)
    monkeypatch.setattr(cursors_module, "GAPS_MAX", 3)
    for upto in range(100, 600, 100):
        bench.cursors.move(bench.get(1, "a"), upto)
        bench.cursors.give_up(bench.get(1, "a"), upto + 5, RETENTION)
    gaps = [(gap.first_offset, gap.next_offset) for gap in bench.get(1, "a").gaps]
    assert gaps == [(300, 305), (400, 405), (500, 505)], "the newest are told of"


def test_files_of_version_1_are_read_for_ever() -> None:
    assert decode_cursors((FIXTURES / "cursors_v1.json").read_bytes()) == (FIXED, FIXED_ENDED)


def test_files_of_version_2_are_read_for_ever_and_say_whose_lake_it_is() -> None:
    data = (FIXTURES / "cursors_v2.json").read_bytes()
    archive, copy = FIXED
    cursors = [replace(archive, lake="0b7f6f2c5c1e4d0c8a64f4cb1b1f3c11"), copy]
    assert decode_cursors(data) == (cursors, FIXED_ENDED)
    assert encode_cursors(cursors, FIXED_ENDED) == data


def test_the_maker_of_a_cursor_and_its_end_are_in_the_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    maker = Maker("token copier", is_limited=True)
    bench.cursors.create("t1", 1, 1 << 40, "copy", 7, maker)
    bench.cursors.create("t1", 1, 1 << 40, "archive", 7, Maker("anna"))
    bench.clock.advance(ms=CONSUMER_CURSOR_MS - 10_000)
    bench.start(1)
    copy, archive = bench.get(1, "copy"), bench.get(1, "archive")
    assert (copy.maker, copy.is_limited, archive.maker, archive.is_limited) == ("token copier", True, "anna", False)
    assert bench.cursors.least_offset(1) == 7
    bench.cursors.move(archive, 9)
    bench.clock.advance(ms=10_000)
    bench.cursors.tick()
    assert bench.cursors.get(1, "copy") is None
    assert bench.cursors.least_offset(1) == 9
    assert [(one.cursor.name, one.reason) for one in bench.cursors.ended] == [("copy", EXPIRED)]
    bench.start(1)
    assert [one.name for one in bench.cursors.all()] == ["archive"]
    assert [(one.cursor.maker, one.next_offset) for one in bench.cursors.ended] == [("token copier", None)]


def test_a_cursor_that_begins_again_lasts_as_long_as_a_new_one_and_keeps_its_maker(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.cursors.create("t1", 1, 1 << 40, "copy", 7, Maker("token copier", is_limited=True))
    created = bench.get(1, "copy")
    bench.clock.advance(ms=CONSUMER_CURSOR_MS - 10_000)
    bench.cursors.restart(created, 3)
    again = bench.get(1, "copy")
    assert (again.offset, again.maker) == (3, "token copier")
    assert again.expires_ms - again.created_ms == created.expires_ms - created.created_ms
    bench.clock.advance(ms=10_000)
    bench.cursors.tick()
    assert bench.cursors.get(1, "copy") == again


# In every state that the end of the process or of the power can leave.

SEGMENT_BYTES = 4_096
LIMIT_BYTES = 5 * SEGMENT_BYTES
ID_BASE = 1 << 40
State = tuple[int, tuple[tuple[int, int], ...]]


def state_of(cursor: Cursor) -> State:
    return cursor.offset, tuple((gap.first_offset, gap.next_offset) for gap in cursor.gaps)


class CrashScript:
    """Publishing, moving and giving up on a disk that may end at every operation; a start then has to find the cursor
    where it was last said to be or where it was asked to be since, and every message from there on."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.judge_rng = Random(seed)  # of its own: how often the disk is asked does not change the script
        self.disk = SimulatedFiles()
        self.clock = ManualClock()
        self.worker = HeldBackground()
        self.store = self.new_store(self.disk, self.worker)
        self.store.open([])
        self.topic: LogTopicStore = self.store.open_topic("t", 1, id_base=ID_BASE)
        self.acknowledged: dict[int, bytes] = {}
        self.states: list[State] = []  # from the last that was said to be durable on
        self.is_created = False
        self.judged = 0
        self.passed = 0  # starts at which nothing was left of what lay before the cursor

    def new_store(self, files: SimulatedFiles, worker: HeldBackground | InlineBackground) -> LogStore:
        settings = LogSettings(
            policy=SyncPolicy.ALWAYS,
            sync_interval_ms=50,
            sync_interval_bytes=1_500,
            segment_bytes=SEGMENT_BYTES,
            memory_count_max=1_000,
            journal_reserve_bytes=0,
            checkpoint_interval_ms=30,
            block_bytes=64,
            pipeline_retention_bytes=LIMIT_BYTES,
        )
        backgrounds = Backgrounds(worker, InlineBackground(), worker)
        return LogStore("/log", settings, files=files, clock=self.clock, backgrounds=backgrounds)

    def run(self, steps: int) -> None:
        self.disk.before_operation = self.judge
        ticket = self.store.cursors.create("t", 1, ID_BASE, "archive", 0)
        self.note(ticket)
        for step in range(steps):
            # The reader is away for a while.
            move = self.publish if steps // 3 < step < steps * 2 // 3 else self.move
            self.rng.choice([self.publish, self.publish, move, self.work, self.work, self.tick])()

    def cursor(self) -> Cursor:
        cursor = self.store.cursors.get(1, "archive")
        assert cursor is not None
        return cursor

    def note(self, ticket: object) -> None:
        """The cursor was asked to stand where it stands now."""
        state = state_of(self.cursor())
        self.states.append(state)

        def settled(done: object) -> None:
            self.is_created = True
            del self.states[: self.states.index(state)]

        ticket.when_done(settled)

    def publish(self) -> None:
        bodies = [b"%d " % self.rng.randrange(1 << 30) + b"x" * self.rng.randrange(400) for _ in range(3)]
        first = self.topic.next_offset
        ticket = self.topic.append(self.topic.make_batch(bodies))
        self.store.end_turn()
        assert ticket.done
        if ticket.error is None:
            self.acknowledged |= {first + index: body for index, body in enumerate(bodies)}
        self.topic.empty()  # no channel needs any of it

    def move(self) -> None:
        cursor = self.cursor()
        upto = self.rng.randint(cursor.offset, self.topic.end_offset)
        self.note(self.store.cursors.move(cursor, min(upto, cursor.offset + 8)))

    def work(self) -> None:
        self.worker.work()
        if self.rng.random() < 0.7:
            self.worker.answer()

    def tick(self) -> None:
        self.clock.advance(ms=1_100)
        before = state_of(self.cursor())
        self.store.tick(self.clock.monotonic_ns())
        after = state_of(self.cursor())
        if after != before:
            self.note(self.store.cursors.saved())

    def judge(self, operation: str) -> None:
        if self.judge_rng.random() < 0.7:
            return
        disk = self.disk.after_kill() if self.judge_rng.random() < 0.5 else self.disk.after_power_cut(self.judge_rng)
        store = self.new_store(disk, InlineBackground())
        opening = store.open([TopicOpening("t", 1, ID_BASE, 10_000)])
        assert not opening.damaged_cursors
        assert opening.log.damages == []
        self.judged += 1
        cursor = store.cursors.get(1, "archive")
        if cursor is None:
            assert not self.is_created, "the cursor is lost"
            return
        # What the log gives up in the tick that is under way is noted after it.
        states = [*self.states, state_of(self.cursor())]
        assert state_of(cursor) in states, f"it stands at {state_of(cursor)} and was at {states}"
        topic = opening.topics[1]
        self.passed += topic.oldest_offset > 0
        reader = LogReader(topic)
        found = {}
        at = cursor.offset
        while at < topic.end_offset:
            page = reader.page(at, 1_000, 1 << 20)
            assert page.next_offset > at
            found |= {one.offset: one.body for one in page.messages}
            at = page.next_offset
        wanted = {offset: body for offset, body in self.acknowledged.items() if offset >= cursor.offset}
        assert wanted.items() <= found.items(), f"messages from {cursor.offset} on are gone"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.slow(reason="ends at every operation")
def test_after_every_crash_it_stands_where_it_was_or_was_moved_to_and_has_all_from_there_on(seed: int) -> None:
    script = CrashScript(seed)
    script.run(250)
    assert script.judged > 50
    assert script.passed > 10, "and segments went meanwhile"
    assert script.cursor().gaps, "and messages were given up"
