"""A consume queue finds every message's record, whatever was written, cut, forgotten or lost in between."""

import errno
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from queue_engine.storage.consume_queue import consume_queue
from queue_engine.storage.consume_queue import queue_files as queue_files_module
from queue_engine.storage.consume_queue.consume_queue import FILE_UNITS, UNIT_BYTES, ConsumeQueue
from queue_engine.storage.consume_queue.queue_files import DESCRIPTORS_MAX, QueueFiles
from queue_engine.vocabulary.errors import StorageError
from tests.support.disks.files import FaultyFiles
from tests.support.disks.simulated_disk import SimulatedFiles


class Shelf:
    """One queue on a directory, and what it should know."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = FaultyFiles()
        self.queue_files = QueueFiles(self.files)
        self.queue = ConsumeQueue(str(directory / "7"), self.queue_files)

    def reopen(self, **marks: object) -> ConsumeQueue:
        """As after a restart, with what the checkpoint remembers."""
        marks = {
            "oldest_offset": self.queue.oldest_offset,
            "end_offset": self.queue.end_offset,
            "gaps": self.queue.gaps,
        } | marks
        self.queue_files.close()
        self.queue_files = QueueFiles(self.files)
        self.queue = ConsumeQueue(str(self.directory / "7"), self.queue_files, **marks)
        return self.queue

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.directory / "7").iterdir())


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def places(queue: ConsumeQueue, first: int, end: int) -> list[tuple[int, int] | None]:
    return [queue.locate(offset) for offset in range(first, end)]


def test_each_offset_of_a_batch_is_in_its_record(shelf: Shelf) -> None:
    queue = shelf.queue
    queue.append(0, 2, 64, 300)
    queue.append(2, 1, 364, 200)
    expected = [(64, 300), (64, 300), (364, 200), None]
    assert places(queue, 0, 4) == expected
    assert not (shelf.directory / "7").exists(), "nothing is on disk before the first flush"
    assert queue.flush()
    assert places(queue, 0, 4) == expected
    assert places(shelf.reopen(), 0, 4) == expected
    assert shelf.names() == ["00000000000000000000.queue"]


def test_the_bytes_are_twenty_a_unit_big_endian(shelf: Shelf) -> None:
    shelf.queue.append(0, 1, 0x0102, 0x0304, [0x0506])
    shelf.queue.flush()
    unit = (shelf.directory / "7" / "00000000000000000000.queue").read_bytes()
    assert unit.hex(" ", 4) == "00000000 00000102 00000304 00000000 00000506"
    assert len(unit) == UNIT_BYTES


def test_a_batch_may_lie_in_two_files(shelf: Shelf) -> None:
    first = FILE_UNITS - 2
    queue = shelf.reopen(oldest_offset=first, end_offset=first)
    queue.append(first, 5, 64, 300)
    queue.flush()
    assert shelf.names() == ["00000000000000000000.queue", "00000000000000300000.queue"]
    assert places(shelf.reopen(), first, first + 6) == [(64, 300)] * 5 + [None]


def test_skipped_offsets_are_a_gap_without_messages(shelf: Shelf) -> None:
    queue = shelf.queue
    queue.append(0, 2, 64, 300)
    queue.append(100, 2, 364, 300)
    queue.append(200, 1, 700, 100)
    for _ in range(2):
        assert queue.gaps == [(2, 98), (102, 98)]
        assert [queue.count_between(0, end) for end in (2, 50, 101, 102, 150, 201)] == [2, 2, 3, 4, 4, 5]
        assert queue.count_between(50, 150) == 2
        assert queue.present_between(0, 201) == [(0, 2), (100, 102), (200, 201)]
        assert queue.present_between(1, 101) == [(1, 2), (100, 101)]
        assert queue.present_between(50, 60) == queue.present_between(2, 2) == []
        assert [queue.next_present(offset) for offset in (0, 2, 99, 100, 102, 200, 201)] == [
            0,
            100,
            100,
            100,
            200,
            200,
            None,
        ]
        assert places(queue, 1, 4) == [(64, 300), None, None]
        queue.flush()
        queue = shelf.reopen()


def test_due_times_are_found_by_offset_and_survive(shelf: Shelf) -> None:
    queue = shelf.queue
    queue.append(0, 3, 64, 300, [0, 50, 60])
    queue.append(3, 1, 400, 100)
    queue.append(4, 1, 500, 100, [70])
    for _ in range(2):
        assert queue.deferred_between(0, 5) == [(1, 50), (2, 60), (4, 70)]
        assert queue.deferred_between(2, 4) == [(2, 60)]
        queue.flush()
        queue = shelf.reopen()
    queue.append(5, 1, 600, 100, [80])
    queue.flush()
    assert shelf.reopen().deferred_between(0, 9) == [(1, 50), (2, 60), (4, 70), (5, 80)]


def test_due_times_go_when_a_checkpoint_knows_that_their_messages_are_gone(shelf: Shelf) -> None:
    queue = shelf.queue
    queue.append(0, 5, 64, 300, [50] * 5)
    queue.flush()
    path = shelf.directory / "7" / "deferred"
    queue.trim(4)
    assert path.stat().st_size == 5 * 16, "a start by the last checkpoint still has the messages"
    queue.checkpointed(4)
    assert path.stat().st_size == 16
    assert shelf.reopen().deferred_between(0, 9) == [(4, 50)]


def test_due_times_outlive_a_compaction_that_the_disk_refused(shelf: Shelf) -> None:
    queue = shelf.queue
    queue.append(0, 5, 64, 300, [50] * 5)
    queue.flush()
    shelf.files.fail("create", errno.ENOSPC)
    queue.trim(4)
    with pytest.raises(OSError, match="No space"):
        queue.checkpointed(4)
    queue.append(5, 1, 400, 100, [60])
    queue.flush()
    assert shelf.reopen().deferred_between(0, 9) == [(4, 50), (5, 60)]


def test_due_times_that_can_not_be_put_right_are_an_error_of_storage(shelf: Shelf) -> None:
    shelf.queue.append(0, 3, 64, 300, [50] * 3)
    shelf.queue.flush()
    queue = shelf.reopen(end_offset=2)
    shelf.files.fail("create", errno.EIO)
    with pytest.raises(StorageError, match="deferred can't be written"):
        queue.deferred_between(0, 9)
    assert queue.deferred_between(0, 9) == [(0, 50), (1, 50)]


def test_due_times_are_those_that_the_units_have(shelf: Shelf) -> None:
    shelf.queue.append(0, 3, 64, 300, [0, 50, 60])
    shelf.queue.flush()
    assert shelf.reopen().has_dues_as_tagged()
    path = shelf.directory / "7" / "deferred"
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        queue = shelf.reopen()
        # An offset that is not there is forgotten, and its message comes early.
        assert not queue.has_dues_as_tagged() or len(queue.deferred_between(0, 3)) == 1


def test_reading_the_log_again_from_before_the_end_replaces_what_was_noted(shelf: Shelf) -> None:
    queue = shelf.queue
    queue.append(0, 4, 64, 300)
    queue.append(4, 4, 400, 300, [1, 2, 3, 4])
    queue.flush()
    queue.append(2, 2, 90, 90)
    assert places(queue, 0, 5) == [(64, 300), (64, 300), (90, 90), (90, 90), None]
    assert (queue.end_offset, queue.deferred_between(0, 9)) == (4, [])
    queue.append(10, 1, 99, 99)
    queue.flush()
    queue.truncate(6)
    assert (queue.end_offset, queue.gaps) == (6, [(4, 2)])
    assert places(shelf.reopen(), 3, 8) == [(90, 90), None, None, None, None]


def test_what_was_consumed_goes_file_by_file(shelf: Shelf) -> None:
    first = 2 * FILE_UNITS - 1
    queue = shelf.reopen(oldest_offset=FILE_UNITS - 1, end_offset=FILE_UNITS - 1)
    queue.append(FILE_UNITS - 1, FILE_UNITS + 2, 64, 300)
    queue.flush()
    assert len(shelf.names()) == 3
    queue.trim(FILE_UNITS)
    assert shelf.names() == ["00000000000000300000.queue", "00000000000000600000.queue"]
    queue.trim(first)
    assert shelf.names() == ["00000000000000300000.queue", "00000000000000600000.queue"]
    assert places(queue, first - 1, first + 3) == [None, (64, 300), (64, 300), None]


def test_missing_and_short_files_are_told_from_where(shelf: Shelf) -> None:
    queue = shelf.queue
    queue.append(0, 10, 64, 300)
    queue.append(FILE_UNITS, 10, 400, 300)
    queue.flush()
    assert queue.first_missing() is None
    path = shelf.directory / "7" / "00000000000000300000.queue"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert shelf.reopen().first_missing() == FILE_UNITS + 9
    path.unlink()
    assert shelf.reopen().first_missing() == FILE_UNITS
    (shelf.directory / "7" / "00000000000000000000.queue").unlink()
    assert shelf.reopen().first_missing() == 0
    assert shelf.reopen().locate(3) is None


def test_the_last_unit_is_offered_for_comparison_with_the_log(shelf: Shelf) -> None:
    assert shelf.queue.last_unit() is None
    shelf.queue.append(0, 3, 64, 300)
    assert shelf.queue.last_unit() == (2, 64, 300)
    shelf.queue.flush()
    assert shelf.reopen(end_offset=500, gaps=[(3, 497)]).last_unit() == (2, 64, 300)


def test_a_full_disk_keeps_the_tail_and_a_later_flush_writes_it(shelf: Shelf) -> None:
    queue = shelf.queue
    queue.append(0, 1, 64, 300)
    shelf.files.fail("write", errno.ENOSPC)
    assert not queue.flush()
    assert queue.error is not None
    assert "No space" in str(queue.error)
    assert places(queue, 0, 1) == [(64, 300)]
    assert queue.flush()
    assert queue.error is None
    assert places(shelf.reopen(), 0, 1) == [(64, 300)]


def test_an_error_of_reading_is_no_missing_message(shelf: Shelf) -> None:
    shelf.queue.append(0, 1, 64, 300)
    shelf.queue.flush()
    queue = shelf.reopen()
    for operation, error in (("open", errno.EMFILE), ("read", errno.EIO)):
        shelf.files.fail(operation, error)
        with pytest.raises(StorageError):
            queue.locate(0)
    assert queue.locate(0) == (64, 300)


def test_a_long_tail_is_written_without_being_asked(shelf: Shelf) -> None:
    count = 0
    while not (shelf.directory / "7").exists():
        shelf.queue.append(count, 1, 64 + count * 200, 200)
        count += 1
    assert 100 < count < 1_000
    assert shelf.queue.tail_bytes == 0


def test_a_thousand_topics_need_few_descriptors(tmp_path: Path) -> None:
    files = FaultyFiles()
    queue_files = QueueFiles(files)
    queues = [ConsumeQueue(str(tmp_path / str(number)), queue_files) for number in range(200)]
    for queue in queues:
        queue.append(0, 1, 64, 300)
        queue.flush()
    assert all(queue.locate(0) == (64, 300) for queue in queues)
    assert len(files.open_fds) <= DESCRIPTORS_MAX
    assert len(queue_files.take_unsynced()) == 200
    queue_files.close()
    assert files.open_fds == set()


def test_a_sync_makes_files_and_their_names_durable(shelf: Shelf) -> None:
    shelf.queue.append(0, 1, 64, 300)
    shelf.queue.flush()
    paths = shelf.queue_files.take_unsynced()
    assert shelf.queue_files.take_unsynced() == []
    shelf.files.calls.clear()
    shelf.queue_files.sync([*paths, str(shelf.directory / "7" / "gone")])
    assert shelf.files.calls.count("sync_data") == 1
    assert shelf.files.calls.count("sync") == 1


def test_a_deleted_queue_leaves_nothing(shelf: Shelf) -> None:
    shelf.queue.append(0, 1, 64, 300, [9])
    shelf.queue.flush()
    shelf.queue.delete()
    assert list(shelf.directory.iterdir()) == []
    shelf.queue.delete()


class ConsumeQueueMachine(RuleBasedStateMachine):
    """Whatever is done, and however often it is opened again, it knows what a dict knows."""

    @initialize(path=st.builds(lambda: None))
    def start(self, path: None) -> None:
        import tempfile

        self.directory = tempfile.TemporaryDirectory()
        self.patched = pytest.MonkeyPatch()
        self.patched.setattr(consume_queue, "FILE_UNITS", 8)
        self.patched.setattr(consume_queue, "BLOCK_UNITS", 4)
        self.patched.setattr(ConsumeQueue, "_block_bytes", 4 * UNIT_BYTES)
        self.shelf = Shelf(Path(self.directory.name))
        self.units: dict[int, tuple[int, int]] = {}
        self.due: dict[int, int] = {}
        self.position = 64

    def teardown(self) -> None:
        if hasattr(self, "patched"):
            self.patched.undo()
            self.directory.cleanup()

    @rule(skipped=st.sampled_from([0, 0, 0, 1, 11]), count=st.integers(1, 12), dues=st.booleans())
    def append(self, skipped: int, count: int, dues: bool) -> None:
        first = self.shelf.queue.end_offset + skipped
        times: Sequence[int] | None = [offset % 3 for offset in range(first, first + count)] if dues else None
        self.shelf.queue.append(first, count, self.position, 100, times)
        for offset in range(first, first + count):
            self.units[offset] = self.position, 100
            if dues and offset % 3:
                self.due[offset] = offset % 3
        self.position += 100

    @rule()
    def flush(self) -> None:
        assert self.shelf.queue.flush()

    @rule()
    def restart(self) -> None:
        assert self.shelf.queue.flush()
        self.shelf.reopen()
        assert self.shelf.queue.first_missing() is None

    @rule(back=st.integers(0, 20))
    def truncate(self, back: int) -> None:
        end = max(self.shelf.queue.oldest_offset, self.shelf.queue.end_offset - back)
        self.shelf.queue.truncate(end)
        self.units = {offset: unit for offset, unit in self.units.items() if offset < end}
        self.due = {offset: due for offset, due in self.due.items() if offset < end}

    @rule(forward=st.integers(0, 20))
    def trim(self, forward: int) -> None:
        queue = self.shelf.queue
        oldest = min(queue.end_offset, queue.oldest_offset + forward)
        queue.trim(oldest)
        self.units = {offset: unit for offset, unit in self.units.items() if offset >= oldest}
        self.due = {offset: due for offset, due in self.due.items() if offset >= oldest}

    @invariant()
    def it_knows_what_the_dict_knows(self) -> None:
        if not hasattr(self, "shelf"):
            return
        queue = self.shelf.queue
        offsets = range(queue.oldest_offset, queue.end_offset + 2)
        assert [queue.locate(offset) for offset in offsets] == [self.units.get(offset) for offset in offsets]
        assert dict(queue.deferred_between(queue.oldest_offset, queue.end_offset)) == self.due
        assert queue.count_between(queue.oldest_offset, queue.end_offset) == len(self.units)
        for offset in offsets:
            expected = min((one for one in self.units if one >= offset), default=None)
            present = queue.next_present(offset)
            assert present == expected or (expected is None and present is None)


ConsumeQueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestConsumeQueueMachine = ConsumeQueueMachine.TestCase


def test_the_first_version_of_units_is_read_for_ever(tmp_path: Path) -> None:
    """Three messages of one record, then two of another with due times; drawn at the head of consume_queue.py."""
    units = bytes.fromhex(
        "0000000000000040000001230000000000000000"
        "0000000000000040000001230000000000000000"
        "0000000000000040000001230000000000000000"
        "0000000000000163000000801849331f2cf68000"
        "0000000000000163000000800000000000000000"
    )  # fmt: skip
    files = QueueFiles(FaultyFiles())
    queue = ConsumeQueue(str(tmp_path / "1"), files)
    queue.append(0, 3, 0x40, 0x123)
    queue.append(3, 2, 0x163, 0x80, [0x1849331F2CF68000, 0])
    assert queue.flush()
    (path,) = (tmp_path / "1").glob("*.queue")
    assert path.read_bytes() == units
    again = ConsumeQueue(str(tmp_path / "1"), QueueFiles(FaultyFiles()), end_offset=5)
    assert [again.locate(offset) for offset in range(6)] == [(0x40, 0x123)] * 3 + [(0x163, 0x80)] * 2 + [None]
    assert again.deferred_between(0, 5) == [(3, 0x1849331F2CF68000)]


@pytest.mark.parametrize("wrong", [2, 3, 5, 7])
def test_a_cut_that_a_damaged_unit_leads_astray_is_not_made(shelf: Shelf, wrong: int) -> None:
    queue = shelf.queue
    for offset in range(10):
        queue.append(offset, 1, 1_000 * offset, 100)
    queue.flush()
    path = shelf.directory / "7" / f"{0:020d}.queue"
    data = bytearray(path.read_bytes())
    data[wrong * 20] = 0xFF
    path.write_bytes(data)
    queue = shelf.reopen(end_offset=10)
    assert queue.cut_at(8_000, lambda offset, place: place[0] == 1_000 * offset) == (queue.end_offset == 8)
    assert queue.end_offset in (8, 10)


def test_very_many_files_are_synced_with_the_whole_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_files_module, "SYNC_FILES_MAX", 3)
    disk = SimulatedFiles()
    files = QueueFiles(disk)
    paths = [f"/log/queues/{number}/0.queue" for number in range(6)]
    for count in (3, 6):
        for path in paths[:count]:
            files.write(path, b"unit", 0)
        synced: list[str] = []
        disk.before_operation = synced.append
        files.sync(files.take_unsynced())
        disk.before_operation = lambda operation: None
        assert ("sync_file_system" in synced) is (count > 3)
        left = disk.after_power_cut(Random(count)).contents()
        assert {path: left.get(path) for path in paths[:count]} == dict.fromkeys(paths[:count], b"unit")


def test_a_file_system_that_can_not_be_synced_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_files_module, "SYNC_FILES_MAX", 0)
    disk = FaultyFiles()
    files = QueueFiles(disk)
    path = str(tmp_path / "queues" / "1" / "0.queue")
    files.write(path, b"unit", 0)
    unsynced = files.take_unsynced()
    files.sync(unsynced)
    disk.fail("sync_file_system", errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        files.sync(unsynced)


def test_a_power_cut_while_a_queue_is_set_aside_leaves_its_due_times_or_shows_what_was_begun() -> None:
    """Units that are back under their name without the due times would be trusted, and deliver early."""
    units, deferred = "/queues/1/00000000000000000000.queue", "/queues/1/deferred"
    for seed in range(60):
        disk = SimulatedFiles.holding({units: bytes(UNIT_BYTES), deferred: bytes(16)})
        QueueFiles(disk).rename_to_old("/queues/1")
        left = disk.after_power_cut(Random(seed)).contents()
        assert units not in left or deferred in left
        assert units in left or f"{units}.old" in left
