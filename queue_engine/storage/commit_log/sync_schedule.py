"""When the commit log syncs under `interval` and `os`: by bytes, by time, and when a segment is full."""

from queue_engine.storage.commit_log.options import LogOptions, SyncPolicy
from queue_engine.storage.commit_log.sync_counts import SyncCounts
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S

# Under `os` nothing waits for a sync. Readers beside the channels get synced records alone: while there are readers,
# the log syncs this often.
READERS_SYNC_INTERVAL_NS = 2 * NS_PER_S


class SyncSchedule:
    """Decides when the log syncs. Belongs to the engine's thread. Under `always` every group has its own sync, and this
    decides nothing.

    unsynced_since_ns: when the oldest byte was written that no sync covers yet, monotonic; None when there is none.
    is_wanted: a sync is to begin as soon as none is under way.
    """

    def __init__(self, options: LogOptions, counts: SyncCounts) -> None:
        self._policy = options.policy
        self._interval_ns = options.sync_interval_ms * NS_PER_MS
        self._interval_bytes = options.sync_interval_bytes
        self._counts = counts
        self.unsynced_since_ns: int | None = None
        self.is_wanted = False
        self._is_all_wanted = False  # under `os`: the segment being written, too

    def note_written(self, since_ns: int, unsynced_bytes: int, *, is_roll: bool, is_syncing: bool) -> None:
        """Note a written group, whose first record came at `since_ns`. is_roll: it filled a segment. is_syncing: a sync
        is under way, which does not cover the group."""
        if self.unsynced_since_ns is None:
            self.unsynced_since_ns = since_ns
        if is_roll:
            self._counts.syncs_by_roll += 1
            self.is_wanted = True
        elif not is_syncing:
            self._look_at_bytes(unsynced_bytes)

    def tick(self, now_ns: int, *, has_readers: bool) -> None:
        """Check the time; called while no sync is under way. has_readers: beside the channels."""
        if self.unsynced_since_ns is None:
            return
        waited_ns = now_ns - self.unsynced_since_ns
        if self._policy is SyncPolicy.INTERVAL and waited_ns >= self._interval_ns:
            self._counts.syncs_by_time += 1
            self.is_wanted = True
        elif self._policy is SyncPolicy.OS and has_readers and waited_ns >= READERS_SYNC_INTERVAL_NS:
            self._counts.syncs_by_time += 1
            self.is_wanted = self._is_all_wanted = True

    def take(self) -> bool:
        """Begin the sync that is wanted. Returns whether it covers all written records; if not, only full segments."""
        is_all = self._is_all_wanted or self._policy is SyncPolicy.INTERVAL
        self.is_wanted = self._is_all_wanted = False
        return is_all

    def note_synced(self, unsynced_bytes: int) -> None:
        """Note the end of a sync; `unsynced_bytes` were written meanwhile."""
        if not self.is_wanted:
            self._look_at_bytes(unsynced_bytes)

    def _look_at_bytes(self, unsynced_bytes: int) -> None:
        if self._policy is SyncPolicy.INTERVAL and unsynced_bytes >= self._interval_bytes:
            self._counts.syncs_by_bytes += 1
            self.is_wanted = True
