"""What a commit log has written and synced since it was opened."""

from dataclasses import dataclass


@dataclass(slots=True)
class SyncCounts:
    """Of one log; writing zeros ahead is not counted."""

    groups: int = 0  # writes that succeeded: one per turn at most
    written_bytes: int = 0
    syncs: int = 0  # of files: a group over two segments makes two
    synced_bytes: int = 0
    syncs_by_bytes: int = 0  # begun by `interval` since so many bytes were unsynced
    syncs_by_time: int = 0  # begun by `interval` since the oldest byte had waited so long
    syncs_by_roll: int = 0  # begun since a segment was full
    inline_syncs: int = 0  # on the engine's thread
    failed_groups: int = 0
