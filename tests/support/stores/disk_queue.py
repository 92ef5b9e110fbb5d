"""Disk queues on a directory of the test's, and their files as bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queue_engine.storage.disk.background import Background, InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.fifo.disk_queue import DiskQueue
from queue_engine.storage.disk_queue.fifo.options import DiskQueueOptions
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles


def records_of(messages: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """Messages as `DiskQueue.put` takes them."""
    records = b"".join(len(message).to_bytes(4, "big") + message for message in messages)
    return records, [len(message) + 4 for message in messages]


def put(queue: DiskQueue, *messages: bytes) -> None:
    queue.put(*records_of(messages))


def take_all(queue: DiskQueue, count_max: int = 100) -> list[bytes]:
    """Take until there is nothing more."""
    taken: list[bytes] = []
    while some := queue.take(count_max, 1 << 30):
        taken += some
    return taken


@dataclass
class QueueFolder:
    """Opens queues named `name` in `path`, again and again as a restarted process would."""

    path: Path
    name: str = "q"
    files: Files = field(default_factory=Files)
    background: Background = field(default_factory=InlineBackground)
    clock: ManualClock = field(default_factory=ManualClock)
    options: dict[str, Any] = field(default_factory=dict)

    def open(self, **options: Any) -> DiskQueue:
        chosen: dict[str, Any] = {
            "max_bytes_per_file": 1 << 20,
            "message_bytes_min": 1,
            "message_bytes_max": 1 << 10,
            "sync_every": 2500,
            "sync_timeout_ms": 2000,
        }
        chosen |= self.options | options
        return DiskQueue(
            self.name,
            str(self.path),
            DiskQueueOptions(**chosen),
            files=self.files,
            background=self.background,
            clock=self.clock,
        )

    def sync_when_due(self, queue: DiskQueue) -> bool:
        """Does the work of the engine's tick."""
        is_due = queue.sync_due(self.clock.monotonic_ns())
        if is_due:
            queue.start_sync()
        return is_due

    def data_path(self, number: int) -> Path:
        return self.path / f"{self.name}.diskqueue.{number:06d}.dat"

    @property
    def meta_path(self) -> Path:
        return self.path / f"{self.name}.diskqueue.meta.dat"

    @property
    def meta(self) -> str:
        return self.meta_path.read_text()

    @property
    def names(self) -> list[str]:
        """Names in the directory, what they all begin with left out."""
        return sorted(entry.name.removeprefix(f"{self.name}.diskqueue.") for entry in self.path.iterdir())

    @property
    def bad_names(self) -> list[str]:
        """Of damaged files; the queue's next sync gives them these names."""
        return [name for name in self.names if name.endswith(".bad")]


def faults_of(folder: QueueFolder) -> FaultyFiles:
    assert isinstance(folder.files, FaultyFiles)
    return folder.files


def restarted(folder: QueueFolder) -> DiskQueue:
    """The queue as the next process opens it after this one was killed."""
    faults_of(folder).abandon()
    folder.files = FaultyFiles()
    return folder.open()
