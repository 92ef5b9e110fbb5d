"""Completes the current segment of a full log before it is full, on the sync thread, so that it can be removed.

Only complete segments are removed or punched. On a full disk no record completes the last one. So its emptied and
finished messages would hold their room until another program frees some.
"""

from collections.abc import Sequence

from queue_engine.storage.commit_log.next_segment import NextSegment
from queue_engine.storage.commit_log.open_segment import OpenSegment
from queue_engine.storage.commit_log.record import SEAL_BYTES, encode_seal


class EarlySeal:
    """Seals the last segment that has records, and syncs and closes all up to it.

    written: these segments, in order. following: the segment behind them, open or still to be made. end: of the valid
    records. to_clean: segments that a refused group may have written to.
    """

    def __init__(
        self,
        written: Sequence[OpenSegment],
        following: OpenSegment | NextSegment,
        *,
        end: int,
        time_ns: int,
        to_clean: Sequence[OpenSegment],
    ) -> None:
        self.written = written
        self.last = written[-1]
        self._following = following
        self._end = end
        self._seal = encode_seal(position=end, salt=self.last.info.salt, durable_upto=end, time_ns=time_ns)
        self._to_clean = to_clean

    def run(self) -> None:
        """Raises OSError and StorageError when there is no room for it, or the disk fails; it may be tried again with
        the last segment among those to clean."""
        for segment in reversed(self._to_clean):
            segment.take_back(self._end)
        # First: a log that could not go on behind its seal would take nothing more.
        if isinstance(self._following, NextSegment):
            self._following.wait()
        # The seal says that the log is durable up to it.
        for segment in {id(one): one for one in (*self._to_clean, *self.written)}.values():
            segment.sync()
        self.last.write(self._seal, self._end, is_last=True)
        self.last.sync()
        self.last.cut_off(self._end + SEAL_BYTES)
        for segment in self.written:
            segment.close()

    def note_sealed(self) -> None:
        """On the engine's thread, after `run`."""
        self.last.info.end = self._end
        self.last.info.is_sealed = True
