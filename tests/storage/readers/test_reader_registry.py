"""The registry of readers, of leases and of cursors: the log keeps what memory needs, and what the file may list."""

import errno
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.readers import cursors as cursors_module
from queue_engine.storage.readers import leases as leases_module
from queue_engine.storage.readers.cursors import Cursor, Cursors
from queue_engine.storage.readers.leases import Leases
from queue_engine.storage.readers.reader_registry import Reader, ReaderRegistry
from queue_engine.vocabulary.errors import LimitError
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.stores.background import HeldBackground


class Bench(ABC):
    """Readers of one kind on a real directory. Their topics have the numbers 1 and 2."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.files = FaultyFiles()
        self.worker: InlineBackground | HeldBackground = InlineBackground()

    @property
    @abstractmethod
    def readers(self) -> ReaderRegistry[Reader] | ReaderRegistry[Cursor]: ...

    @abstractmethod
    def start(self, *topics: int) -> str:
        """Open them anew. Returns what that tells."""

    @abstractmethod
    def keep(self, number: int, name: str, offset: int) -> Ticket:
        """One more, or the one of that name is moved."""

    @abstractmethod
    def end(self, number: int, name: str) -> Ticket: ...

    @abstractmethod
    def forget_topic(self, number: int) -> None: ...

    def standing(self) -> list[tuple[int, str, int]]:
        return sorted((one.topic_number, one.name, one.offset) for one in self.readers.all())

    def least_offsets(self) -> dict[int, int | None]:
        return {number: self.readers.least_offset(number) for number in (1, 2)}

    def hold_worker(self) -> HeldBackground:
        """What is written from now on is written when the test says so."""
        self.worker = worker = HeldBackground()
        self.start(1, 2)
        return worker


class LeasesBench(Bench):
    @property
    def readers(self) -> ReaderRegistry[Reader]:
        return self.leases

    def start(self, *topics: int) -> str:
        self.leases = Leases(str(self.directory), files=self.files, clock=self.clock, worker=self.worker)
        return self.leases.open(topics)

    def keep(self, number: int, name: str, offset: int) -> Ticket:
        return self.leases.take(name, number, offset, 60_000)[1]

    def end(self, number: int, name: str) -> Ticket:
        return self.leases.release(name)

    def forget_topic(self, number: int) -> None:
        self.leases.forget_topic(number)


class CursorsBench(Bench):
    @property
    def readers(self) -> ReaderRegistry[Cursor]:
        return self.cursors

    def start(self, *topics: int) -> str:
        self.cursors = Cursors(str(self.directory), files=self.files, clock=self.clock, worker=self.worker)
        return self.cursors.open(topics)

    def keep(self, number: int, name: str, offset: int) -> Ticket:
        cursor = self.cursors.get(number, name)
        if cursor is None:
            return self.cursors.create(f"t{number}", number, number << 40, name, offset)
        return self.cursors.move(cursor, offset)

    def end(self, number: int, name: str) -> Ticket:
        cursor = self.cursors.get(number, name)
        assert cursor is not None
        return self.cursors.delete(cursor, 1_000)

    def forget_topic(self, number: int) -> None:
        self.cursors.forget_topic(number, 1_000)


@pytest.fixture(params=[LeasesBench, CursorsBench])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    made: Bench = request.param(tmp_path)
    made.start(1, 2)
    return made


def test_the_least_offset_of_a_topic_counts(bench: Bench) -> None:
    assert bench.readers.least_offset(1) is None
    bench.keep(1, "a", 30)
    bench.keep(1, "b", 20)
    bench.keep(2, "c", 5)
    assert bench.least_offsets() == {1: 20, 2: 5}
    bench.keep(1, "b", 40)
    assert bench.readers.least_offset(1) == 30
    bench.end(1, "a")
    assert bench.readers.least_offset(1) == 40
    bench.forget_topic(1)
    assert (bench.readers.least_offset(1), bench.readers.least_offset(2)) == (None, 5)
    assert (len(bench.readers), bench.standing()) == (1, [(2, "c", 5)])


def test_what_the_file_on_the_disk_needs_is_needed_until_the_next_one_is_there(bench: Bench) -> None:
    worker = bench.hold_worker()
    created = bench.keep(1, "a", 10)
    assert bench.readers.least_offset(1) == 10, "at once: what is needed may go in this very turn"
    worker.finish()
    assert created.done
    moved = bench.keep(1, "a", 20)
    again = bench.keep(1, "b", 25)
    assert bench.standing() == [(1, "a", 20), (1, "b", 25)]
    assert (bench.readers.least_offset(1), moved.done, again.done) == (10, False, False)
    worker.work()
    assert bench.readers.least_offset(1) == 10, "it is not told yet"
    worker.answer()
    assert (bench.readers.least_offset(1), moved.done, again.done) == (20, True, False)
    worker.finish()
    assert again.done
    ended = bench.end(1, "a")
    assert (bench.readers.least_offset(1), ended.done) == (20, False)
    worker.finish()
    assert (bench.readers.least_offset(1), ended.done) == (25, True)
    bench.forget_topic(1)
    assert (bench.readers.least_offset(1), bench.standing()) == (25, [])
    worker.finish()
    assert bench.readers.least_offset(1) is None


def test_what_a_write_may_have_brought_to_the_disk_is_needed_before_it_is_told(bench: Bench) -> None:
    worker = bench.hold_worker()
    bench.keep(1, "a", 10)
    worker.work()  # the file says 10, and nobody heard of it
    bench.keep(1, "a", 20)
    assert bench.readers.least_offset(1) == 10


@pytest.mark.parametrize("operations", range(3))
def test_where_it_stands_after_an_end_in_mid_move_nothing_was_let_go(bench: Bench, operations: int) -> None:
    bench.keep(1, "a", 10)
    worker = bench.hold_worker()
    bench.keep(1, "a", 20)
    least_offsets = [bench.readers.least_offset(1)]
    bench.files.dies_after = operations  # of: tmp made, written, named
    with pytest.raises(ProcessDiedError):
        worker.work()
    least_offsets.append(bench.readers.least_offset(1))
    bench.files = FaultyFiles()
    bench.worker = InlineBackground()
    bench.start(1, 2)
    assert least_offsets == [10, 10]
    assert bench.standing() == [(1, "a", 10)]


def test_a_restart_knows_what_was_said_to_be_durable_and_whose_topic_is_there(bench: Bench) -> None:
    assert bench.keep(1, "a", 30).done
    bench.keep(2, "b", 7)
    assert bench.start(1) == ""
    assert bench.standing() == [(1, "a", 30)]
    assert bench.least_offsets() == {1: 30, 2: None}


def test_a_write_that_fails_is_told_and_tried_again_and_nothing_is_let_go_meanwhile(bench: Bench) -> None:
    bench.keep(1, "a", 30)
    bench.files.fail("sync", errno.ENOSPC)
    ticket = bench.keep(1, "a", 40)
    assert "No space left" in str(ticket.error)
    assert "No space left" in str(bench.readers.error)
    assert bench.readers.least_offset(1) == 30
    bench.readers.tick()
    assert bench.readers.error is None
    assert bench.readers.least_offset(1) == 30, "what was refused is not so"
    assert bench.keep(1, "a", 40).error is None
    assert bench.readers.least_offset(1) == 40
    bench.start(1)
    assert bench.standing() == [(1, "a", 40)]


def test_one_whose_first_write_fails_counts_nevertheless(bench: Bench) -> None:
    bench.files.fail("sync", errno.ENOSPC)
    assert bench.keep(1, "a", 30).error
    assert bench.readers.least_offset(1) == 30, "what may be on the disk is kept"


def test_there_are_only_so_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases_module, "LEASES_MAX", 2)
    monkeypatch.setattr(cursors_module, "CURSORS_MAX", 2)
    bench.keep(1, "a", 0)
    bench.keep(2, "b", 0)
    with pytest.raises(LimitError, match=r"(lease |cursor t1/)c is not .*: 2 exist"):
        bench.keep(1, "c", 0)
    bench.keep(1, "a", 5)
    assert bench.standing() == [(1, "a", 5), (2, "b", 0)]


def test_a_damaged_file_is_noticed_and_kept(bench: Bench) -> None:
    bench.keep(1, "a", 30)
    (path,) = bench.directory.iterdir()
    cut = path.read_bytes()[:-1]
    path.write_bytes(cut)
    assert bench.start(1) == str(path)
    assert (path.with_suffix(".json.bad").read_bytes(), path.exists()) == (cut, False)
    assert bench.readers.least_offset(1) is None
