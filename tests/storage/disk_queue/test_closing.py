"""The end of many disk queues together: quick, tried again where the disk refuses, and safe at each step."""

import errno
from pathlib import Path

import pytest

from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.disk_queue.closing import BATCH_QUEUES, Closing
from queue_engine.storage.disk_queue.folder import DiskQueueFolder
from queue_engine.storage.disk_queue.overflow_queue import OverflowQueue
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.options.options import Options
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles, ProcessDiedError

IN_MEMORY = 3
ON_DISK = 2


class Process:
    """Queues on a directory, each with messages on disk and in memory, of which one on disk was taken."""

    def __init__(self, path: Path, count: int, *, is_filled: bool = True) -> None:
        self.files = FaultyFiles()
        self.clock = ManualClock()
        # A file of the queue ends with each message on disk, so that there is something to remove.
        options = Options(data_path=str(path), mem_queue_size=0, max_bytes_per_file=40, max_msg_size=1_000)
        self.folder = DiskQueueFolder(str(path), options, self.files, InlineBackground(), self.clock)
        self.queues = [self.folder.open(f"t{number}") for number in range(count)]
        if not is_filled:
            return
        make = self.folder.batch_maker()
        for number, queue in enumerate(self.queues):
            for at in range(ON_DISK + 1):
                queue.put(make([b"%d on disk %d" % (number, at)]))
            assert queue.take(1, 1_000) is not None
            for at in range(IN_MEMORY):
                queue.put_in_memory(make([b"%d in memory %d" % (number, at)]))

    def closing(self, how: Closing = Closing()):  # noqa: B008
        self.folder.close_with_others(self.queues)
        return self.folder.closing(how)


def fill(files: FaultyFiles) -> None:
    """No room, and none is made by files that were read to their end."""
    files.bytes_free = 0
    files.fail("unlink", errno.EIO, count=1_000)


def messages_of(number: int) -> list[bytes]:
    return [b"%d on disk %d" % (number, at) for at in range(1, ON_DISK + 1)] + [
        b"%d in memory %d" % (number, at) for at in range(IN_MEMORY)
    ]


def bodies_in(queue: OverflowQueue) -> list[bytes]:
    found = []
    while (run := queue.take(1, 1_000)) is not None:
        found += [run.frame_at(index)[34:] for index in range(len(run))]
    return found


def found_in(path: Path, count: int) -> list[list[bytes]]:
    process = Process(path, count, is_filled=False)
    found = [bodies_in(queue) for queue in process.queues]
    process.files.abandon()
    return found


def test_many_queues_share_a_sync_of_the_directory_and_it_is_told_how_far_it_is(tmp_path: Path) -> None:
    count = 2 * BATCH_QUEUES + 1
    process = Process(tmp_path, count)
    process.files.calls.clear()
    progress = [(one.queues, one.messages, one.reason) for one in process.closing()]
    left = [count - BATCH_QUEUES, 1, 0]
    assert progress == [(queues, queues * IN_MEMORY, "") for queues in left]
    # Each queue's meta file is synced, the directory once for each batch.
    assert process.files.calls.count("sync") == count + len(left)
    assert process.files.open_fds == set()
    assert found_in(tmp_path, count) == [messages_of(number) for number in range(count)]


def test_old_files_go_when_the_directory_is_synced(tmp_path: Path) -> None:
    process = Process(tmp_path, 3)
    process.files.calls.clear()
    list(process.closing())
    calls = process.files.calls
    directory_synced = len(calls) - 1 - calls[::-1].index("sync")
    removed = [at for at, call in enumerate(calls) if call == "unlink"]
    renamed = [at for at, call in enumerate(calls) if call == "rename"]
    assert len(removed) >= 3
    assert max(renamed) < directory_synced < min(removed)


@pytest.mark.parametrize("operation", ["create", "write", "sync", "sync_data", "rename", "unlink"])
def test_where_one_queue_fails_the_others_are_kept(tmp_path: Path, operation: str) -> None:
    process = Process(tmp_path, 3)
    # What is refused together is tried one by one.
    process.files.fail(operation, errno.EIO, count=1 + IN_MEMORY if operation in ("create", "write") else 1)
    with pytest.raises(StorageError, match=r"t[0-2]"):
        list(process.closing())
    assert process.files.open_fds == set()
    found = found_in(tmp_path, 3)
    assert sum(found[number] == messages_of(number) for number in range(3)) >= 2


def test_a_disk_that_refuses_is_tried_again_until_it_takes_everything(tmp_path: Path) -> None:
    process = Process(tmp_path, 3)
    fill(process.files)
    steps = process.closing(Closing(patience_ns=60 * NS_PER_S))
    refused = [next(steps) for _ in range(6)]
    assert {one.messages for one in refused} == {3 * IN_MEMORY}
    assert [bool(one.reason) for one in refused] == [False, True] * 3
    assert "No space left on device" in refused[1].reason
    process.clock.advance(ms=59_000)
    process.files.bytes_free = 300  # some advance: the time begins anew
    next(steps)
    some = next(steps)
    assert 0 < some.messages < 3 * IN_MEMORY
    process.clock.advance(ms=59_000)
    process.files.heal()
    list(steps)
    assert found_in(tmp_path, 3) == [messages_of(number) for number in range(3)]


def test_when_nothing_advances_for_so_long_it_is_given_up_with_names_and_counts(tmp_path: Path) -> None:
    process = Process(tmp_path, 25)
    fill(process.files)
    steps = process.closing(Closing(patience_ns=60 * NS_PER_S))
    assert next(steps).reason == ""
    assert next(steps).reason
    process.clock.advance(ms=60_000)
    with pytest.raises(StorageError) as failed:
        list(steps)
    assert f"{IN_MEMORY} messages of t0 could not be stored: cannot write" in str(failed.value)
    assert f"and 5 queues more, each named in the log; {25 * IN_MEMORY} messages in all" in str(failed.value)
    assert process.files.open_fds == set()


def test_a_process_that_dies_at_any_step_has_lost_nothing_that_was_on_disk(tmp_path: Path) -> None:
    steps = 0
    for steps in range(200):
        path = tmp_path / str(steps)
        path.mkdir()
        process = Process(path, 3)
        process.files.dies_after = steps
        try:
            list(process.closing())
        except ProcessDiedError:
            process.files.abandon()
        else:
            break
        for number, found in enumerate(found_in(path, 3)):
            everything = messages_of(number)
            # What was taken before may come again after a kill; the rest is the beginning of what there was.
            if found and found[0] == b"%d on disk 0" % number:
                found = found[1:]
            assert found == everything[: len(found)], steps
            assert len(found) >= ON_DISK, steps
    else:
        raise AssertionError("it never came to its end")
    assert steps > 20
    assert found_in(tmp_path / str(steps), 3) == [messages_of(number) for number in range(3)]
