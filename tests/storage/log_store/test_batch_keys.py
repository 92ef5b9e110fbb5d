"""Batch keys: known when their record is there, whatever ends the process, and long after its segment is gone."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from queue_engine.commit_log.options import SyncPolicy
from queue_engine.disk.background import Backgrounds, InlineBackground
from queue_engine.disk.files import Files
from queue_engine.fetch.record_reader import RecordReader
from queue_engine.log_store import batch_keys
from queue_engine.log_store.batch_keys import (
    ENTRY_BYTES,
    HEADER_BYTES,
    KEYS_AGE_NS,
    BatchKeys,
    KeyedRecord,
    decode_batch_keys,
    digest_of,
    encode_batch_keys,
)
from queue_engine.log_store.log_settings import LogSettings
from queue_engine.log_store.log_store import LogOpening, LogStore
from queue_engine.log_store.log_topic import TopicOpening
from queue_engine.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.errors import BatchKeyConflictError, NewerFormatError
from queue_engine.vocabulary.ticket import Ticket
from tests.storage.log_store.test_record_reader import decoded
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.background import HeldBackground
from tests.support.stores.log_store import everything

FIXTURE = Path(__file__).parent.parent / "fixtures" / "batch_keys_v1.bin"
SEGMENT_BYTES = 2_048
RESERVED = 1 << 30
# Lives by chance; more of them on demand.
SEEDS = range(int(os.environ.get("TEST_KEY_SEEDS", "4")))
CHECKPOINT_MS = 5_100


def key_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


class KeysBench:
    """A log store, by default on a simulated disk, whose sync and worker do something when they are told to."""

    def __init__(
        self,
        files: Files,
        *topics: int,
        policy: SyncPolicy = SyncPolicy.ALWAYS,
        directory: str = "/log",
        is_held: bool = False,
        clock: ManualClock | None = None,
    ) -> None:
        self.files = files
        self.directory = directory
        self.clock = clock or ManualClock()
        self.sync: HeldBackground | InlineBackground = HeldBackground() if is_held else InlineBackground()
        self.worker: HeldBackground | InlineBackground = HeldBackground() if is_held else InlineBackground()
        settings = LogSettings(
            policy=policy,
            sync_interval_ms=100,
            sync_interval_bytes=1 << 20,
            segment_bytes=SEGMENT_BYTES,
            memory_count_max=100,
            journal_reserve_bytes=0,
        )
        backgrounds = Backgrounds(self.worker, self.sync, self.worker)
        self.log = LogStore(directory, settings, files=files, clock=self.clock, backgrounds=backgrounds)
        openings = [TopicOpening(f"t{number}", number, number << 40, channels={number: 0}) for number in topics]
        self.opening: LogOpening = self.log.open(openings)
        self.log.reserved([(number, RESERVED) for number in topics])
        self.topics: dict[int, LogTopicStore] = dict(self.opening.topics)
        for topic in self.topics.values():
            topic.set_flowing(True)

    def make(self, number: int) -> LogTopicStore:
        topic = self.topics[number] = self.log.open_topic(f"t{number}", number, id_base=number << 40)
        topic.set_flowing(True)
        return topic

    def write(self, key: int, *bodies: bytes, topic: int = 1) -> Ticket:
        """As the engine does."""
        store = self.topics[topic]
        digest = digest_of(bodies, None)
        known = store.known_batch(key_of(key), digest, len(bodies))
        if known is not None:
            return known.ticket
        return store.append_keyed(store.make_batch(bodies), keys=None, batch_key=key_of(key), digest=digest)

    def written(self, key: int, *bodies: bytes, topic: int = 1) -> None:
        ticket = self.write(key, *bodies, topic=topic)
        self.log.end_turn()
        assert ticket.done
        assert ticket.error is None

    def checkpoint(self) -> None:
        self.clock.advance(ms=CHECKPOINT_MS)
        self.log.tick(self.clock.monotonic_ns())

    def offset(self, key: int, *bodies: bytes, topic: int = 1) -> int | None:
        """The first offset known of a key with this content."""
        known = self.topics[topic].known_batch(key_of(key), digest_of(bodies, None), len(bodies))
        return None if known is None else known.first_offset

    def in_log(self, topic: int = 1) -> dict[bytes, int]:
        """Key → first offset, as the log's records have them."""
        found: dict[bytes, int] = {}
        store, at = self.topics[topic], 0
        while True:
            answer = RecordReader(store).read(at, 1 << 30)
            if not answer.count:
                return found
            for record in decoded(answer.records):
                if any(record.header.batch_key):
                    assert record.header.batch_key not in found, "written twice"
                    found[record.header.batch_key] = record.header.first_offset
            at = answer.next_offset


