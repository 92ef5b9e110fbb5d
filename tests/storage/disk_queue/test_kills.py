"""The process is killed at any change of the disk."""

from pathlib import Path

from queue_engine.storage.disk_queue.fifo.disk_queue import DiskQueue
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.stores.disk_queue import QueueFolder, faults_of, put, restarted, take_all


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
