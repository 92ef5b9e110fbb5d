"""DiskQueue opened after something went wrong: files torn, missing, left over, or wrong about each other."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.vocabulary.errors import StorageError
from tests.support.disks.files import FaultyFiles
from tests.support.stores.disk_queue import QueueFolder, put, records_of, take_all


@pytest.fixture
def folder(tmp_path: Path) -> QueueFolder:
    return QueueFolder(tmp_path)


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
    queue.start_sync()
    assert folder.bad_names == []
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
    monkeypatch.setattr("queue_engine.storage.disk_queue.fifo.disk_queue_recovery.VERIFY_BYTES_MAX", 200)
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
    monkeypatch.setattr("queue_engine.storage.disk_queue.fifo.disk_queue_recovery.VERIFY_BYTES_MAX", 0)
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
