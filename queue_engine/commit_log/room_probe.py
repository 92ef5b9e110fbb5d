"""A try whether a disk that was full has room again, made on the sync thread."""

from collections.abc import Sequence

from queue_engine.commit_log.next_segment import NextSegment
from queue_engine.commit_log.open_segment import FILL_STEP_BYTES, OpenSegment
from queue_engine.commit_log.recovery import RecoveredLog
from queue_engine.commit_log.refusal import Refusal


class RoomProbe:
    """Cleans up behind what was refused, then takes the room that it would need.

    to_clean: segments that a refused group may have written to. good_end: the end of what counts. target: the segment
    that what was refused goes to: open, or to be made.
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
        """Raises OSError and StorageError; it may be made again then."""
        # Zeros are synced over what was refused before its positions are given to anything else.
        for segment in reversed(self._to_clean):
            segment.take_back(self._good_end)
        for segment in self._to_clean:
            segment.sync()
        self._refusal.check_room()
        # Where the start had no room for a seal: before a segment behind it is made.
        self._recovered.seal_late()
        room = self._target if isinstance(self._target, OpenSegment) else self._target.wait()
        try:
            room.fill(min(self._refused_bytes, FILL_STEP_BYTES))
        except OSError:
            room.give_back_room(self._good_end)
            raise
