"""DiskQueue as go-diskqueue's own tests know it, its bytes on disk, and messages in bulk."""

import os
from pathlib import Path

import pytest

from queue_engine.storage.disk_queue.fifo.disk_queue import PEEKED_BYTES_MAX, DiskQueue
from queue_engine.vocabulary.errors import ClosedError, StorageError
from tests.support.disks.files import FaultyFiles
from tests.support.stores.disk_queue import QueueFolder, put, take_all


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
    assert (queue.depth, queue.lost_count) == (0, 5)
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
    assert queue.depth == 0
    queue.start_sync()
    assert folder.bad_names == ["000003.dat.bad"]


def test_a_record_of_length_zero_is_jumped_over(damaged: tuple[QueueFolder, DiskQueue, bytes]) -> None:
    folder, queue, message = damaged
    assert take_all(queue) == [message] * 25
    put(queue, message, message, message)
    with open(folder.data_path(3), "r+b") as file:
        file.seek(248)
        file.write(bytes(4))
    assert take_all(queue) == [message, message]
    assert (queue.depth, queue.lost_count) == (0, 1)
    queue.start_sync()
    assert folder.bad_names == ["000003.dat.bad"]
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


def test_a_large_message_that_was_looked_at_is_not_kept_in_memory(folder: QueueFolder) -> None:
    queue = folder.open(message_bytes_max=1 << 20)
    put(queue, b"first" + b"x" * 300_000, b"second" + b"x" * 300_000)
    for _ in range(2):
        head = queue.peek()
        assert head is not None
        assert (head[:5], len(head)) == (b"first", PEEKED_BYTES_MAX)
        assert queue._reader._chunk == b""
    assert [one[:6] for one in take_all(queue)] == [b"firstx", b"second"]


def test_what_was_read_ahead_is_let_go_of_when_nothing_is_taken(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, *[b"%d" % number for number in range(10)])
    assert queue.take(1, 1) == [b"0"]
    queue.tidy()
    assert queue._reader._chunk != b"", "it may be wanted next"
    queue.tidy()
    assert queue._reader._chunk == b""
    assert take_all(queue) == [b"%d" % number for number in range(1, 10)]