def file_of(disk: Files, directory: str = "/log") -> bytes:
    return disk.read_whole(f"{directory}/batch_keys", 1 << 30) or b""


def put_file(disk: Files, data: bytes | None) -> None:
    if data is None:
        disk.unlink("/log/batch_keys")
    else:
        disk.replace("/log/batch_keys", data)


def filled() -> KeysBench:
    """Eight keyed batches, a checkpoint behind the first six, all synced."""
    bench = KeysBench(SimulatedFiles())
    bench.make(1)
    for number in range(1, 7):
        bench.written(number, b"%d" % number, b"more")
    bench.checkpoint()
    for number in (7, 8):
        bench.written(number, b"%d" % number, b"more")
    return bench


def offsets(bench: KeysBench) -> list[int | None]:
    return [bench.offset(number, b"%d" % number, b"more") for number in range(1, 9)]


EVERY_OFFSET = list(range(0, 16, 2))


# The file.


def test_the_first_version_is_read_for_ever() -> None:
    data = FIXTURE.read_bytes()
    entries, durable = decode_batch_keys(data)
    assert durable == 2
    assert encode_batch_keys([one for one in entries if one is not None]) == data
    keys = BatchKeys("/log", files=SimulatedFiles.holding({"/log/batch_keys": data}), clock=ManualClock())
    assert keys.open({7}, is_expected=True) == ""
    known = keys.find(7, key_of(1), digest_of([b"a", b"b"], [b"", b"k"]), 2)
    assert known is not None
    assert (known.first_offset, known.count, len(keys)) == (40, 2, 1)


def test_no_altered_bit_is_believed() -> None:
    data = FIXTURE.read_bytes()
    good, _ = decode_batch_keys(data)
    for at in range(len(data)):
        for bit in range(8):
            altered = bytearray(data)
            altered[at] ^= 1 << bit
            entries, durable = decode_batch_keys(bytes(altered))
            if at < HEADER_BYTES:
                assert durable is None
                assert entries == good
            else:
                index = (at - HEADER_BYTES) // ENTRY_BYTES
                assert [one is None for one in entries] == [index == 0, index == 1]


def test_a_newer_version_is_refused() -> None:
    bench = filled()
    data = bytearray(file_of(bench.files))
    data[4] = 2
    data[60:64] = batch_keys.crc32c(bytes(data[:60])).to_bytes(4, "big")
    with pytest.raises(NewerFormatError, match=r"batch_keys has format version 2, .* up to 1\."):
        decode_batch_keys(bytes(data))


def test_a_digest_tells_where_bodies_and_keys_begin() -> None:
    contents = [
        ([b"ab"], None),
        ([b"a", b"b"], None),
        ([b"a", b"b"], [b"", b"k"]),
        ([b"a", b"b"], [b"k", b""]),
        ([b"b"], [b"a"]),
        ([b"", b"ab"], None),
    ]
    assert len({digest_of(bodies, keys) for bodies, keys in contents}) == len(contents)
    assert digest_of([b"a", b"b"], [b"", b""]) == digest_of([b"a", b"b"], None)


# What ends the process.


def test_a_key_is_known_after_a_kill_with_and_without_a_checkpoint_behind_it() -> None:
    bench = filled()
    again = KeysBench(bench.files.after_kill(), 1)
    assert offsets(again) == EVERY_OFFSET
    assert again.opening.log.scanned_records == 2, "those behind the checkpoint"
    with pytest.raises(BatchKeyConflictError):
        again.offset(3, b"other")
    with pytest.raises(BatchKeyConflictError):
        again.offset(8, b"other", b"more")


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_batch_of_which_nothing_came_to_the_disk_is_new_after_a_power_cut(is_synced: bool) -> None:
    bench = filled()
    disk = bench.files.after_kill()
    bench = KeysBench(disk, 1, is_held=True)
    ticket = bench.write(9, b"a")
    bench.log.end_turn()
    if is_synced:
        assert isinstance(bench.sync, HeldBackground)
        bench.sync.work()
    assert not ticket.done
    again = KeysBench(disk.after_power_cut(Random(1)), 1)
    assert again.offset(9, b"a") == (16 if is_synced else None)
    again.written(9, b"a")
    assert list(again.in_log().values()).count(16) == 1


