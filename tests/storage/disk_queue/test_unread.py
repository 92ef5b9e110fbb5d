"""Disk queues whose files can't be read for a while: they take what is put, change nothing, and lose nothing."""

import errno
from pathlib import Path

import pytest

from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.disk_queue.closing import AT_ONCE
from queue_engine.storage.disk_queue.folder import DiskQueueFolder
from queue_engine.storage.disk_queue.overflow_queue import OverflowQueue
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.options.options import Options
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.disks.unreadable import UnreadablePlaces

OLD = [b"old %02d" % number for number in range(12)]
NEW = [b"new %02d" % number for number in range(4)]


class Process:
    """A process with queue "q" of this directory. Nothing stays in memory, and three messages fill a file."""

    def __init__(self, path: Path) -> None:
        self.files = FaultyFiles()
        options = Options(data_path=str(path), mem_queue_size=0, max_bytes_per_file=115, max_msg_size=1_000)
        self.folder = DiskQueueFolder(str(path), options, self.files, InlineBackground(), ManualClock())
        self.queue: OverflowQueue = self.folder.open("q")

    def put(self, *bodies: bytes) -> None:
        make = self.folder.batch_maker()
        for body in bodies:
            self.queue.put(make([body]))

    def take(self, count_max: int = 100) -> list[bytes]:
        bodies: list[bytes] = []
        while len(bodies) < count_max and (run := self.queue.take(count_max - len(bodies), 1 << 20)) is not None:
            bodies += [run.frame_at(index)[34:] for index in range(len(run))]
        return bodies

    def stop(self) -> None:
        self.folder.close_with_others([self.queue])
        list(self.folder.closing(AT_ONCE))
        assert self.files.open_fds == set()


def left_by(path: Path, taken: int) -> list[bytes]:
    """Files of a queue of which so many were taken before a clean stop; returns the others."""
    process = Process(path)
    process.put(*OLD)
    process.take(taken)
    process.stop()
    return OLD[taken:]


def contents_of(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir()}


@pytest.mark.parametrize("ending", ["kill", "stop"])
@pytest.mark.parametrize("taken", [0, 5, 12])
@pytest.mark.parametrize("what", ["meta.dat", "*.dat"])
def test_what_is_put_while_nothing_can_be_read_comes_behind_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, taken: int, ending: str
) -> None:
    left = left_by(tmp_path, taken)
    places = UnreadablePlaces(monkeypatch)
    for two in (NEW[:2], NEW[2:]):  # two starts with it
        before = contents_of(tmp_path)
        for path in tmp_path.glob(f"q.diskqueue.{what}"):
            places.spoil(path)
        process = Process(tmp_path)
        assert "cannot open disk queue q in" in str(process.queue.unread_reason)
        assert "nothing was changed" in str(process.queue.unread_reason)
        process.put(*two)
        assert process.queue.backend_depth == 2
        for refused in (process.take, lambda process=process: process.folder.reopen(process.queue)):
            with pytest.raises(StorageError, match="cannot open disk queue q in"):
                refused()
        assert process.queue.durable().error is None
        if ending == "kill":
            process.files.abandon()
        else:
            process.stop()
        places.heal()
        now = contents_of(tmp_path)
        assert {name: now[name] for name in before} == before
    process = Process(tmp_path)
    assert process.queue.unread_reason is None
    process.put(b"last")
    assert process.take() == [*left, *NEW, b"last"]
    process.stop()


def test_when_the_files_can_be_read_again_the_queue_goes_on_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = left_by(tmp_path, 5)
    places = UnreadablePlaces(monkeypatch)
    places.spoil(tmp_path / "q.diskqueue.000002.dat")
    process = Process(tmp_path)
    process.put(*NEW[:3])
    places.heal()
    process.folder.reopen(process.queue)
    assert process.queue.unread_reason is None
    assert process.queue.depth == len(left) + 3
    process.put(NEW[3])
    assert process.take(9) == [*left, *NEW][:9]
    process.stop()
    process = Process(tmp_path)
    assert process.take() == [*left, *NEW][9:]
    process.stop()


@pytest.mark.parametrize("ending", ["empty", "delete"])
def test_an_operator_may_drop_what_nobody_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    left_by(tmp_path, 5)
    places = UnreadablePlaces(monkeypatch)
    for path in tmp_path.iterdir():
        places.spoil(path)
    process = Process(tmp_path)
    process.put(*NEW[:2])
    getattr(process.queue, ending)()
    assert process.queue.durable().error is None
    assert list(tmp_path.iterdir()) == []
    places.heal()
    if ending == "empty":
        process.put(*NEW[2:])
        assert process.take(1) == NEW[2:3]
        process.stop()
        assert Process(tmp_path).take() == NEW[3:]


def test_what_the_process_lacks_is_no_matter_of_the_queue(tmp_path: Path) -> None:
    left_by(tmp_path, 5)
    process = Process(tmp_path)
    process.files.fail("open", errno.EMFILE, count=100)
    with pytest.raises(StorageError, match="Too many open files"):
        process.folder.open("q")
    process.files.heal()
    process.stop()
