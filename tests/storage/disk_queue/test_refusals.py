"""The disk refuses to write, to read or to sync: what was promised holds, and the queue goes on when it can."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from queue_engine.storage.disk_queue.fifo.format import Meta
from queue_engine.vocabulary.errors import StorageError
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.stores.background import HeldBackground
from tests.support.stores.disk_queue import QueueFolder, faults_of, put, records_of, restarted, take_all


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[QueueFolder]:
    files = FaultyFiles()
    yield QueueFolder(tmp_path, files=files, options={"max_bytes_per_file": 100})
    files.abandon()


# The disk is full: what is read makes room, though not even a meta file fits.


@pytest.mark.parametrize("has_meta", [True, False])
def test_what_is_read_from_a_full_disk_makes_room(folder: QueueFolder, has_meta: bool) -> None:
    queue = folder.open()
    bodies = [b"%02d" % number * 10 for number in range(16)]
    put(queue, *bodies)
    if has_meta:
        queue.start_sync()
    files = faults_of(folder)
    files.bytes_free = 0
    with pytest.raises(StorageError):
        put(queue, b"refused")
    files.is_overwriting_free = True
    assert queue.take(9, 1000) == bodies[:9]
    queue.start_sync()
    assert files.bytes_free == 2 * 96
    assert (queue.sync_error is None) == has_meta
    if has_meta:
        assert folder.meta == "7\n2,24\n3,96\n"
    queue = restarted(folder)
    # Without a meta file what was taken of a file that is still there comes again.
    assert take_all(queue, 3) == bodies[9:] if has_meta else bodies[8:]
    assert (queue.lost_count, folder.bad_names) == (0, [])


def test_a_meta_file_that_is_overwritten_on_a_full_disk_is_old_new_or_damaged_after_a_kill(folder: QueueFolder) -> None:
    bodies = [b"%02d" % number * 10 for number in range(16)]
    found: set[Meta | None] = set()
    for dies_after in range(10):
        folder.name = f"q{dies_after}"
        queue = folder.open()
        put(queue, *bodies)
        queue.start_sync()
        files = faults_of(folder)
        files.bytes_free, files.is_overwriting_free = 0, True
        taken = queue.take(9, 1000)
        files.dies_after = dies_after
        with suppress(ProcessDiedError):
            queue.start_sync()
        found.add(Meta.decode(folder.meta_path.read_bytes()))
        again = take_all(restarted(folder), 3)
        assert again[-7:] == bodies[9:], "none is lost, and some may come twice"
        assert set(taken + again) == set(bodies)
    assert found == {Meta(16, 0, 0, 3, 96), None, Meta(7, 2, 24, 3, 96)}


# The disk refuses to write.

BATCHES = [[b"%02d%02d" % (batch, number) * 3 for number in range(1 + 5 * (batch % 3))] for batch in range(9)]


@pytest.mark.parametrize("can_truncate", [True, False])
@pytest.mark.slow(reason="tries every size of a disk")
def test_a_full_disk_refuses_whole_batches_and_leaves_nothing_of_them(tmp_path: Path, can_truncate: bool) -> None:
    everything = sum(len(records_of(batch)[0]) for batch in BATCHES)
    for bytes_free in range(0, everything, 3):
        path = tmp_path / str(bytes_free)
        path.mkdir()
        folder = QueueFolder(path, files=FaultyFiles(), options={"max_bytes_per_file": 100})
        queue = folder.open()
        files = faults_of(folder)
        files.bytes_free = bytes_free
        if not can_truncate:
            files.fail("truncate", errno.EIO, count=1000)
        accepted: list[bytes] = []
        refusals: list[str] = []
        for number, batch in enumerate(BATCHES):
            try:
                put(queue, *batch)
                accepted += batch
            except StorageError as exc:
                refusals.append(str(exc))
            assert queue.depth == len(accepted)
            if number == 6:
                files.bytes_free = None  # somebody made room: nobody has to restart anything
        assert refusals or bytes_free > everything / 2
        assert all("cannot write" in text and "No space left on device" in text for text in refusals)
        assert len(files.open_fds) <= 6
        if bytes_free % 2:
            files.heal()
            queue.close()
            assert files.open_fds == set()
            assert sum(entry.stat().st_size for entry in path.glob("*.0*.dat")) == sum(len(one) + 4 for one in accepted)
            queue = folder.open()
        elif can_truncate:
            queue = restarted(folder)  # nothing refused waits in the files to come back after a kill
        assert queue.depth == len(accepted)
        assert take_all(queue, 3) == accepted
        assert (queue.depth, queue.lost_count) == (0, 0)
        queue.start_sync()
        assert folder.bad_names == []
        faults_of(folder).abandon()


@pytest.mark.parametrize("operation", ["write", "create"])
@pytest.mark.parametrize("error", [errno.EIO, errno.EDQUOT, errno.EMFILE])
def test_the_nth_refused_write_or_file_undoes_its_batch(tmp_path: Path, operation: str, error: int) -> None:
    for nth in range(1, 30):
        path = tmp_path / str(nth)
        path.mkdir()
        folder = QueueFolder(path, files=FaultyFiles(), options={"max_bytes_per_file": 100})
        queue = folder.open()
        faults_of(folder).fail(operation, error, nth=nth, count=2)
        accepted: list[bytes] = []
        refusals: list[str] = []
        for batch in BATCHES:
            try:
                put(queue, *batch)
                accepted += batch
            except StorageError as exc:
                refusals.append(str(exc))
            assert queue.depth == len(accepted)
        assert all(os.strerror(error) in text for text in refusals)
        queue = restarted(folder)
        assert queue.depth == len(accepted)
        assert take_all(queue) == accepted
        faults_of(folder).abandon()


# The disk, or the system, refuses to read.


@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("operation", ["open", "read"])
def test_a_refused_read_loses_nothing_and_sets_nothing_aside(folder: QueueFolder, operation: str, error: int) -> None:
    messages = [b"%05d" % number * 3 for number in range(40)]
    for nth in range(1, 7):
        queue = folder.open()
        put(queue, *messages)
        queue.release_descriptors()
        faults_of(folder).fail(operation, error, nth=nth, count=2)
        taken: list[bytes] = []
        refusals: list[str] = []
        for _ in range(60):
            try:
                assert queue.peek() == (messages + [None])[len(taken)]
                taken += queue.take(3, 1000)
            except StorageError as exc:
                refusals.append(str(exc))
            assert queue.depth == len(messages) - len(taken)
        assert taken == messages
        assert len(refusals) <= 2  # one may fall between messages in hand, which go out first
        assert all("cannot read" in text and os.strerror(error) in text for text in refusals)
        assert refusals or error in (errno.EMFILE, errno.ENFILE), "those are tried once more"
        assert (queue.depth, queue.lost_count) == (0, 0)
        queue.start_sync()
        assert folder.bad_names == []
        queue.delete()
        assert folder.names == []


@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
def test_a_queue_that_cannot_be_opened_says_so_and_is_opened_later(folder: QueueFolder, error: int) -> None:
    queue = folder.open()
    put(queue, b"a", b"b", b"c")
    queue.close()
    for operation in ("open", "read", "listdir"):
        for nth in (1, 2):
            folder.files = FaultyFiles()
            faults_of(folder).fail(operation, error, nth=nth)
            if (operation, nth) == ("listdir", 2):
                continue
            with pytest.raises(StorageError, match=r"cannot open disk queue q in .*: " + os.strerror(error)):
                folder.open()
            assert faults_of(folder).open_fds == set()
            assert folder.open().depth == 3
    assert folder.names == ["000000.dat", "meta.dat"]


# The disk refuses to sync.


def test_a_failed_sync_of_data_is_told_for_good_and_nothing_more_is_taken(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, b"a", b"b")
    faults_of(folder).fail("sync_data", errno.EIO)
    queue.start_sync()
    assert "cannot sync disk queue q" in str(queue.sync_error)
    assert "Input/output error" in str(queue.sync_error)
    with pytest.raises(StorageError, match="takes nothing more, a sync of its data failed: Input/output error"):
        put(queue, b"c")
    assert folder.names == ["000000.dat"], "no meta file counts on bytes that may not be there"

    folder.clock.advance(ms=2000)
    assert folder.sync_when_due(queue)
    assert queue.sync_error is not None, "one good sync does not bring the bytes back"
    assert queue.take(5, 100) == [b"a", b"b"], "what is there is still read"
    with pytest.raises(StorageError, match="may lose messages"):
        queue.close()
    assert faults_of(folder).open_fds == set()
    assert restarted(folder).depth == 0


def test_an_emptied_queue_takes_messages_again_after_a_failed_sync_of_what_is_gone(tmp_path: Path) -> None:
    files, worker = FaultyFiles(), HeldBackground()
    folder = QueueFolder(tmp_path, files=files, background=worker)
    queue = folder.open()
    for is_late in (False, True):
        put(queue, b"a", b"b")
        files.fail("sync_data", errno.EIO)
        queue.start_sync()
        if not is_late:
            worker.finish()
            assert queue.sync_error is not None
        assert queue.empty() == 2
        worker.finish()
        assert queue.sync_error is None
        put(queue, b"c")
        assert queue.empty() == 1
        worker.finish()
    queue.close()
    assert files.open_fds == set()


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "dup"])
def test_a_failed_meta_file_is_told_and_tried_again_after_the_timeout(folder: QueueFolder, operation: str) -> None:
    queue = folder.open()
    put(queue, b"a", b"b")
    faults_of(folder).fail(operation, errno.ENOSPC)
    queue.start_sync()
    assert "No space left on device" in str(queue.sync_error)
    assert folder.names == ["000000.dat"]
    put(queue, b"c")
    assert not folder.sync_when_due(queue), "not at once: that would spin"
    folder.clock.advance(ms=2000)
    assert folder.sync_when_due(queue)
    assert queue.sync_error is None
    assert folder.meta == "3\n0,0\n0,15\n"
    assert not queue.is_dirty
    queue.release_descriptors()
    assert faults_of(folder).open_fds == set()


def test_a_file_is_not_removed_while_the_directory_cannot_be_synced(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, *[b"x" * 20] * 6)
    assert len(queue.take(6, 1000)) == 6
    faults_of(folder).fail("sync", errno.EIO, nth=2)
    queue.start_sync()
    assert "000000.dat" in folder.names
    folder.clock.advance(ms=2000)
    assert folder.sync_when_due(queue)
    assert folder.names == ["000001.dat", "meta.dat"]


def test_a_file_that_cannot_be_removed_is_tried_again_and_does_not_come_back(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, *[b"x" * 20] * 6)
    assert len(queue.take(6, 1000)) == 6
    faults_of(folder).fail("unlink", errno.EACCES)
    queue.start_sync()
    assert "Permission denied" in str(queue.sync_error)
    again = restarted(folder)
    assert again.depth == 0
    assert folder.sync_when_due(again)
    assert folder.names == ["000001.dat", "meta.dat"]


def test_an_emptied_queue_stays_empty_though_its_files_would_not_go(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, *[b"x" * 20] * 9)
    queue.start_sync()
    faults_of(folder).fail("unlink", errno.EACCES, count=3)
    assert queue.empty() == 9
    assert (queue.depth, queue.take(1, 100)) == (0, [])
    assert folder.sync_when_due(queue)
    assert folder.names == ["meta.dat"]
    assert restarted(folder).depth == 0


@pytest.mark.parametrize("operation", ["sync_data", "create", "write", "sync", "rename"])
def test_a_close_that_fails_says_so_and_leaves_no_descriptor(folder: QueueFolder, operation: str) -> None:
    queue = folder.open()
    put(queue, *[b"x" * 20] * 9)
    queue.take(1, 100)
    faults_of(folder).fail(operation, errno.EIO)
    with pytest.raises(StorageError, match="cannot sync disk queue q at close: Input/output error"):
        queue.close()
    assert faults_of(folder).open_fds == set()
    assert restarted(folder).depth in (8, 9)
