"""The settings of one log: syncs, sizes, retention."""

from dataclasses import dataclass, field

from queue_engine.storage.commit_log.holes import BLOCK_BYTES
from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.progress.journal import RESERVE_BYTES
from queue_engine.storage.quarantine_stats import QuarantineLimits

CACHE_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class LogSettings:
    """room_bytes_min: free bytes that the log needs to begin, and to go on after the disk was full; None for twice the
    reserve. retention_ms, retention_bytes: unneeded segments stay while they are younger and the log is smaller; where
    one is 0 the other decides alone, with both 0 they go at once. block_bytes: the file system's.
    pipeline_retention_bytes: how much of the log one pipeline cursor may keep, 0 for no limit. cache_bytes: for the
    batches used last. reads_unsynced: readers get visible records before they are synced. quarantine:
    of each channel. has_key_index: messages are found by their keys."""

    policy: SyncPolicy
    sync_interval_ms: int
    sync_interval_bytes: int
    segment_bytes: int
    memory_count_max: int
    journal_reserve_bytes: int = RESERVE_BYTES
    room_bytes_min: int | None = None
    checkpoint_interval_ms: int = 5_000
    retention_ms: int = 0
    retention_bytes: int = 0
    block_bytes: int = BLOCK_BYTES
    pipeline_retention_bytes: int = 0
    cache_bytes: int = CACHE_BYTES_MAX
    reads_unsynced: bool = False
    quarantine: QuarantineLimits = field(default_factory=QuarantineLimits)
    has_key_index: bool = True
