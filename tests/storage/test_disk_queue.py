"""DiskQueue as go-diskqueue's own tests know it, its bytes on disk, its syncs, and its state against a list."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from queue_engine.errors import ClosedError, StorageError
from queue_engine.storage.disk_queue import DiskQueue
from tests.support.background import HeldBackground
from tests.support.disk_queue import QueueFolder, put, records_of, take_all
from tests.support.files import FaultyFiles


@pytest.fixture
def folder(tmp_path: Path) -> QueueFolder:
    return QueueFolder(tmp_path)


# What nsqd's users rely on: the cases of go-diskqueue's tests.


def test_a_message_put_is_counted_at_once_and_read_equal(folder: QueueFolder) -> None:
    queue = folder.open(max_bytes_per_file=1024, message_bytes_min=4)
    assert queue.depth == 0
    put(queue, b"test")
    assert queue.depth == 1
    assert queue.take(1, 1 << 20) == [b"test"]
    assert queue.depth == 0


def test_a_file_is_rolled_before_it_would_exceed_its_limit(folder: QueueFolder) -> None:
    message = bytes([1, 2, 3, 4, 5, 6, 7, 8, 9, 0])
    queue = folder.open(max_bytes_per_file=10 * 14, message_bytes_min=10)
    for count in range(1, 12):
        put(queue, message)
        assert queue.depth == count
    assert folder.data_path(0).stat().st_size == 140
    assert folder.data_path(1).stat().st_size == 14
    for count in range(10, -1, -1):
        assert queue.take(1, 1 << 20) == [message]
        assert queue.depth == count


def test_a_message_larger_than_a_file_has_a_file_to_itself(folder: QueueFolder) -> None:
    queue = folder.open(max_bytes_per_file=100)
    put(queue, b"a" * 10)
    put(queue, b"b" * 500)
    put(queue, b"c" * 10)
    assert [folder.data_path(number).stat().st_size for number in (0, 1, 2)] == [14, 504, 14]
    assert take_all(queue) == [b"a" * 10, b"b" * 500, b"c" * 10]


def test_disk_bytes_are_those_of_what_waits_over_several_files(folder: QueueFolder) -> None:
    queue = folder.open(max_bytes_per_file=100, message_bytes_min=10)
    assert queue.disk_bytes == 0
    for count in range(1, 31):
        put(queue, b"0123456789")
        assert queue.disk_bytes == 14 * count
    for count in range(29, -1, -1):
        queue.take(1, 1 << 20)
        assert queue.disk_bytes == 14 * count


def test_peek_across_a_roll_never_consumes(folder: QueueFolder) -> None:
    message = b"0123456789"
    queue = folder.open(max_bytes_per_file=10 * 14, message_bytes_min=10)
    for _ in range(10):
        put(queue, message)
    for number in range(10, 0, -1):
        assert (queue.peek(), queue.peek(), queue.depth) == (message, message, number)
        assert queue.take(1, 1 << 20) == [message]
    assert queue.peek() is None


def test_peek_then_take_gives_the_same_and_then_the_next(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, b"one", b"two")
    assert queue.peek() == b"one"
    assert queue.depth == 2
    assert queue.take(1, 1 << 20) == [b"one"]
    assert queue.peek() == b"two"
    assert queue.take(1, 1 << 20) == [b"two"]


def test_take_then_peek_shows_what_is_put_later(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, b"one")
    assert queue.take(5, 1 << 20) == [b"one"]
    assert queue.peek() is None
    put(queue, b"two")
    assert queue.peek() == b"two"
    assert queue.depth == 1


def test_empty_removes_every_file_and_the_queue_works_on(folder: QueueFolder) -> None:
    queue = folder.open(max_bytes_per_file=100)
    message = bytes(10)
    for count in range(1, 101):
        put(queue, message)
        assert queue.depth == count
    for _ in range(3):
        assert queue.take(1, 1 << 20) == [message]
    queue.start_sync()
    assert queue.depth == 97
    assert len(folder.names) > 10

    assert queue.empty() == 97
    assert (folder.names, queue.depth, queue.peek()) == ([], 0, None)
    assert queue.empty() == 0

    for count in range(1, 101):
        put(queue, message)
        assert queue.depth == count
    assert take_all(queue, 1) == [message] * 100
    queue.start_sync()
    depth, read, write = folder.meta.split()
    assert (depth, read) == ("0", write)


@pytest.fixture
def damaged(folder: QueueFolder) -> tuple[QueueFolder, DiskQueue, bytes]:
    """25 messages of 124 bytes with their lengths, 8 in a file: files 0, 1, 2 are full, 3 holds one."""
    message = bytes([91]) + bytes(61) + bytes([4]) + bytes(56) + bytes([211])
    queue = folder.open(max_bytes_per_file=1000, message_bytes_min=10, sync_every=5)
    for _ in range(25):
        put(queue, message)
    return folder, queue, message


def test_a_truncated_middle_file_costs_what_it_lost(damaged: tuple[QueueFolder, DiskQueue, bytes]) -> None:
    folder, queue, message = damaged
    os.truncate(folder.data_path(1), 400)  # three whole messages of eight
    assert take_all(queue, 1) == [message] * 20
    assert (queue.depth, queue.lost_count, queue.bad_file_count) == (0, 5, 1)
    queue.start_sync()
    assert folder.names == ["000001.dat.bad", "000003.dat", "meta.dat"]


def test_behind_a_truncated_current_file_writing_goes_on_in_a_new_one(
    damaged: tuple[QueueFolder, DiskQueue, bytes],
) -> None:
    folder, queue, message = damaged
    assert queue.take(24, 1 << 20) == [message] * 24
    os.truncate(folder.data_path(3), 100)
    put(queue, message)
    assert folder.data_path(4).stat().st_size == 124
    assert queue.take(1, 1 << 20) == [message]
    assert (queue.depth, queue.bad_file_count) == (0, 1)


def test_a_record_of_length_zero_is_jumped_over(damaged: tuple[QueueFolder, DiskQueue, bytes]) -> None:
    folder, queue, message = damaged
    assert take_all(queue) == [message] * 25
    put(queue, message, message, message)
    with open(folder.data_path(3), "r+b") as file:
        file.seek(248)
        file.write(bytes(4))
    assert take_all(queue) == [message, message]
    assert (queue.depth, queue.lost_count, queue.bad_file_count) == (0, 1, 1)
    put(queue, message)
    assert queue.take(1, 1 << 20) == [message]


def test_a_truncated_last_file_ends_at_depth_zero(damaged: tuple[QueueFolder, DiskQueue, bytes]) -> None:
    folder, queue, message = damaged
    assert queue.take(24, 1 << 20) == [message] * 24
    put(queue, message, message)
    os.truncate(folder.data_path(3), 130)
    assert queue.depth == 3
    assert take_all(queue) == [message]
    assert (queue.depth, queue.lost_count) == (0, 2)


def test_the_meta_file_is_written_after_the_timeout_for_writes_and_for_reads(folder: QueueFolder) -> None:
    queue = folder.open(max_bytes_per_file=1 << 11, sync_timeout_ms=50)
    message = bytes(1000)
    put(queue, message)
    folder.clock.advance(ms=49)
    assert not folder.sync_when_due(queue)
    folder.clock.advance(ms=1)
    assert folder.sync_when_due(queue)
    assert folder.meta == "1\n0,0\n0,1004\n"

    put(queue, message)
    assert queue.take(1, 1 << 20) == [message]
    folder.clock.advance(ms=50)
    assert folder.sync_when_due(queue)
    assert folder.meta == "1\n0,1004\n0,2008\n"
    folder.clock.advance(ms=1000)
    assert not folder.sync_when_due(queue)


def test_a_queue_reopened_with_larger_files_keeps_its_order(folder: QueueFolder) -> None:
    def message(first: int) -> bytes:
        return bytes([first]) + bytes(range(1, 10))

    queue = folder.open(max_bytes_per_file=8 * 14, message_bytes_min=10)
    for number in range(9):
        put(queue, message(number))
    queue.close()
    assert folder.meta == "9\n0,0\n1,14\n"

    queue = folder.open(max_bytes_per_file=10 * 14, message_bytes_min=10)
    for number in range(10):
        put(queue, message(20 + number))
    assert queue.depth == 19
    assert folder.data_path(2).stat().st_size == 14
    assert take_all(queue, 1) == [message(number) for number in (*range(9), *range(20, 30))]
    queue.close()
    assert folder.meta.startswith("0\n")
    assert not [name for name in folder.names if name.endswith(".bad")]


def test_sizes_out_of_range_are_refused_and_nothing_of_the_batch_counts(folder: QueueFolder) -> None:
    queue = folder.open(message_bytes_min=4, message_bytes_max=8)
    with pytest.raises(StorageError, match=r"^invalid message write size \(3\) minMsgSize=4 maxMsgSize=8$"):
        put(queue, b"good", b"bad")
    with pytest.raises(StorageError, match=r"^invalid message write size \(9\) minMsgSize=4 maxMsgSize=8$"):
        put(queue, b"good", b"too large")
    assert (queue.depth, folder.names) == (0, [])


def test_a_closed_queue_refuses_with_nsqds_word_and_still_tells_its_depth(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, b"one", b"two")
    queue.close()
    queue.close()
    assert queue.depth == 2
    for act in (lambda: put(queue, b"three"), lambda: queue.take(1, 1), queue.peek, queue.empty):
        with pytest.raises(ClosedError, match=r"^exiting$"):
            act()
    assert not queue.sync_due(1 << 62)


# The bytes.


def test_the_bytes_on_disk_are_go_diskqueues(folder: QueueFolder) -> None:
    folder.name = "orders:billing"
    queue = folder.open(max_bytes_per_file=24)
    put(queue, b"abc", b"\x00" * 8)
    put(queue, b"defg")
    assert queue.take(1, 1 << 20) == [b"abc"]
    queue.close()
    assert {entry.name: entry.read_bytes() for entry in folder.path.iterdir()} == {
        "orders:billing.diskqueue.000000.dat": b"\x00\x00\x00\x03abc\x00\x00\x00\x08" + bytes(8),
        "orders:billing.diskqueue.000001.dat": b"\x00\x00\x00\x04defg",
        "orders:billing.diskqueue.meta.dat": b"2\n0,7\n1,8\n",
    }
    assert folder.data_path(0).stat().st_mode & 0o777 == 0o600


def test_a_queue_that_nsqd_left_is_read_and_continued(folder: QueueFolder) -> None:
    # As nsqd 1.3 leaves it after a clean stop: file 3 read up to its second message, file 4 begun.
    folder.data_path(3).write_bytes(bytes.fromhex("00000002 6831 00000002 6832 00000002 6833"))
    folder.data_path(4).write_bytes(bytes.fromhex("00000002 6834"))
    folder.meta_path.write_bytes(b"3\n3,6\n4,6\n")
    queue = folder.open()
    assert queue.depth == 3
    put(queue, b"h5")
    assert take_all(queue) == [b"h2", b"h3", b"h4", b"h5"]
    queue.close()
    assert folder.meta == "0\n4,12\n4,12\n"
    assert folder.names == ["000004.dat", "meta.dat"]


@pytest.mark.parametrize("act", ["start_sync", "close"])
def test_the_meta_file_never_points_at_the_end_of_a_full_file(folder: QueueFolder, act: str) -> None:
    # nsqd takes that for damage and sets the file aside.
    queue = folder.open(max_bytes_per_file=20)
    put(queue, b"0123456789")
    assert len(queue.take(1, 100)) == 1
    put(queue, b"abcdefghij")
    getattr(queue, act)()
    assert folder.meta == "1\n1,0\n1,14\n"
    assert folder.names == ["000001.dat", "meta.dat"]


def test_an_unused_queue_touches_nothing(tmp_path: Path) -> None:
    files = FaultyFiles()
    folder = QueueFolder(tmp_path, files=files)
    for number in range(50):
        folder.name = f"topic:channel{number}"
        queue = folder.open()
        assert (queue.peek(), queue.take(1, 1), queue.empty()) == (None, [], 0)
        assert not folder.sync_when_due(queue)
        queue.delete() if number % 2 else queue.close()
    assert (folder.names, files.open_fds) == ([], set())
    assert files.calls.count("listdir") == 1
    assert not {"create", "write", "unlink", "rename", "sync"} & set(files.calls)


def test_queues_whose_names_begin_alike_do_not_mix(folder: QueueFolder) -> None:
    names = ["a", "a.diskqueue.000000", "a:b", "a.diskqueue.meta.dat", "a.diskqueue.000000.dat"]
    for name in names:
        folder.name = name
        queue = folder.open()
        put(queue, name.encode())
        queue.close()
    for name in names:
        folder.name = name
        queue = folder.open()
        assert queue.depth == 1, name
        assert take_all(queue) == [name.encode()]
        queue.empty()
    assert list(folder.path.iterdir()) == []


# Bulk.


def test_a_batch_is_one_write_and_a_file_one_read(tmp_path: Path) -> None:
    files = FaultyFiles()
    queue = QueueFolder(tmp_path, files=files).open()
    messages = [b"%d" % number for number in range(1000)]
    put(queue, *messages)
    assert files.calls.count("write") == 1
    assert take_all(queue, 7) == messages
    assert files.calls.count("read") == 1


def test_a_batch_is_spread_over_as_many_files_as_it_takes(folder: QueueFolder) -> None:
    queue = folder.open(max_bytes_per_file=50)
    messages = [b"%03d" % number * 4 for number in range(30)]
    put(queue, *messages[:2])
    put(queue, *messages[2:])
    sizes = [folder.data_path(number).stat().st_size for number in range(10)]
    assert sizes == [48] * 10
    assert queue.depth == 30
    assert take_all(queue, 4) == messages


def test_take_keeps_to_count_and_bytes_but_always_gives_one(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, *[b"x" * 10] * 10)
    assert len(queue.take(3, 1 << 20)) == 3
    assert len(queue.take(100, 25)) == 2
    assert len(queue.take(100, 20)) == 2
    assert len(queue.take(100, 1)) == 1
    assert queue.depth == 2


def test_messages_larger_than_a_read_come_whole(folder: QueueFolder) -> None:
    queue = folder.open(message_bytes_max=1 << 20)
    messages = [bytes([number]) * size for number, size in enumerate((1, 262_139, 262_140, 262_144, 700_000, 5), 1)]
    put(queue, *messages)
    assert take_all(queue, 2) == messages


# Opening after something went wrong.


def crashed(folder: QueueFolder) -> QueueFolder:
    """The folder as the next process finds it."""
    assert isinstance(folder.files, FaultyFiles)
    folder.files.abandon()
    return QueueFolder(folder.path, folder.name, FaultyFiles(), options=folder.options)


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[QueueFolder]:
    files = FaultyFiles()
    yield QueueFolder(tmp_path, files=files)
    files.abandon()


def test_without_a_meta_file_the_depth_is_counted_from_the_data(faulty: QueueFolder) -> None:
    queue = faulty.open(max_bytes_per_file=50)
    messages = [b"%d" % number for number in range(40)]
    put(queue, *messages)
    queue = crashed(faulty).open(max_bytes_per_file=50)
    assert queue.depth == 40
    assert queue.found_count == 40
    assert take_all(queue) == messages


def test_what_was_written_behind_the_meta_file_is_kept(faulty: QueueFolder) -> None:
    queue = faulty.open()
    put(queue, b"one", b"two", b"three")
    assert queue.take(1, 100) == [b"one"]
    queue.start_sync()
    put(queue, b"four", b"five")
    folder = crashed(faulty)
    queue = folder.open()
    assert (queue.depth, queue.found_count, queue.lost_count) == (4, 2, 0)
    put(queue, b"six")
    assert take_all(queue) == [b"two", b"three", b"four", b"five", b"six"]
    assert folder.data_path(0).stat().st_size == 3 * 4 + 11 + 4 * 3 + 11


def test_nothing_is_appended_behind_a_torn_tail(folder: QueueFolder) -> None:
    folder.data_path(0).write_bytes(records_of([b"one", b"two"])[0] + b"\x00\x00\x00\x09torn")
    queue = folder.open()
    assert queue.depth == 2
    put(queue, b"three")
    assert folder.data_path(1).read_bytes() == b"\x00\x00\x00\x05three"
    assert take_all(queue) == [b"one", b"two", b"three"]
    queue.close()
    assert folder.names == ["000000.dat.bad", "000001.dat", "meta.dat"]


def test_a_meta_file_that_points_at_a_file_already_removed_is_put_right(folder: QueueFolder) -> None:
    folder.data_path(5).write_bytes(records_of([b"a", b"b"])[0])
    folder.meta_path.write_text("3\n4,70\n5,10\n")
    queue = folder.open()
    assert (queue.depth, queue.lost_count) == (2, 1)
    assert take_all(queue) == [b"a", b"b"]


def test_a_meta_file_alone_is_an_empty_queue(folder: QueueFolder) -> None:
    folder.meta_path.write_text("7\n2,8\n3,50\n")
    queue = folder.open()
    assert (queue.depth, queue.lost_count) == (0, 7)
    put(queue, b"new")
    queue.close()
    assert folder.meta == "1\n4,0\n4,7\n"


@pytest.mark.parametrize(
    "content", ["", "\n", "1\n0,0\n", "x\n0,0\n0,5\n", "1\n0,5\n0,0\n", "1\n0,-1\n0,5\n", "9" * 2000]
)
def test_a_meta_file_that_says_nothing_is_rebuilt(folder: QueueFolder, content: str) -> None:
    folder.data_path(0).write_bytes(records_of([b"a", b"b"])[0])
    folder.meta_path.write_text(content)
    queue = folder.open()
    assert queue.depth == 2
    queue.start_sync()
    assert folder.meta == "2\n0,0\n0,10\n"


def test_a_depth_that_drifted_is_counted_again(folder: QueueFolder) -> None:
    # nsqd keeps the depth apart from the data, and it is known to drift, even below zero.
    folder.data_path(0).write_bytes(records_of([b"a", b"b", b"c"])[0])
    for depth in (-3, 0, 1):
        folder.meta_path.write_text(f"{depth}\n0,5\n0,15\n")
        assert folder.open().depth == 2


def test_leftovers_of_a_crash_are_removed_with_the_next_sync(folder: QueueFolder) -> None:
    folder.data_path(0).write_bytes(records_of([b"read"])[0])
    folder.data_path(1).write_bytes(records_of([b"a"])[0])
    folder.meta_path.write_text("1\n1,0\n1,5\n")
    folder.meta_path.with_name(f"{folder.meta_path.name}.123.tmp").write_text("1\n")
    queue = folder.open()
    assert len(folder.names) == 4
    assert folder.sync_when_due(queue)
    assert folder.names == ["000001.dat", "meta.dat"]
    assert take_all(queue) == [b"a"]


def test_messages_from_before_the_limit_was_lowered_are_still_read(folder: QueueFolder) -> None:
    queue = folder.open(message_bytes_max=1000)
    messages = [b"a" * 10, b"b" * 900, b"c" * 10, b"d" * 1000]
    put(queue, *messages)
    queue.close()
    queue = folder.open(message_bytes_max=100)
    assert queue.depth == 4
    assert take_all(queue) == messages
    assert queue.bad_file_count == 0
    with pytest.raises(StorageError, match="invalid message write size"):
        put(queue, b"e" * 101)


def test_numbers_of_files_set_aside_are_not_used_again(folder: QueueFolder) -> None:
    (folder.path / "q.diskqueue.000007.dat.bad").write_bytes(b"kept")
    queue = folder.open()
    put(queue, b"a")
    assert folder.data_path(8).exists()
    queue.delete()
    assert folder.names == ["000007.dat.bad"]


def test_a_large_backlog_is_not_counted_at_every_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_engine.storage.disk_queue_recovery.VERIFY_BYTES_MAX", 200)
    folder = QueueFolder(tmp_path, files=FaultyFiles(), options={"max_bytes_per_file": 100})
    queue = folder.open()
    messages = [b"%04d" % number for number in range(100)]
    put(queue, *messages[:90])
    queue.close()
    files = FaultyFiles()
    folder.files = files
    queue = folder.open()
    assert queue.depth == 90
    assert files.calls.count("read") == 1  # the meta file

    # After a kill only what came behind the meta file is counted.
    put(queue, *messages[90:])
    folder = crashed(folder)
    queue = folder.open()
    assert queue.depth == 100
    assert folder.files.calls.count("read") < 5
    assert queue.take(95, 1 << 20) == messages[:95]
    assert queue.depth == 5
    assert take_all(queue) == messages[95:]
    assert (queue.depth, queue.lost_count) == (0, 0)


def test_a_depth_that_was_believed_and_is_wrong_is_put_right_when_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_engine.storage.disk_queue_recovery.VERIFY_BYTES_MAX", 0)
    folder = QueueFolder(tmp_path)
    folder.data_path(0).write_bytes(records_of([b"%d" % number for number in range(10)])[0])
    for told in (3, 10):
        folder.meta_path.write_text(f"{told}\n0,0\n0,50\n")
        queue = folder.open()
        assert queue.depth == told
        assert len(take_all(queue, 1)) == 10
        assert queue.depth == 0
    os.truncate(folder.data_path(0), 45)
    folder.meta_path.write_text("10\n0,0\n0,45\n")
    queue = folder.open()
    assert len(take_all(queue)) == 9
    assert (queue.depth, queue.lost_count) == (0, 1)


# Syncs away from the engine's thread.


@pytest.fixture
def held(tmp_path: Path) -> Iterator[QueueFolder]:
    files = FaultyFiles()
    yield QueueFolder(tmp_path, files=files, background=HeldBackground(), options={"max_bytes_per_file": 50})
    files.abandon()


def worker_of(folder: QueueFolder) -> HeldBackground:
    assert isinstance(folder.background, HeldBackground)
    return folder.background


def calls_of(folder: QueueFolder) -> list[str]:
    assert isinstance(folder.files, FaultyFiles)
    return folder.files.calls


def test_a_sync_is_due_after_so_many_changes(held: QueueFolder) -> None:
    queue = held.open(sync_every=5)
    put(queue, b"a", b"b", b"c")
    assert not held.sync_when_due(queue)
    queue.take(2, 100)
    assert held.sync_when_due(queue)
    assert not held.sync_when_due(queue), "one at a time"
    assert queue.is_dirty
    worker_of(held).finish()
    assert not queue.is_dirty
    assert held.meta == "1\n0,10\n0,15\n"


def test_neither_put_nor_take_nor_roll_syncs_in_the_engines_thread(held: QueueFolder) -> None:
    queue = held.open()
    for number in range(12):
        put(queue, b"%05d" % number)
    queue.take(7, 1000)
    queue.start_sync()
    assert not {"sync", "sync_data"} & set(calls_of(held))
    worker_of(held).finish()
    # The full file, the present one, the meta file, the directory. The file that was read needs none.
    assert (calls_of(held).count("sync_data"), calls_of(held).count("sync")) == (2, 2)


def test_a_file_that_was_read_goes_only_after_the_meta_file_that_passed_it(held: QueueFolder) -> None:
    queue = held.open()
    put(queue, *[b"x" * 10] * 6)
    queue.take(6, 1000)
    assert queue.is_dirty
    assert "000000.dat" in held.names
    queue.start_sync()
    calls_of(held).clear()
    worker_of(held).finish()
    changes = [call for call in calls_of(held) if call in ("rename", "sync", "unlink")]
    assert changes == ["sync", "rename", "sync", "unlink"]
    assert held.names == ["000001.dat", "meta.dat"]


def test_a_disk_that_lags_behind_slows_the_producer_instead_of_eating_descriptors(held: QueueFolder) -> None:
    queue = held.open()
    for number in range(100):
        put(queue, b"%05d" % number * 8)
    put(queue, *[b"x" * 40] * 50)
    files = held.files
    assert isinstance(files, FaultyFiles)
    assert len(files.open_fds) <= 5
    assert queue.depth == 150
    queue.close()
    assert files.open_fds == set()


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize("is_worked", [False, True])
@pytest.mark.parametrize("ending", ["empty", "delete", "close"])
def test_a_sync_under_way_does_not_bring_back_what_ended(
    held: QueueFolder, ending: str, is_worked: bool, is_answered: bool
) -> None:
    queue = held.open()
    put(queue, *[b"x" * 10] * 10)
    queue.take(4, 1000)
    queue.start_sync()
    worker = worker_of(held)
    if is_worked:
        worker.work()
        if is_answered:
            worker.answer()
    queue.take(1, 100)
    getattr(queue, ending)()
    names, meta = held.names, held.meta_path.exists() and held.meta
    worker.finish()
    assert held.names == names
    if ending == "close":
        assert held.meta == meta == "5\n1,28\n3,14\n"
    else:
        assert names == []
    if ending == "empty":
        put(queue, b"new")
        queue.close()
        assert held.open().depth == 1
    else:
        files = held.files
        assert isinstance(files, FaultyFiles)
        assert files.open_fds == set()


@pytest.mark.parametrize("is_under_way", [False, True])
def test_close_syncs_the_data_before_the_meta_file_whatever_the_worker_has_begun(
    held: QueueFolder, is_under_way: bool
) -> None:
    queue = held.open()
    put(queue, *[b"x" * 10] * 6)
    if is_under_way:
        queue.start_sync()
    calls_of(held).clear()
    queue.close()
    assert [call for call in calls_of(held) if call in ("sync_data", "rename")] == ["sync_data", "sync_data", "rename"]
    worker_of(held).finish()
    assert held.meta == "6\n0,0\n1,42\n"


@pytest.mark.parametrize("ending", ["empty", "delete", "close"])
def test_a_sync_that_is_overtaken_in_its_midst_leaves_no_meta_file(held: QueueFolder, ending: str) -> None:
    queue = held.open()
    put(queue, b"a", b"b")
    queue.start_sync()
    files = held.files
    assert isinstance(files, FaultyFiles)

    def overtake(operation: str) -> None:
        if operation == "sync":  # of the temporary meta file, before it gets its name
            files.before_call = None
            queue.take(1, 100)
            getattr(queue, ending)()

    files.before_call = overtake
    worker_of(held).finish()
    if ending == "close":
        assert held.meta == "1\n0,5\n0,10\n"
        assert held.names == ["000000.dat", "meta.dat"]
    else:
        assert held.names == []


def test_a_queue_of_the_same_name_is_safe_from_the_deleted_ones_sync(held: QueueFolder) -> None:
    queue = held.open()
    put(queue, *[b"x" * 10] * 6)
    queue.take(6, 1000)
    queue.start_sync()
    queue.delete()
    again = held.open()
    put(again, b"new")
    worker_of(held).finish()
    assert held.names == ["000000.dat"]
    assert take_all(again) == [b"new"]


def test_descriptors_of_an_idle_queue_are_given_back_and_an_unsynced_one_is_kept(held: QueueFolder) -> None:
    files = held.files
    assert isinstance(files, FaultyFiles)
    queue = held.open()
    put(queue, b"a", b"b", b"c")
    assert queue.take(1, 100) == [b"a"]
    assert len(files.open_fds) == 2
    queue.release_descriptors()
    assert len(files.open_fds) == 1
    queue.start_sync()
    worker_of(held).finish()
    queue.release_descriptors()
    assert files.open_fds == set()
    put(queue, b"d")
    assert take_all(queue) == [b"b", b"c", b"d"]


# Against a list.


class DiskQueueAgainstList(RuleBasedStateMachine):
    """Any sequence of acts, with a worker that is late, clean restarts, and kills at any moment between two acts.

    After a kill what was taken since the last durable meta file may come again; nothing that was put and not
    taken may be missing, nothing may come that was not put, and the order stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[bytes] = []
        self.taken: list[bytes] = []  # what may come again after a kill, newest last
        self.number = 0

    @initialize(per_file=st.integers(8, 120), sync_every=st.integers(1, 10))
    def start(self, per_file: int, sync_every: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.folder = QueueFolder(
            Path(self.directory.name), options={"max_bytes_per_file": per_file, "sync_every": sync_every}
        )
        self.new_process()

    def new_process(self) -> None:
        self.folder.files = self.files = FaultyFiles()
        self.folder.background = self.worker = HeldBackground()
        self.queue = self.folder.open()

    def teardown(self) -> None:
        self.files.abandon()
        self.directory.cleanup()

    @rule(sizes=st.lists(st.integers(4, 60), min_size=1, max_size=8))
    def put(self, sizes: list[int]) -> None:
        messages = []
        for size in sizes:
            self.number += 1
            messages.append(b"%04d" % self.number + bytes(size - 4))
        put(self.queue, *messages)
        self.expected += messages

    @rule(count=st.integers(1, 6), bytes_max=st.integers(1, 200))
    def take(self, count: int, bytes_max: int) -> None:
        taken = self.queue.take(count, bytes_max)
        assert bool(taken) == bool(self.expected)
        assert taken == self.expected[: len(taken)]
        assert len(taken) <= count
        assert sum(map(len, taken)) <= bytes_max or len(taken) == 1
        del self.expected[: len(taken)]
        self.taken += taken

    @rule()
    def peek(self) -> None:
        assert self.queue.peek() == (self.expected[0] if self.expected else None)

    @rule()
    def empty(self) -> None:
        assert self.queue.empty() == len(self.expected)
        self.expected.clear()
        self.taken.clear()

    @rule()
    def tick(self) -> None:
        self.folder.sync_when_due(self.queue)

    @rule()
    def sync(self) -> None:
        self.queue.start_sync()

    @rule()
    def work(self) -> None:
        self.worker.work()

    @rule()
    def answer(self) -> None:
        self.worker.answer()

    @rule()
    def release(self) -> None:
        self.queue.release_descriptors()

    @rule()
    def restart(self) -> None:
        self.queue.close()
        self.worker.finish()
        assert self.files.open_fds == set()
        self.new_process()
        assert self.queue.lost_count == self.queue.found_count == 0
        self.taken.clear()

    @rule()
    def delete(self) -> None:
        self.queue.delete()
        self.expected.clear()
        self.taken.clear()
        self.queue = self.folder.open()

    @precondition(lambda self: self.number)
    @rule()
    def kill(self) -> None:
        self.files.abandon()
        self.new_process()
        depth = self.queue.depth
        found = take_all(self.queue, 3)
        assert len(found) == depth
        everything = self.taken + self.expected
        assert len(found) >= len(self.expected)
        assert found == everything[len(everything) - len(found) :]
        # Taken once more in order to look; so it may come once more.
        self.taken, self.expected = everything, []

    @invariant()
    def depth_is_exact(self) -> None:
        if hasattr(self, "queue"):
            assert self.queue.depth == len(self.expected)
            assert self.queue.lost_count == self.queue.bad_file_count == 0


DiskQueueAgainstList.TestCase.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestDiskQueueAgainstList = DiskQueueAgainstList.TestCase
