"""OverflowQueue: what memory can't hold goes to the disk, and a call that fails loses none of it."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.closing import AT_ONCE
from queue_engine.storage.disk_queue.folder import DiskQueueFolder
from queue_engine.storage.disk_queue.overflow_queue import REFUSED_IN_A_ROW_MAX, OverflowQueue
from queue_engine.storage.disk_queue.store import DiskQueueStore
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.options.options import Options
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.failing_calls import FailingCall

MISTAKE = AssertionError("a range holds 3, not 4")
BODIES = [b"message %02d" % number for number in range(12)]


def open_folder(path: Path, *, in_memory: int = 0) -> DiskQueueFolder:
    """So many messages of each queue stay in memory, and three fill a file."""
    options = Options(data_path=str(path), mem_queue_size=in_memory, max_bytes_per_file=130, max_msg_size=1_000)
    return DiskQueueFolder(str(path), options, Files(), InlineBackground(), ManualClock())


def put_all(folder: DiskQueueFolder, queue: OverflowQueue) -> None:
    make = folder.batch_maker()
    for body in BODIES:
        queue.put(make([body]))


def taken(queue: OverflowQueue, count_max: int = 5) -> list[bytes]:
    run = queue.take(count_max, 1 << 20)
    return [] if run is None else [run.frame_at(index)[34:] for index in range(len(run))]


def bodies_in(queue: OverflowQueue) -> list[bytes]:
    found: list[bytes] = []
    while some := taken(queue):
        found += some
    return found


# What a take goes through: the queue on disk itself, or a part of it.
STEPS = [
    ("_reader", "front"),
    ("_reader", "take_from_chunk"),
    ("_reader", "pass_file"),
    ("_counts", "take"),
    ("", "_changed"),
    ("", "_check_drained"),
]


@pytest.mark.parametrize("is_late", [False, True], ids=["before its work", "behind its work"])
@pytest.mark.parametrize(("part", "name"), STEPS, ids=[name for _, name in STEPS])
def test_a_take_that_fails_unexpectedly_has_lost_nothing(tmp_path: Path, part: str, name: str, is_late: bool) -> None:
    folder = open_folder(tmp_path)
    failures = 0
    for at in range(1, 9):
        queue = folder.open(f"t{at}")
        put_all(folder, queue)
        disk = queue.disk
        fault = FailingCall(getattr(disk, part) if part else disk, name, MISTAKE, at=at, is_late=is_late)
        found: list[bytes] = []
        try:
            while some := taken(queue):
                found += some
        except AssertionError:
            failures += 1
        fault.heal()
        assert queue.depth == 12 - len(found) or (name, is_late) == ("take", False)
        assert found + taken(queue, 1) + bodies_in(queue) == BODIES
        assert queue.depth == 0
    assert failures


def test_what_a_failed_take_has_in_hand_is_kept_over_a_stop_and_dropped_with_the_rest(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    kept, emptied = folder.open("kept"), folder.open("emptied")
    for queue in (kept, emptied):
        put_all(folder, queue)
        fault = FailingCall(queue.disk, "_changed", MISTAKE)
        with pytest.raises(AssertionError):
            queue.take(5, 1 << 20)
        fault.heal()
        assert queue.depth == 12
        assert queue.oldest_ns() is not None
        run = queue.runs_in_memory()[0]
        assert [run.frame_at(index)[34:] for index in range(len(run))] == BODIES[:5]
    assert emptied.empty() == 12
    assert emptied.depth == 0
    folder.close_with_others([kept, emptied])
    list(folder.closing(AT_ONCE))
    again = open_folder(tmp_path)
    assert sorted(bodies_in(again.open("kept"))) == BODIES
    assert bodies_in(again.open("emptied")) == []


def test_a_disk_is_given_up_when_it_refuses_so_many_messages_in_a_row_not_in_all(tmp_path: Path) -> None:
    files = FaultyFiles()
    options = Options(data_path=str(tmp_path), max_msg_size=1_000)
    folder = DiskQueueFolder(str(tmp_path), options, files, InlineBackground(), ManualClock())
    queue = folder.open("orders")
    count = 4 * REFUSED_IN_A_ROW_MAX
    queue.put_in_memory(folder.batch_maker()([b"%d" % number for number in range(count)]))
    writes = 0

    def refuse_every_other(operation: str) -> None:
        nonlocal writes
        writes += operation == "write"
        if operation == "write" and writes % 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files.before_call = refuse_every_other
    with pytest.raises(StorageError, match="No space left"):
        queue.write_memory()
    assert (queue.backend_depth, queue.memory_count) == (count // 2, count // 2)
    files.before_call = None
    files.calls.clear()
    files.fail("write", errno.ENOSPC, count=1_000)
    with pytest.raises(StorageError):
        queue.write_memory()
    assert files.calls.count("write") == 1 + REFUSED_IN_A_ROW_MAX, "all together, then one by one"
    files.abandon()


@pytest.mark.parametrize("deferred", [0, 4])
def test_what_a_topic_can_not_pass_on_unexpectedly_waits_at_it(tmp_path: Path, deferred: int) -> None:
    store = DiskQueueStore("orders", open_folder(tmp_path))
    for number, body in enumerate(BODIES):
        store.append(store.make_batch([body]), 1_000 if number < deferred else None)
    store.set_flowing(True)
    backlog = store.open_channel("billing")
    fault = FailingCall(store, "_fan_out", MISTAKE, at=2)
    while not fault.failures:
        with suppress(AssertionError):
            store.pump(2)
    fault.heal()
    assert store.depth + backlog.depth + backlog.deferred_count == 12
    while store.pump(2):
        pass
    backlog.release_deferred()
    came: list[bytes] = []
    while (run := backlog.take(5, 1 << 20)) is not None:
        came += [run.frame_at(index)[34:] for index in range(len(run))]
    assert sorted(came) == BODIES


@pytest.mark.parametrize("name", ["took_waiting", "took_returned"])
def test_a_channel_whose_take_fails_has_lost_nothing(tmp_path: Path, name: str) -> None:
    store = DiskQueueStore("orders", open_folder(tmp_path, in_memory=100))
    store.set_flowing(True)
    backlog = store.open_channel("billing")
    store.append(store.make_batch(BODIES))
    first = backlog.take(5, 1 << 20)
    assert first is not None
    backlog.give_back(first, first.ids, counted=True)
    fault = FailingCall(backlog._order, name, MISTAKE)
    came: list[bytes] = []
    while backlog.depth:
        try:
            run = backlog.take(5, 1 << 20)
        except AssertionError:
            assert backlog.depth == 12 - len(came)
        else:
            came += [] if run is None else [run.frame_at(index)[34:] for index in range(len(run))]
    assert fault.failures
    assert sorted(came) == BODIES