def test_where_no_sync_is_waited_for_a_power_cut_takes_keys_with_their_records() -> None:
    for seed in range(20):
        bench = KeysBench(SimulatedFiles(), policy=SyncPolicy.INTERVAL)
        bench.make(1)
        bench.written(1, b"1")
        bench.checkpoint()
        bench.written(2, b"2")
        bench.checkpoint()
        bench.written(3, b"3")
        assert bench.offset(3, b"3") == 2
        files = bench.files
        assert isinstance(files, SimulatedFiles)
        again = KeysBench(files.after_power_cut(Random(seed)), 1, policy=SyncPolicy.INTERVAL)
        assert again.offset(1, b"1") == 0
        assert (again.offset(3, b"3") is not None) == (key_of(3) in again.in_log())


@pytest.mark.parametrize("has_file", [False, True])
def test_a_checkpoint_writes_no_key_whose_record_is_not_synced(has_file: bool) -> None:
    lost = 0
    for seed in range(20):
        disk = SimulatedFiles()
        bench = KeysBench(disk, policy=SyncPolicy.INTERVAL, is_held=True)
        assert isinstance(bench.sync, HeldBackground)
        assert isinstance(bench.worker, HeldBackground)
        bench.make(1)
        bench.checkpoint()
        bench.worker.finish()
        bench.written(1, b"1")
        bench.clock.advance(ms=200)
        bench.log.tick(bench.clock.monotonic_ns())
        bench.sync.finish()
        if has_file:
            bench.checkpoint()
            bench.worker.finish()
        bench.written(2, b"2")
        bench.checkpoint()
        bench.worker.finish()
        entries, _ = decode_batch_keys(file_of(disk))
        assert [one[0][4:] for one in entries if one is not None] == [key_of(1)]
        again = KeysBench(disk.after_power_cut(Random(seed)), 1, policy=SyncPolicy.INTERVAL)
        assert again.offset(1, b"1") == 0
        assert (again.offset(2, b"2") is not None) == (key_of(2) in again.in_log())
        lost += again.offset(2, b"2") is None
    assert lost > 3


class PromiseBrokenError(BaseException):
    """Something promised does not hold; nobody takes it for trouble with the disk."""


