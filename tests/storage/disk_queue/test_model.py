"""DiskQueue against a list: random work and restarts, and the same messages in the same order."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.disks.files import FaultyFiles
from tests.support.stores.background import HeldBackground
from tests.support.stores.disk_queue import QueueFolder, put, take_all


class DiskQueueAgainstList(RuleBasedStateMachine):
    """Any sequence of acts, with a worker that is late, clean restarts, and kills at any moment between two acts.

    After a kill what was taken since the last durable meta file may come again; nothing that was put and not
    taken may be missing, nothing may come that was not put, and the order stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[bytes] = []
        self.taken: list[bytes] = []  # what may come again after a kill, newest last
        self.number = 0

    @initialize(per_file=st.integers(8, 120), sync_every=st.integers(1, 10))
    def start(self, per_file: int, sync_every: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.folder = QueueFolder(
            Path(self.directory.name), options={"max_bytes_per_file": per_file, "sync_every": sync_every}
        )
        self.new_process()

    def new_process(self) -> None:
        self.folder.files = self.files = FaultyFiles()
        self.folder.background = self.worker = HeldBackground()
        self.queue = self.folder.open()

    def teardown(self) -> None:
        self.files.abandon()
        self.directory.cleanup()

    @rule(sizes=st.lists(st.integers(4, 60), min_size=1, max_size=8))
    def put(self, sizes: list[int]) -> None:
        messages = []
        for size in sizes:
            self.number += 1
            messages.append(b"%04d" % self.number + bytes(size - 4))
        put(self.queue, *messages)
        self.expected += messages

    @rule(count=st.integers(1, 6), bytes_max=st.integers(1, 200))
    def take(self, count: int, bytes_max: int) -> None:
        taken = self.queue.take(count, bytes_max)
        assert bool(taken) == bool(self.expected)
        assert taken == self.expected[: len(taken)]
        assert len(taken) <= count
        assert sum(map(len, taken)) <= bytes_max or len(taken) == 1
        del self.expected[: len(taken)]
        self.taken += taken

    @rule()
    def peek(self) -> None:
        assert self.queue.peek() == (self.expected[0] if self.expected else None)

    @rule()
    def empty(self) -> None:
        assert self.queue.empty() == len(self.expected)
        self.expected.clear()
        self.taken.clear()

    @rule()
    def tick(self) -> None:
        self.folder.sync_when_due(self.queue)

    @rule()
    def sync(self) -> None:
        self.queue.start_sync()

    @rule()
    def work(self) -> None:
        self.worker.work()

    @rule()
    def answer(self) -> None:
        self.worker.answer()

    @rule()
    def release(self) -> None:
        self.queue.release_descriptors()

    @rule()
    def restart(self) -> None:
        self.queue.close()
        self.worker.finish()
        assert self.files.open_fds == set()
        self.new_process()
        assert self.queue.lost_count == self.queue.found_count == 0
        self.taken.clear()

    @rule()
    def delete(self) -> None:
        self.queue.delete()
        self.expected.clear()
        self.taken.clear()
        self.queue = self.folder.open()

    @precondition(lambda self: self.number)
    @rule()
    def kill(self) -> None:
        self.files.abandon()
        self.new_process()
        depth = self.queue.depth
        found = take_all(self.queue, 3)
        assert len(found) == depth
        everything = self.taken + self.expected
        assert len(found) >= len(self.expected)
        assert found == everything[len(everything) - len(found) :]
        # Taken once more in order to look; so it may come once more.
        self.taken, self.expected = everything, []

    @invariant()
    def depth_is_exact(self) -> None:
        if hasattr(self, "queue"):
            assert self.queue.depth == len(self.expected)
            assert self.queue.lost_count == 0
            assert self.folder.bad_names == []


DiskQueueAgainstList.TestCase.settings = settings(max_examples=120, stateful_step_count=40)
TestDiskQueueAgainstList = DiskQueueAgainstList.TestCase
