"""A commit log on a test's disk, clock and threads, with a publisher that keeps book of what was promised."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from queue_engine.storage.commit_log.commit_log import CommitLog
from queue_engine.storage.commit_log.log_recovery import RecoveredLog
from queue_engine.storage.commit_log.options import LogOptions, SyncPolicy
from queue_engine.storage.commit_log.record import RecordHeader, parse_header
from queue_engine.storage.commit_log.segment import LogSegments, SegmentInfo, head_bytes_of
from queue_engine.storage.commit_log.thread_choice import ThreadChoice
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.run import Batch
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.stores.background import HeldBackground

SEAL_KIND = 2
SEGMENT_BYTES = 2_000
HEAD_BYTES = head_bytes_of(SEGMENT_BYTES)
ALWAYS, INTERVAL, OS = SyncPolicy.ALWAYS, SyncPolicy.INTERVAL, SyncPolicy.OS
POLICIES = list(SyncPolicy)

MakeBench = Callable[..., "LogBench"]


@dataclass
class Publish:
    position: int
    size: int
    first_offset: int
    count: int

    @property
    def end(self) -> int:
        return self.position + self.size


class LogBench:
    """Assigns offsets for each publish as the engine does, and rolls back those of rejected batches."""

    def __init__(
        self,
        path: Path,
        policy: SyncPolicy = SyncPolicy.ALWAYS,
        *,
        recovered: RecoveredLog | None = None,
        sync: Any = None,
        worker: Any = None,
        thread_choice: ThreadChoice | None = None,
        is_open: bool = True,
        **options: Any,
    ) -> None:
        """recovered: None for a new log. sync, worker: backgrounds; None for held ones. options: of LogOptions;
        segment_bytes is 2,000 and nothing is filled ahead unless said."""
        self.path = path
        path.mkdir(exist_ok=True)
        self.files = FaultyFiles()
        self.clock = ManualClock()
        self.sync: HeldBackground = sync or HeldBackground()
        self.worker: HeldBackground = worker or HeldBackground()
        self.segments = LogSegments(str(path), self.files)
        self.visible: list[int] = []
        self.failures: list[StorageError] = []
        self.pending: list[Publish] = []
        self.acknowledged: list[Publish] = []
        self.rejected: list[Publish] = []
        self.next_offset = 0
        settings: dict[str, Any] = {
            "segment_bytes": SEGMENT_BYTES,
            "sync_interval_ms": 1_000,
            "sync_interval_bytes": 1_000,
            "fill_ahead_bytes": 0,
            **options,
        }
        self.log = CommitLog(
            self.segments,
            recovered or RecoveredLog(),
            LogOptions(policy, **settings),
            clock=self.clock,
            sync_background=self.sync,
            worker=self.worker,
            listener=self,
            thread_choice=thread_choice,
        )
        if is_open:
            self.log.open()

    def became_visible(self, visible_end: int) -> None:
        assert visible_end == self.log.visible_end
        self.visible.append(visible_end)
        while self.pending and self.pending[0].end <= visible_end:
            self.acknowledged.append(self.pending.pop(0))

    def log_failed(self, error: StorageError) -> None:
        self.failures.append(error)
        if self.pending:
            assert self.pending[0].position >= self.log.visible_end
            self.next_offset = self.pending[0].first_offset
        self.rejected += self.pending
        self.pending = []

    def append(self, body: bytes = b"body", *, count: int = 1, timestamp_ns: int | None = None) -> Publish:
        """One batch of `count` messages of topic 1. Raises StorageError as the log does."""
        ids = [b"%016x" % (self.next_offset + index) for index in range(count)]
        at_ns = self.clock.time_ns() if timestamp_ns is None else timestamp_ns
        position, size = self.log.append(1, self.next_offset, Batch(at_ns, ids, [body] * count))
        publish = Publish(position, size, self.next_offset, count)
        self.pending.append(publish)
        self.next_offset += count
        return publish

    def publish(self, body: bytes = b"body", *, count: int = 1) -> Publish:
        """A turn of one batch."""
        publish = self.append(body, count=count)
        self.log.commit()
        return publish

    def settle(self) -> None:
        """Let both threads finish and answer."""
        self.sync.finish()
        self.worker.finish()
        self.sync.finish()

    def second(self) -> None:
        """A second passes, and the tick of its end."""
        self.clock.advance(ms=1_000)
        self.log.tick(self.clock.monotonic_ns())

    def calls_since(self, at: int, *operations: str) -> list[str]:
        """Of the file operations behind the `at` first ones, those named."""
        return [call for call in self.files.calls[at:] if call in operations]

    def file_bytes(self, segment: SegmentInfo) -> bytes:
        return Path(segment.path).read_bytes()

    def on_disk(self, *, is_clean: bool = True) -> list[tuple[int, RecordHeader]]:
        """Every record in the files, with its position, as a scan finds them; seals left out.

        is_clean: behind the last record of each file there must be zeros alone.
        """
        found: list[tuple[int, RecordHeader]] = []
        for segment in sorted(self.segments.list, key=lambda one: one.position):
            data = self.file_bytes(segment)
            at = segment.head_bytes
            while (header := parse_header(data, at, position=segment.position + at, salt=segment.salt)) is not None:
                if header.kind == SEAL_KIND:
                    at += header.size
                    break
                found.append((segment.position + at, header))
                at += header.size
            assert not is_clean or not data[at:].strip(b"\0"), f"bytes behind the end of {segment.path}"
        return found

    def check_disk(self, *, is_exact: bool = True) -> None:
        """Check that the acknowledged batches are on the disk, once and in order; is_exact: and no others."""
        found = [(position, header.first_offset, header.count) for position, header in self.on_disk(is_clean=is_exact)]
        wanted = [(one.position, one.first_offset, one.count) for one in self.acknowledged]
        assert (found if is_exact else found[: len(wanted)]) == wanted
        offsets = [one.first_offset for one in self.acknowledged]
        counts = [one.count for one in self.acknowledged]
        assert offsets == [sum(counts[:index]) for index in range(len(counts))]

    def ends(self) -> tuple[int, int, int, int]:
        """How far it is synced, visible, written and appended."""
        log = self.log
        return log.synced_end, log.visible_end, log.written_end, log.end

    def open_paths(self) -> list[str]:
        """The files that descriptors are open on."""
        return sorted(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")) for fd in self.files.open_fds)

    def check_failed_for_good(self) -> None:
        """No OK, no write, no sync, no sign of life comes from it any more."""
        assert self.log.error is not None
        assert self.failures == [self.log.error]
        assert not self.log.is_full
        visible_end = self.log.visible_end
        acknowledged = list(self.acknowledged)
        assert self.log.end == visible_end
        self.files.heal()
        self.settle()
        calls = len(self.files.calls)
        for _ in range(3):
            with pytest.raises(StorageError, match="until the next start"):
                self.append()
            self.log.commit()
            self.second()
            self.settle()
        with pytest.raises(StorageError, match="until the next start"):
            self.log.close()
        assert self.calls_since(calls, "write", "sync_data", "sync", "create", "truncate") == []
        assert self.log.visible_end == visible_end
        assert self.acknowledged == acknowledged
        assert len(self.failures) == 1
        assert self.files.open_fds == set()
        self.check_disk(is_exact=False)
