"""DiskQueue's syncs, away from the engine's thread: when they are due, their order, and what overtakes them."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.storage.disk_queue.fifo.disk_queue import REMOVED_FILES_MAX
from tests.support.disks.files import FaultyFiles
from tests.support.stores.background import HeldBackground
from tests.support.stores.disk_queue import QueueFolder, put, take_all
from tests.support.stores.worker_thread import WorkerThread


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


def test_what_is_made_durable_while_nothing_changes_is_durable_with_the_sync_under_way(held: QueueFolder) -> None:
    queue = held.open()
    put(queue, b"a")
    queue.start_sync()
    tickets = [queue.durable(), queue.durable()]
    assert not any(ticket.done for ticket in tickets)
    worker_of(held).finish()
    assert [(ticket.done, ticket.error) for ticket in tickets] == [(True, None)] * 2


def test_two_threads_agree(tmp_path: Path) -> None:
    # The engine's thread puts, takes, empties and reopens while a real worker syncs.
    chance = random.Random(11)
    worker = WorkerThread()
    files = FaultyFiles()
    folder = QueueFolder(tmp_path, files=files, background=worker, options={"max_bytes_per_file": 400, "sync_every": 7})
    queue = folder.open()
    expected: list[bytes] = []
    try:
        for number in range(3000):
            act = chance.random()
            if act < 0.45:
                messages = [b"%06d.%d" % (number, index) for index in range(chance.randrange(1, 9))]
                put(queue, *messages)
                expected += messages
            elif act < 0.9:
                taken = queue.take(chance.randrange(1, 12), 1000)
                assert taken == expected[: len(taken)]
                assert bool(taken) == bool(expected)
                del expected[: len(taken)]
            elif act < 0.93:
                assert queue.empty() == len(expected)
                expected = []
            elif act < 0.95:
                queue.close()
                queue = folder.open()
            elif act < 0.96:
                queue.delete()
                expected = []
                queue = folder.open()
            else:
                queue.release_descriptors()
            assert queue.depth == len(expected)
            folder.sync_when_due(queue)
            worker.answer()
            assert queue.sync_error is None
        queue.close()
    finally:
        worker.stop()
    assert files.open_fds == set()
    assert take_all(folder.open()) == expected


@pytest.mark.parametrize("act", ["empty", "delete"])
def test_the_worker_removes_the_files_of_a_queue_that_has_many(held: QueueFolder, act: str) -> None:
    queue = held.open()
    for _ in range(REMOVED_FILES_MAX + 1):
        put(queue, b"x" * 40)
    assert len(held.names) == REMOVED_FILES_MAX + 1
    getattr(queue, act)()
    assert queue.depth == 0
    assert len(held.names) == REMOVED_FILES_MAX + 1
    durable = queue.durable()
    assert not durable.done
    worker_of(held).finish()
    assert durable.done
    assert durable.error is None
    assert held.names == ([] if act == "delete" else ["meta.dat"])


def test_what_comes_after_many_files_were_emptied_stays(held: QueueFolder) -> None:
    queue = held.open()
    for _ in range(REMOVED_FILES_MAX + 1):
        put(queue, b"x" * 40)
    queue.empty()
    put(queue, b"new")
    worker_of(held).finish()
    queue.start_sync()
    worker_of(held).finish()
    queue.abandon()
    again = held.open()
    assert (again.depth, again.take(9, 1_000)) == (1, [b"new"])
