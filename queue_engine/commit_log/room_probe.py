"""Tries, on the sync thread, whether a disk that was full has room again."""

from collections.abc import Sequence

from queue_engine.commit_log.log_recovery import RecoveredLog
from queue_engine.commit_log.next_segment import NextSegment
from queue_engine.commit_log.open_segment import FILL_STEP_BYTES, OpenSegment
from queue_engine.commit_log.refusal import Refusal


class RoomProbe:
    """Puts zeros over a refused group, checks that enough is free, then writes up to 1 MiB of zeros as a trial.

    to_clean: segments that the group may have written to. good_end: the end of the valid records. target: the segment
    that the group would go to, open or still to be made.
    """

    def __init__(
        self,
        refusal: Refusal,
        recovered: RecoveredLog,
        *,
        to_clean: Sequence[OpenSegment],
        good_end: int,
        target: OpenSegment | NextSegment,
    ) -> None:
        self._refusal = refusal
        self._refused_bytes = refusal.refused_bytes
        self._recovered = recovered
        self._to_clean = to_clean
        self._good_end = good_end
        self._target = target

    def run(self) -> None:
        """Raises OSError and StorageError when there is no room yet, or the disk fails."""
        # Zeros over the refused group are synced before its positions are used again.
        for segment in reversed(self._to_clean):
            segment.take_back(self._good_end)
        for segment in self._to_clean:
            segment.sync()
        self._refusal.check_room()
        # When the start had no room for the last segment's seal: before a segment behind it is made.
        self._recovered.seal_late()
        room = self._target if isinstance(self._target, OpenSegment) else self._target.wait()
        try:
            room.fill(min(self._refused_bytes, FILL_STEP_BYTES))
        except OSError:
            room.give_back_room(self._good_end)
            raise