class Script:
    """A life by chance, ended at many of its moments, and what must hold then."""

    def __init__(self, seed: int, policy: SyncPolicy) -> None:
        self.rng = Random(seed)
        self.policy = policy
        self.disk = SimulatedFiles()
        self.bench = KeysBench(self.disk, policy=policy, is_held=True)
        self.acknowledged: set[tuple[int, int]] = set()  # topic and key
        self.deleted: set[int] = set()
        self.positions: dict[tuple[int, int], int] = {}  # of their records
        self.gone = 0  # keys that were known without their record
        self.states = 0
        for number in (1, 2):
            self.bench.make(number)
        self.end_rng = Random(seed)  # of its own: how often the disk is asked does not change the script
        self.disk.before_operation = lambda operation: self.maybe_end() if self.end_rng.random() < 0.03 else None

    def run(self, steps: int) -> None:
        bench, rng = self.bench, self.rng
        backlogs = {number: topic.open_channel("c", number) for number, topic in bench.topics.items()}
        for _ in range(steps):
            act = rng.random()
            topic = rng.choice(sorted(set(bench.topics) - self.deleted))
            if act < 0.4:
                self.write(rng.randrange(1, 40), topic)
            elif act < 0.5:
                store = bench.topics[topic]
                store.append(store.make_batch([b"plain"]))
            elif act < 0.6:
                bench.log.end_turn()
            elif act < 0.75:
                self.work(bench.sync)
            elif act < 0.85:
                self.work(bench.worker)
            elif act < 0.93:
                bench.checkpoint()
            elif act < 0.98:
                if backlogs[topic].depth:
                    list(everything(backlogs[topic]))
            elif len(bench.topics) - len(self.deleted) < 3:
                number = max(bench.topics) + 1
                backlogs[number] = bench.make(number).open_channel("c", number)
            else:
                bench.topics[topic].delete()
                self.deleted.add(topic)
            bench.log.end_turn()
            if rng.random() < 0.1:
                self.maybe_end()

    def work(self, background: HeldBackground | InlineBackground) -> None:
        assert isinstance(background, HeldBackground)
        background.work()
        background.answer()

    def write(self, key: int, topic: int) -> None:
        def settled(done: Ticket) -> None:
            if done.error is not None:
                raise PromiseBrokenError(done.error)
            self.acknowledged.add((topic, key))

        position = self.bench.log.log.end
        ticket = self.bench.write(key, b"%d" % key, b"of %d" % topic * 20, topic=topic)
        if self.bench.log.log.end != position:
            self.positions[topic, key] = position
        ticket.when_done(settled)

    def maybe_end(self) -> None:
        """The process or the machine ends here: what the next one knows."""
        before, self.disk.before_operation = self.disk.before_operation, lambda operation: None
        is_kill = self.end_rng.random() < 0.4
        left = self.disk.after_kill() if is_kill else self.disk.after_power_cut(self.end_rng)
        self.states += 1
        alive = sorted(set(self.bench.topics) - self.deleted)
        for _ in range(2):
            clock = ManualClock()
            clock.advance(ms=10_000_000)
            again = KeysBench(left, *alive, policy=self.policy, clock=clock)
            self.judge(again, alive, must_have_all=is_kill or self.policy is SyncPolicy.ALWAYS)
            left = left.after_power_cut(self.end_rng)
        self.disk.before_operation = before

    def judge(self, again: KeysBench, alive: list[int], *, must_have_all: bool) -> None:
        if again.opening.log.damages:
            raise PromiseBrokenError(again.opening.log.damages)
        for topic in alive:
            in_log = again.in_log(topic)
            for key in range(1, 40):
                offset = again.offset(key, b"%d" % key, b"of %d" % topic * 20, topic=topic)
                # Of what was being removed the segment may still be there.
                is_gone = offset is not None and (
                    again.log.segments.segment_of(self.positions[topic, key]) is None
                    or offset < again.topics[topic].oldest_offset
                )
                if offset != in_log.get(key_of(key)) and not is_gone:
                    raise PromiseBrokenError(f"{key} of {topic} is known at {offset}, in the log {in_log}")
                if must_have_all and offset is None and (topic, key) in self.acknowledged:
                    raise PromiseBrokenError(f"{key} of {topic} was acknowledged and is not known")
                self.gone += is_gone


@pytest.mark.parametrize("policy", list(SyncPolicy))
@pytest.mark.slow(reason="ends at every operation")
def test_whenever_the_end_comes_a_key_is_known_when_its_record_is_there(policy: SyncPolicy) -> None:
    scripts = [Script(seed, policy) for seed in SEEDS]
    for script in scripts:
        script.run(220)
        assert len(script.bench.log.segments.list) > 2
        assert len(script.acknowledged) > 20
    assert sum(script.states for script in scripts) > 10 * len(scripts)
    assert sum(script.gone for script in scripts) > 0, "keys outlive segments"


# Trouble with the file.


def test_a_torn_end_of_the_file_is_cut_and_the_log_tells_the_rest() -> None:
    bench = filled()
    bench.checkpoint()
    whole = file_of(bench.files)
    assert len(whole) == HEADER_BYTES + 8 * ENTRY_BYTES
    for left in range(1, 2 * ENTRY_BYTES + 1):
        disk = filled().files.after_kill()
        put_file(disk, whole[:-left] + bytes(left if left % 2 else 0))
        again = KeysBench(disk, 1)
        assert again.opening.log.damages == []
        assert offsets(again) == EVERY_OFFSET
        assert len(file_of(disk)) == HEADER_BYTES + (7 if left <= ENTRY_BYTES else 6) * ENTRY_BYTES
        again.checkpoint()
        again.written(9, b"9", b"more")
        again.checkpoint()
        entries, durable = decode_batch_keys(file_of(disk))
        assert [one is None for one in entries] == [False] * 9
        assert durable == 8


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data[:HEADER_BYTES] + b"\xff" + data[HEADER_BYTES + 1 :],
        lambda data: b"\xff" + data[1:],
        lambda data: data[: HEADER_BYTES + 3 * ENTRY_BYTES],
        lambda data: b"",
        lambda data: None,
    ],
    ids=["an entry", "the header", "cut off", "empty", "missing"],
)
def test_a_damaged_file_is_told_set_aside_and_made_anew_from_the_log(harm: Callable[[bytes], bytes | None]) -> None:
    bench = filled()
    disk = bench.files.after_kill()
    damaged = harm(file_of(disk))
    put_file(disk, damaged)
    again = KeysBench(disk, 1)
    told = again.opening.log.damages[-1].sentence()
    assert f"/log/batch_keys is {'missing' if damaged is None else 'damaged'}" in told
    assert "no message lost" in told
    assert offsets(again) == EVERY_OFFSET
    assert disk.read_whole("/log/batch_keys.bad", 1 << 20) == damaged
    for ended in (disk.after_power_cut(Random(1)), disk.after_kill()):
        third = KeysBench(ended, 1)
        assert third.opening.log.damages == []
        assert offsets(third) == EVERY_OFFSET


