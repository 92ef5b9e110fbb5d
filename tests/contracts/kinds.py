"""The storage kinds that the contract is checked against, and what differs between them by design.

    both        every store keeps it
    diskqueue   only a store that copies each message to each channel, as nsqd does, keeps it

A kind that comes later adds a `StorageKind` to KINDS; what it does otherwise by design is a field here, with
the reason, and not an exception in a test.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.disk_queue.folder import DiskQueueFolder
from queue_engine.storage.disk_queue.store import DiskQueueStore
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogStore
from queue_engine.storage.store import Backlog, TopicStore
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.run import Run
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.stores.delayed_store import DelayedStore


@dataclass(frozen=True)
class StorageKind:
    name: str
    make: Callable[["Shelf"], TopicStore]
    # DelayedStore has no disk: it stands for how an append completes. All topics of a log come back together:
    # tests/storage/log_store/test_log_store.py has that, and what a disk refuses.
    survives_close: bool
    writes_at_append: bool  # a copy for each channel, which the disk can refuse; a queue in memory writes at close
    writes_at_close: bool  # messages that were in memory until then
    # What comes back waits behind at most so many of those that wait then: --mem-queue-size. None: behind all of them,
    # at the end of its file, since nothing is kept in memory.
    behind_max: int | None
    counts_at_one_go: bool = True  # False: `plain_counts` is always None, and each count is read by itself
    has_own_files: bool = True  # that go with the topic; a log is shared, and tells topics apart by number


def _disk_queue(mem_queue_size: int) -> Callable[["Shelf"], TopicStore]:
    def make(shelf: "Shelf") -> TopicStore:
        options = Options(
            data_path=str(shelf.path), mem_queue_size=mem_queue_size, max_bytes_per_file=4_096, max_msg_size=2_000
        )
        folder = DiskQueueFolder(str(shelf.path), options, shelf.files, InlineBackground(), shelf.clock)
        return DiskQueueStore("t", folder)

    return make


def _log(policy: SyncPolicy, mem_queue_size: int) -> Callable[["Shelf"], TopicStore]:
    def make(shelf: "Shelf") -> TopicStore:
        if shelf.log is not None:
            shelf.topic_number += 1
            return shelf.log.open_topic("t", shelf.topic_number, id_base=0x1000)
        settings = LogSettings(
            policy=policy,
            sync_interval_ms=1_000,
            sync_interval_bytes=1 << 20,
            segment_bytes=16_384,
            memory_count_max=mem_queue_size,
        )
        log = LogStore(
            str(shelf.path / "log"),
            settings,
            files=shelf.files,
            clock=shelf.clock,
            backgrounds=Backgrounds.of(InlineBackground()),
        )
        log.open([])
        shelf.log = log
        return log.open_topic("t", 1, id_base=0x1000)

    return make


KINDS = [
    StorageKind(
        "diskqueue-in-memory",
        _disk_queue(10_000),
        survives_close=True,
        writes_at_append=False,
        writes_at_close=True,
        behind_max=10_000,
    ),
    StorageKind(
        "diskqueue-mixed",
        _disk_queue(3),
        survives_close=True,
        writes_at_append=False,
        writes_at_close=True,
        behind_max=3,
    ),
    StorageKind(
        "diskqueue-on-disk",
        _disk_queue(0),
        survives_close=True,
        writes_at_append=True,
        writes_at_close=False,
        behind_max=None,
    ),
    StorageKind(
        "log-always",
        _log(SyncPolicy.ALWAYS, 10_000),
        survives_close=False,
        writes_at_append=False,
        writes_at_close=False,
        behind_max=10_000,
        has_own_files=False,
    ),
    StorageKind(
        "log-os",
        _log(SyncPolicy.OS, 3),
        survives_close=False,
        writes_at_append=False,
        writes_at_close=False,
        behind_max=3,
        has_own_files=False,
    ),
    StorageKind(
        "delayed",
        lambda shelf: DelayedStore(shelf.clock),
        survives_close=False,
        writes_at_append=False,
        writes_at_close=False,
        behind_max=None,
        counts_at_one_go=False,
    ),
]


@dataclass
class Shelf:
    """One topic's store on a directory; opens it again as a restarted process would."""

    kind: StorageKind
    path: Path
    clock: ManualClock = field(default_factory=ManualClock)
    files: FaultyFiles = field(default_factory=FaultyFiles)

    def __post_init__(self) -> None:
        self.log: LogStore | None = None
        self.topic_number = 1
        self.store: TopicStore
        self.open()

    def open(self) -> TopicStore:
        self.store = self.kind.make(self)
        self.store.set_flowing(True)
        return self.store

    def append(self, *bodies: bytes, due_ms: int | None = None) -> Ticket:
        """Publish and let the store complete it."""
        batch = self.store.make_batch(list(bodies))
        due_ns = None if due_ms is None else self.clock.monotonic_ns() + due_ms * 1_000_000
        ticket = self.store.append(batch, due_ns)
        if isinstance(self.store, DelayedStore):
            self.store.complete(len(self.store.pending))
        if self.log is not None:
            self.log.end_turn()
        return ticket

    def pump(self) -> None:
        while self.store.pump(100):
            pass


def bodies_of(run: Run | None) -> list[bytes]:
    return [] if run is None else [run.frame_at(index)[34:] for index in range(len(run))]


def attempts_of(run: Run | None) -> list[int]:
    return [] if run is None else [int.from_bytes(run.frame_at(index)[16:18], "big") for index in range(len(run))]


def take_all(backlog: Backlog, *, count_max: int = 1_000) -> list[tuple[bytes, int]]:
    """Everything that waits, sent: (body, attempts)."""
    taken: list[tuple[bytes, int]] = []
    while (run := backlog.take(count_max, 1 << 20)) is not None:
        backlog.sent(run)
        taken += zip(bodies_of(run), attempts_of(run), strict=True)
    return taken
