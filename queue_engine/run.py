"""Batches come in, runs go out: many messages in one buffer, so that a message costs a slice and not a step.

A `Batch` is what one publish command brought: bodies that share a publish time. A `Run` is messages in the
form that goes to a consumer, one frame behind the other, with their ids beside them. Both are immutable once
made, so every channel of a topic may share them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache

from queue_engine.message import (
    FRAME_HEADER_BYTES,
    FRAME_TYPE_MESSAGE,
    STORED_HEADER_BYTES,
    TIMESTAMP_AT,
    frame_with_next_attempt,
    pack_frame_prefix,
    pack_stored_prefix,
    stored_from_frame,
    unpack_size,
    unpack_timestamp,
)


@lru_cache(maxsize=4096)
def _size_bytes(size: int) -> bytes:
    return size.to_bytes(4, "big")


class Batch:
    """The messages of one publish: ids and bodies side by side, one publish time."""

    __slots__ = ("_run", "bodies", "body_bytes", "ids", "timestamp_ns")

    def __init__(self, timestamp_ns: int, ids: list[bytes], bodies: Sequence[bytes]) -> None:
        assert len(ids) == len(bodies) > 0
        self.timestamp_ns = timestamp_ns
        self.ids = ids
        self.bodies = bodies
        self.body_bytes = sum(map(len, bodies))
        self._run: Run | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def run(self) -> "Run":
        """The messages as frames of their first delivery; made once, shared by all channels."""
        if self._run is None:
            ids, bodies = self.ids, self.bodies
            # The 14 bytes between size and id are the same for the whole batch.
            middle = pack_frame_prefix(0, FRAME_TYPE_MESSAGE, self.timestamp_ns, 1)[4:]
            parts: list[bytes] = []
            extend = parts.extend
            for message_id, body in zip(ids, bodies, strict=True):
                extend((_size_bytes(len(body) + FRAME_HEADER_BYTES - 4), middle, message_id, body))
            self._run = Run(b"".join(parts), ids)
        return self._run

    def stored_records(self) -> tuple[bytes, list[int]]:
        """The messages as disk queue records, each with its 4-byte length, and each record's byte length."""
        prefix = pack_stored_prefix(self.timestamp_ns, 0)
        parts: list[bytes] = []
        sizes: list[int] = []
        extend = parts.extend
        for message_id, body in zip(self.ids, self.bodies, strict=True):
            size = len(body) + STORED_HEADER_BYTES
            sizes.append(size + 4)
            extend((_size_bytes(size), prefix, message_id, body))
        return b"".join(parts), sizes


class Run:
    """Messages on their way to one consumer: `frames` holds them all, `ids` names them in the same order.

    The attempts in a frame are those of the delivery that the run makes.
    """

    __slots__ = ("_ends", "frames", "ids")

    def __init__(self, frames: bytes, ids: list[bytes]) -> None:
        self.frames = frames
        self.ids = ids
        self._ends: list[int] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def ends(self) -> list[int]:
        """Where each frame ends within `frames`; walked once, when first asked for."""
        if self._ends is None:
            frames = self.frames
            end = 0
            ends: list[int] = []
            for _ in self.ids:
                end += unpack_size(frames, end)[0] + 4
                ends.append(end)
            assert end == len(frames), "a run's frames and ids must agree"
            self._ends = ends
        return self._ends

    def slice(self, start: int, stop: int) -> "Run":
        """The messages from `start` up to but not including `stop`; 0 <= start < stop <= len."""
        if start == 0 and stop == len(self.ids):
            return self
        ends = self.ends()
        return Run(self.frames[ends[start - 1] if start else 0 : ends[stop - 1]], self.ids[start:stop])

    def count_within(self, start: int, bytes_max: int) -> int:
        """How many messages from `start` on fit in `bytes_max` bytes of frames."""
        if start == 0 and len(self.frames) <= bytes_max:
            return len(self.ids)
        ends = self.ends()
        return bisect_right(ends, (ends[start - 1] if start else 0) + bytes_max) - start

    def frame_at(self, index: int) -> bytes:
        """One message's frame."""
        ends = self.ends()
        return self.frames[ends[index - 1] if index else 0 : ends[index]]

    def timestamp_ns_at(self, index: int) -> int:
        """Publish time of one message, Unix nanoseconds."""
        start = self.ends()[index - 1] if index else 0
        timestamp_ns: int = unpack_timestamp(self.frames, start + TIMESTAMP_AT)[0]
        return timestamp_ns

    def select(self, indexes: Sequence[int]) -> "Run":
        """The messages at `indexes`, in that order."""
        return Run(b"".join([self.frame_at(index) for index in indexes]), [self.ids[index] for index in indexes])

    def for_next_attempt(self, ids: Sequence[bytes]) -> "Run":
        """The messages `ids` of this run (all its own, in any order) as frames of their next delivery.

        In the order of the run, whatever the order asked for.
        """
        wanted = set(ids)
        frames = [frame_with_next_attempt(self.frame_at(at)) for at, one in enumerate(self.ids) if one in wanted]
        return Run(b"".join(frames), [one for one in self.ids if one in wanted])

    def stored_records(self) -> tuple[bytes, list[int]]:
        """The messages as disk queue records, each with its 4-byte length, and each record's byte length."""
        records = [stored_from_frame(self.frame_at(index)) for index in range(len(self.ids))]
        parts: list[bytes] = []
        for record in records:
            parts += (_size_bytes(len(record)), record)
        return b"".join(parts), [len(record) + 4 for record in records]


def join_runs(runs: Sequence[Run]) -> Run:
    """One run of several, in order; the run itself when there is one."""
    if len(runs) == 1:
        return runs[0]
    ids: list[bytes] = []
    for run in runs:
        ids += run.ids
    return Run(b"".join([run.frames for run in runs]), ids)


def run_of_stored(messages: Iterable[bytes]) -> Run:
    """A run of messages read back from a disk queue, for their next delivery."""
    parts: list[bytes] = []
    ids: list[bytes] = []
    for stored in messages:
        attempts = min(int.from_bytes(stored[8:10], "big") + 1, 0xFFFF)
        parts += (
            _size_bytes(len(stored) + 4),
            b"\0\0\0\2",
            stored[:8],
            attempts.to_bytes(2, "big"),
            stored[10:],
        )
        ids.append(stored[10:26])
    return Run(b"".join(parts), ids)
