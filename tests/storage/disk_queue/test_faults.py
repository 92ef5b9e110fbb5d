"""The fault ladder of DiskQueue: cut, flipped, full, refused, unsynced, killed, and two threads at once."""

import errno
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.disk.descriptors import DescriptorBudget
from queue_engine.disk_queue.disk_queue import DiskQueue
from queue_engine.vocabulary.errors import StorageError
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.stores.background import HeldBackground
from tests.support.stores.disk_queue import QueueFolder, put, records_of, take_all
from tests.support.stores.worker_thread import WorkerThread

PATTERN = re.compile(rb".{10}[0-9a-f]{16}", re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[QueueFolder]:
    files = FaultyFiles()
    yield QueueFolder(tmp_path, files=files, options={"max_bytes_per_file": 100})
    files.abandon()


def faults_of(folder: QueueFolder) -> FaultyFiles:
    assert isinstance(folder.files, FaultyFiles)
    return folder.files


def restarted(folder: QueueFolder) -> DiskQueue:
    """The queue as the next process opens it after this one was killed."""
    faults_of(folder).abandon()
    folder.files = FaultyFiles()
    return folder.open()


# Damaged files. Three files of text messages of several sizes; the first message was read.

TEXTS = [b"message %02d " % number + b"abcdefghij"[: number % 7] for number in range(18)]


def text_files(tmp_path: Path) -> dict[str, bytes]:
    """A small queue's files, by name."""
    folder = QueueFolder(tmp_path / "made", options={"max_bytes_per_file": 110})
    folder.path.mkdir()
    queue = folder.open()
    put(queue, *TEXTS)
    assert queue.take(1, 100) == TEXTS[:1]
    queue.close()
    made = {entry.name: entry.read_bytes() for entry in folder.path.iterdir()}
    assert len(made) == 4
    return made


def spots_of(made: dict[str, bytes]) -> dict[str, list[tuple[int, int, bytes]]]:
    """Where each message lies: by file, (start of its record, its end, the message)."""
    spots: dict[str, list[tuple[int, int, bytes]]] = {}
    for name in sorted(made):
        at = 0
        while "meta" not in name and at < len(made[name]):
            end = at + 4 + int.from_bytes(made[name][at : at + 4], "big")
            spots.setdefault(name, []).append((at, end, made[name][at + 4 : end]))
            at = end
    return spots


def reopened(tmp_path: Path, content: dict[str, bytes], **options: object) -> tuple[QueueFolder, DiskQueue]:
    """A queue on exactly these files; the directory is used again and again."""
    folder = QueueFolder(tmp_path / "used", options={"max_bytes_per_file": 110, **options})
    folder.path.mkdir(exist_ok=True)
    for entry in folder.path.iterdir():
        entry.unlink()
    for name, data in content.items():
        (folder.path / name).write_bytes(data)
    return folder, folder.open()


@pytest.mark.parametrize("has_meta", [True, False])
@pytest.mark.slow(reason="cuts files at every byte")
def test_cut_at_any_byte_each_file_gives_every_whole_message(tmp_path: Path, has_meta: bool) -> None:
    made = text_files(tmp_path)
    spots = spots_of(made)
    for name in spots:
        for size in range(len(made[name])):
            content = made | {name: made[name][:size]}
            if not has_meta:
                del content["q.diskqueue.meta.dat"]
            whole = [text for one in spots for _, end, text in spots[one] if one != name or end <= size]
            folder, queue = reopened(tmp_path, content)
            depth = queue.depth
            taken = take_all(queue, 4)
            assert depth == len(taken), (name, size)
            assert queue.depth == 0
            # The first was read; it comes again where the files no longer bear out that it was.
            assert taken in (whole, whole[1:]) if TEXTS[0] in whole else taken == whole, (name, size)
            if has_meta and name != "q.diskqueue.000000.dat" and size > 0:
                assert TEXTS[0] not in taken or size in [end for _, end, _ in spots[name]], (name, size)
            is_cut_within = size not in [0, *(end for _, end, _ in spots[name])]
            put(queue, b"goes on")
            queue.close()
            assert len(folder.bad_names) == is_cut_within, (name, size)
            assert take_all(folder.open()) == [b"goes on"]


def test_a_believed_depth_is_put_right_by_the_time_a_cut_file_is_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_engine.disk_queue.disk_queue_recovery.VERIFY_BYTES_MAX", 0)
    made = text_files(tmp_path)
    spots = spots_of(made)
    name = "q.diskqueue.000001.dat"
    for size in range(len(made[name])):
        _, queue = reopened(tmp_path, made | {name: made[name][:size]})
        whole = [text for one in spots for _, end, text in spots[one] if one != name or end <= size]
        assert queue.depth == len(TEXTS) - 1
        assert take_all(queue, 4) == whole[1:]
        assert (queue.depth, queue.lost_count) == (0, len(TEXTS) - len(whole))


def flips(byte: int) -> list[int]:
    """What a byte may turn into when one bit of it is lost."""
    return [byte ^ 1 << bit for bit in range(8)]


def check_flips(tmp_path: Path, made: dict[str, bytes], expected: list[bytes], options: dict[str, object]) -> None:
    """Damage every byte of every data file: all messages but the one that it hits come unaltered."""
    for name, places in spots_of(made).items():
        for start, end, text in places:
            for at in [*range(start, start + 4), *range(start + 4, end, 3)]:
                in_length = at < start + 4
                for value in flips(made[name][at])[: None if in_length else 1]:
                    damaged = bytearray(made[name])
                    damaged[at] = value
                    _, queue = reopened(tmp_path, made | {name: bytes(damaged)}, **options)
                    depth = queue.depth
                    taken = take_all(queue, 4)
                    case = (name, start, at - start, value, taken)
                    assert depth == len(taken), case
                    others = [one for one in expected if one != text]
                    body = bytes(damaged[start + 4 : end])
                    claimed_end = start + 4 + int.from_bytes(damaged[start : start + 4], "big")
                    if text not in expected:  # it was read, and the meta file knows that
                        assert taken in (expected, [text, *expected]), case
                    elif in_length and claimed_end in [one_end for _, one_end, _ in places]:
                        # It ends exactly where another message does: without a checksum nobody can tell. The ones
                        # in between went into it, but no other is missing.
                        inside = [one for _, one_end, one in places if end < one_end <= claimed_end]
                        left = [one for one in others if one not in inside]
                        assert [one for one in taken if one in left] == left, case
                    elif not in_length:
                        assert taken == [body if one == text else one for one in expected], case
                    elif end == len(made[name]) and len(taken) == len(expected):
                        # Up to three bytes left over at a file's end can't be told from a torn record: it comes short.
                        short = next(one for one in taken if one not in others)
                        assert 0 < len(text) - len(short) < 4, case
                        assert [one for one in taken if one != short] == others, case
                    else:
                        assert taken == others, case


@pytest.mark.slow(reason="flips every byte")
def test_a_flipped_byte_in_any_place_hurts_its_own_message_alone(tmp_path: Path) -> None:
    check_flips(tmp_path, text_files(tmp_path), TEXTS[1:], {})


@pytest.mark.slow(reason="flips every byte")
def test_a_flipped_byte_among_stored_messages_hurts_its_own_message_alone(tmp_path: Path) -> None:
    # Bodies full of zeros look like lengths: the worst there is for finding the next message.
    chance = random.Random(7)
    messages = [
        (1_700_000_000_000_000_000 + chance.randrange(1 << 60)).to_bytes(8, "big")
        + (number % 3).to_bytes(2, "big")
        + b"%016x" % chance.randrange(1 << 64)
        + bytes(chance.randrange(40))
        for number in range(12)
    ]
    folder = QueueFolder(tmp_path / "made", options={"max_bytes_per_file": 300, "message_bytes_min": 26})
    folder.path.mkdir()
    queue = folder.open()
    put(queue, *messages)
    queue.close()
    made = {entry.name: entry.read_bytes() for entry in folder.path.iterdir()}
    check_flips(tmp_path, made, messages, {"message_bytes_min": 26, "pattern": PATTERN})


def test_a_flipped_byte_in_the_meta_file_loses_nothing(tmp_path: Path) -> None:
    made = text_files(tmp_path)
    name = "q.diskqueue.meta.dat"
    for at in range(len(made[name])):
        for value in {*flips(made[name][at]), 0, 0xFF, *b"0123456789,\n-"} - {made[name][at]}:
            damaged = bytearray(made[name])
            damaged[at] = value
            _, queue = reopened(tmp_path, made | {name: bytes(damaged)})
            depth = queue.depth
            taken = take_all(queue, 4)
            assert depth == len(taken), bytes(damaged)
            assert taken in (TEXTS, TEXTS[1:]), bytes(damaged)


def test_several_damaged_messages_in_a_file_cost_no_others_where_the_pattern_is_known(tmp_path: Path) -> None:
    messages = [bytes(8) + b"\x00\x01" + b"%016x" % number + b"body" for number in range(20)]
    data = bytearray(records_of(messages)[0])
    for number in (3, 4, 9, 15, 19):
        data[number * 34 + 2] = 0x33
    folder = QueueFolder(tmp_path, options={"message_bytes_min": 26, "pattern": PATTERN})
    folder.data_path(0).write_bytes(data)
    queue = folder.open()
    assert queue.depth == 15
    assert take_all(queue, 2) == [one for number, one in enumerate(messages) if number not in (3, 4, 9, 15, 19)]
    assert queue.depth == 0
    queue.close()
    assert folder.bad_names == ["000000.dat.bad"]
    assert (folder.path / "q.diskqueue.000000.dat.bad").read_bytes() == data


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_file_costs_its_own_messages(tmp_path: Path, number: int) -> None:
    made = text_files(tmp_path)
    spots = spots_of(made)
    name = f"q.diskqueue.{number:06d}.dat"
    left = [text for one in spots for _, _, text in spots[one] if one != name]
    content = {one: data for one, data in made.items() if one != name}
    folder, queue = reopened(tmp_path, content)
    assert queue.depth in (len(left), len(left) - 1)
    assert take_all(queue) in (left, left[1:])
    assert queue.depth == 0

    # And while it runs.
    folder, queue = reopened(tmp_path, made)
    folder.data_path(number).unlink()
    assert take_all(queue) == [text for text in left if text != TEXTS[0]]
    assert queue.depth == 0
    put(queue, b"goes on")
    assert take_all(queue) == [b"goes on"]


def test_a_file_set_aside_is_kept_when_the_queue_is_emptied(folder: QueueFolder) -> None:
    queue = folder.open()
    put(queue, *[b"x" * 20] * 9)
    os.truncate(folder.data_path(0), 60)
    queue.take(2, 1000)
    put(queue, b"more")
    assert queue.take(1, 1000) == [b"x" * 20]
    queue.empty()
    assert folder.names == ["000000.dat.bad"]


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


# The process dies.


def play(queue: DiskQueue, seen: "Seen") -> None:
    """A life with everything in it; `seen` keeps up with what was promised."""

    def puts(*sizes: int) -> None:
        seen.doubtful = [seen.new_message(size) for size in sizes]
        put(queue, *seen.doubtful)
        seen.waiting += seen.doubtful
        seen.doubtful = []

    def takes(count: int) -> None:
        taken = queue.take(count, 1000)
        assert taken == seen.waiting[: len(taken)]
        del seen.waiting[: len(taken)]
        seen.taken += taken

    def syncs() -> None:
        queue.start_sync()
        assert queue.sync_error is None
        seen.gone += seen.taken
        seen.taken = []

    puts(10, 20, 30)
    takes(1)
    syncs()
    puts(60, 60, 10)
    takes(3)
    puts(*[40] * 12)
    takes(7)
    syncs()
    takes(2)
    puts(120, 5)
    syncs()
    seen.is_emptying = True
    queue.empty()
    seen.gone += seen.taken + seen.waiting
    seen.taken, seen.waiting, seen.is_emptying = [], [], False
    puts(*[30] * 5)
    takes(4)
    puts(10)
    queue.close()


class Seen:
    """What the world knows of the messages: waiting, taken but perhaps not durably, gone for good, in doubt."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self.taken: list[bytes] = []
        self.gone: list[bytes] = []
        self.doubtful: list[bytes] = []
        self.is_emptying = False
        self._number = 0

    def new_message(self, size: int) -> bytes:
        self._number += 1
        return b"%04d" % self._number + b"." * size


def test_killed_at_any_change_of_the_disk_a_queue_keeps_what_was_put_and_not_taken(tmp_path: Path) -> None:
    steps = 0
    for steps in range(1000):
        path = tmp_path / str(steps)
        path.mkdir()
        folder = QueueFolder(path, files=FaultyFiles(), options={"max_bytes_per_file": 150})
        queue = folder.open()
        seen = Seen()
        faults_of(folder).dies_after = steps
        try:
            play(queue, seen)
        except ProcessDiedError:
            pass
        else:
            faults_of(folder).abandon()
            break
        queue = restarted(folder)
        depth = queue.depth
        assert folder.open().depth == depth, "opening changes nothing"
        found = take_all(queue, 3)
        assert depth == len(found), steps
        if seen.is_emptying:
            everything = seen.gone + seen.taken + seen.waiting
            assert found == [one for one in everything if one in set(found)], steps
        else:
            extra_behind = found[found.index(seen.waiting[-1]) + 1 :] if seen.waiting else found
            extra_before = found[: len(found) - len(seen.waiting) - len(extra_behind)] if seen.waiting else []
            assert found == extra_before + seen.waiting + extra_behind, steps
            if not seen.waiting:
                extra_before = [one for one in found if one in seen.taken]
                extra_behind = found[len(extra_before) :]
            assert extra_before == seen.taken[len(seen.taken) - len(extra_before) :], steps
            assert extra_behind == seen.doubtful[: len(extra_behind)], steps
        put(queue, b"goes on")
        assert take_all(queue) == [b"goes on"]
        queue.close()
        assert faults_of(folder).open_fds == set()
    assert 40 < steps < 999


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


# Few descriptors.


def test_more_queues_than_descriptors_can_be_at_work(tmp_path: Path) -> None:
    files = FaultyFiles(DescriptorBudget(8))
    folder = QueueFolder(tmp_path, files=files)
    queues = []
    for number in range(100):
        folder.name = f"t:{number}"
        queues.append(folder.open())
    most = 0
    for turn in range(3):
        for queue in queues:
            put(queue, b"%s turn %d" % (queue.name.encode(), turn))
            most = max(most, len(files.open_fds))
    for queue in queues:
        assert queue.peek() == queue.name.encode() + b" turn 0"
        assert len(take_all(queue, 2)) == 3
        most = max(most, len(files.open_fds))
    assert most <= 16
    # What was closed to make room had been synced before, so nothing is left over now.
    for queue in queues:
        queue.close()
    assert files.open_fds == set()


def test_a_process_out_of_descriptors_makes_idle_queues_give_theirs_back(tmp_path: Path) -> None:
    files = FaultyFiles()
    folder = QueueFolder(tmp_path, files=files)
    idle, busy = folder.open(), QueueFolder(tmp_path, "busy", files).open()
    put(idle, b"a", b"b")
    idle.start_sync()
    assert idle.peek() == b"a"
    assert len(files.open_fds) == 2
    files.fail("open", errno.EMFILE)
    put(busy, b"c")
    assert len(files.open_fds) == 1
    assert idle.take(2, 100) == [b"a", b"b"]


@pytest.mark.slow(reason="starts a process with few descriptors")
def test_five_hundred_queues_work_under_a_limit_of_256_descriptors(tmp_path: Path) -> None:
    script = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from pathlib import Path
from tests.support.stores.background import HeldBackground
from tests.support.stores.disk_queue import QueueFolder, put, take_all
folder = QueueFolder(Path(sys.argv[1]), options={"max_bytes_per_file": 40})
queues = []
for number in range(500):
    folder.name = f"topic:{number}"
    queues.append(folder.open())
for turn in range(2):
    for queue in queues:
        put(queue, *[b"%d" % number for number in range(12)])
print(sum(take_all(queue) == [b"%d" % number for number in range(12)] * 2 for queue in queues))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.stdout, done.returncode) == ("500\n", 0), done.stderr
