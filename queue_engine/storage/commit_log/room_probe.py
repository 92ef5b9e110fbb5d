"""Tries, on the sync thread, whether a disk that was full has room again."""

from collections.abc import Sequence

from queue_engine.storage.commit_log.log_recovery import RecoveredLog
from queue_engine.storage.commit_log.next_segment import NextSegment
from queue_engine.storage.commit_log.open_segment import FILL_STEP_BYTES, OpenSegment
from queue_engine.storage.commit_log.refusal import Refusal


def probe_room(
    refusal: Refusal,
    recovered: RecoveredLog,
    *,
    refused_bytes: int,
    to_clean: Sequence[OpenSegment],
    good_end: int,
    target: OpenSegment | NextSegment,
) -> None:
    """Put zeros over a refused group, check that enough is free, then write up to 1 MiB of zeros as a trial.

    refused_bytes: of the group. to_clean: segments that the group may have written to. good_end: the end of the valid
    records. target: the segment that the group would go to, open or still to be made. Raises OSError and StorageError
    when there is no room yet, or the disk fails.
    """
    # Zeros over the refused group are synced before its positions are used again.
    for segment in reversed(to_clean):
        segment.take_back(good_end)
    for segment in to_clean:
        segment.sync()
    refusal.check_room()
    # When the start had no room for the last segment's seal: before a segment behind it is made.
    recovered.seal_late()
    room = target if isinstance(target, OpenSegment) else target.wait()
    try:
        room.fill(min(refused_bytes, FILL_STEP_BYTES))
    except OSError:
        room.give_back_room(good_end)
        raise