def removed_segments(directory: Path) -> KeysBench:
    """The first of three batches with keys is in a segment that is gone."""
    bench = KeysBench(FaultyFiles(), directory=str(directory))
    topic = bench.make(1)
    channel = topic.open_channel("c", 1)
    for number in range(1, 4):
        bench.written(number, b"%d" % number, b"more")
        for _ in range(20):
            topic.append(topic.make_batch([b"x" * 100]))
            bench.log.end_turn()
        list(everything(channel))
        bench.log.end_turn()
    for _ in range(3):
        bench.checkpoint()
    assert bench.log.segments.list[0].position > 0
    assert topic.oldest_offset > 22
    return bench


def test_a_key_outlives_its_segment(tmp_path: Path) -> None:
    bench = removed_segments(tmp_path)
    assert isinstance(bench.files, FaultyFiles)
    bench.files.abandon()
    again = KeysBench(FaultyFiles(), 1, directory=str(tmp_path))
    assert again.offset(1, b"1", b"more") == 0
    assert key_of(1) not in again.in_log()
    again.log.close()


def test_of_a_damaged_file_the_other_keys_outlive_their_segments_too(tmp_path: Path) -> None:
    bench = removed_segments(tmp_path)
    assert isinstance(bench.files, FaultyFiles)
    bench.files.abandon()
    path = tmp_path / "batch_keys"
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 2 * ENTRY_BYTES + 30] ^= 1
    path.write_bytes(data + data[HEADER_BYTES : HEADER_BYTES + ENTRY_BYTES])  # a synced one behind it
    again = KeysBench(FaultyFiles(), 1, directory=str(tmp_path))
    assert [again.offset(number, b"%d" % number, b"more") for number in (1, 2)] == [0, 22]
    again.log.close()


def test_no_segment_goes_whose_keys_the_file_has_not(tmp_path: Path) -> None:
    bench = KeysBench(FaultyFiles(), directory=str(tmp_path))
    assert isinstance(bench.files, FaultyFiles)
    topic = bench.make(1)
    channel = topic.open_channel("c", 1)
    bench.files.fail("rename", errno.ENOSPC, count=1_000)
    bench.written(1, b"1", b"more")
    for _ in range(60):
        topic.append(topic.make_batch([b"x" * 100]))
        bench.log.end_turn()
    list(everything(channel))
    for _ in range(20):
        bench.checkpoint()
    assert len(bench.log.segments.list) > 3
    assert bench.log.segments.list[0].position == 0
    assert bench.log.batch_keys.first_unwritten_position == 128
    assert bench.log.retention.punchable() == []
    bench.files.heal()
    for _ in range(3):
        bench.checkpoint()
    assert bench.log.segments.list[0].position > 0
    bench.files.abandon()
    again = KeysBench(FaultyFiles(), 1, directory=str(tmp_path))
    assert again.offset(1, b"1", b"more") == 0
    again.log.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_what_could_not_be_written_is_written_with_the_next_checkpoint(tmp_path: Path, operation: str) -> None:
    bench = KeysBench(FaultyFiles(), directory=str(tmp_path), policy=SyncPolicy.INTERVAL)
    bench.make(1)
    bench.written(1, b"1")
    bench.checkpoint()
    bench.written(2, b"2")
    bench.clock.advance(ms=200)
    bench.log.tick(bench.clock.monotonic_ns())
    files = bench.files
    assert isinstance(files, FaultyFiles)
    write = bench.log.batch_keys.start_write(bench.log.log.synced_end)
    assert write is not None
    files.fail(operation, errno.ENOSPC)
    assert isinstance(write.finish(), OSError)
    bench.log.batch_keys.settle(write)
    bench.log.batch_keys.settle(write)
    assert bench.log.batch_keys.first_unwritten_position is not None
    inode = os.stat(tmp_path / "batch_keys").st_ino
    bench.written(3, b"3")
    bench.checkpoint()
    bench.checkpoint()
    entries, _ = decode_batch_keys(file_of(files, str(tmp_path)))
    assert [one[0][4:] for one in entries if one is not None] == [key_of(1), key_of(2), key_of(3)]
    is_new = os.stat(tmp_path / "batch_keys").st_ino != inode
    assert is_new == (operation == "sync"), "what a failed sync left is not to be trusted"
    bench.log.close()


