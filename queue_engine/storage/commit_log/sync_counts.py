"""Counts of a commit log's writes and syncs since it was opened."""

from dataclasses import dataclass, field

from queue_engine.vocabulary.latency.histogram import SYNC_BOUNDS_NS, Histogram


@dataclass(slots=True)
class SyncCounts:
    """The counts of one log, without zeros that are written ahead."""

    groups: int = 0  # writes that succeeded: one per turn at most
    written_bytes: int = 0
    syncs: int = 0  # of files: a group over two segments makes two
    synced_bytes: int = 0
    syncs_by_bytes: int = 0  # begun by `interval` because so many bytes were unsynced
    syncs_by_time: int = 0  # begun by `interval`, and for readers by `os`, because the oldest byte had waited so long
    syncs_by_roll: int = 0  # begun because a segment was full
    inline_syncs: int = 0  # on the engine's thread
    failed_groups: int = 0
    times: Histogram = field(default_factory=lambda: Histogram(SYNC_BOUNDS_NS))  # of each sync of a group or segments