# Bounds.


def test_the_oldest_keys_go_when_there_are_too_many() -> None:
    keys = BatchKeys("/log", files=SimulatedFiles(), clock=ManualClock(), keys_max=100)
    for number in range(1, 151):
        keys.put(KeyedRecord(1, key_of(number), number, 1, ManualClock().time_ns(), number, 1), bytes(16))
        assert len(keys) <= 100
    known = [number for number in range(1, 151) if keys.find(1, key_of(number), bytes(16), 1) is not None]
    assert known == list(range(151 - len(known), 151))
    assert len(known) >= 90


def test_old_keys_go_and_the_file_is_made_anew_when_most_of_it_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_keys, "_USELESS_MAX", 10)
    bench = filled()
    assert isinstance(bench.files, SimulatedFiles)
    for number in range(20, 40):
        bench.written(number, b"x")
    bench.checkpoint()
    assert len(file_of(bench.files)) == HEADER_BYTES + 28 * ENTRY_BYTES
    bench.clock.advance(ms=KEYS_AGE_NS // 1_000_000)
    for number in (100, 101):
        bench.written(number, b"y")
    bench.checkpoint()
    assert len(file_of(bench.files)) == HEADER_BYTES + 2 * ENTRY_BYTES
    assert (bench.offset(1, b"other"), bench.offset(100, b"y")) == (None, 36)
    bench.written(1, b"again")
    again = KeysBench(bench.files.after_kill(), 1, clock=bench.clock)
    assert (again.offset(1, b"again"), again.offset(100, b"y"), again.offset(2, b"2", b"more")) == (38, 36, None)


@pytest.mark.parametrize("name", ["checkpoint", "batch_keys"])
def test_when_the_whole_log_is_read_the_last_use_of_a_key_counts_and_old_ones_stay_forgotten(name: str) -> None:
    bench = filled()
    bench.clock.advance(ms=KEYS_AGE_NS // 1_000_000 + 1_000)
    bench.checkpoint()
    bench.written(7, b"y")
    bench.checkpoint()
    disk = bench.files
    assert isinstance(disk, SimulatedFiles)
    disk.unlink(f"/log/{name}")
    again = KeysBench(disk.after_kill(), 1, clock=bench.clock)
    assert again.offset(7, b"y") == 16
    assert again.offset(1, b"1", b"more") is None
    assert len(again.log.batch_keys) == 1


def test_keys_of_deleted_topics_go_at_once_and_are_not_read_back() -> None:
    bench = filled()
    bench.make(2)
    bench.written(1, b"two", topic=2)
    bench.topics[1].delete()
    assert len(bench.log.batch_keys) == 1
    bench.checkpoint()
    disk = bench.files
    assert isinstance(disk, SimulatedFiles)
    again = KeysBench(disk.after_kill(), 2)
    assert len(again.log.batch_keys) == 1
    assert again.offset(1, b"two", topic=2) == 0


def test_a_key_whose_record_is_damaged_is_known_for_as_many_messages() -> None:
    bench = filled()
    disk = bench.files.after_kill()
    place = bench.topics[1].queue.locate(12)
    assert place is not None
    segment = bench.log.segments.segment_of(place[0])
    assert segment is not None
    disk.replace(segment.path, harmed(disk.read_whole(segment.path, 1 << 20)))
    again = KeysBench(disk, 1)
    assert again.offset(7, b"anything", b"of two") == 12
    with pytest.raises(BatchKeyConflictError):
        again.offset(7, b"one")
    assert offsets(again) == EVERY_OFFSET


def harmed(segment: bytes) -> bytes:
    """The body of key 7's first message altered."""
    at = segment.index(b"%016x7" % ((1 << 40) + 12)) + 16
    return segment[:at] + b"X" + segment[at + 1 :]
