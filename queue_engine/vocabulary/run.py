"""Batches come in, runs go out: many messages in one buffer, so that a message costs a slice and not a step.

A `Batch` has the messages of one publish command: bodies that share a publish time. A `Run` is messages in the
form that goes to a consumer, one frame behind the other, with their ids beside them. Both are immutable once
made, so every channel of a topic may share them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, groupby

from queue_engine.vocabulary.message import (
    ATTEMPTS_MAX,
    FRAME_HEADER_BYTES,
    FRAME_TYPE_MESSAGE,
    STORED_HEADER_BYTES,
    TIMESTAMP_AT,
    frame,
    frame_with_next_attempt,
    pack_frame_prefix,
    pack_stored_prefix,
    stored_from_frame,
    unpack_size,
    unpack_timestamp,
)

# Batches are assembled by loops of the interpreter in C: zip, map and join. Bytes that vary from message to message are
# looked up in these tables, which add missing entries; beyond their limit an entry is made and not stored.
_TABLE_ENTRIES_MAX = 1 << 16


class _StoredSizes(dict[int, bytes]):
    """Body length → the length that stands before a stored message, 4 bytes."""

    def __missing__(self, body_bytes: int) -> bytes:
        value = (body_bytes + STORED_HEADER_BYTES).to_bytes(4, "big")
        if len(self) < _TABLE_ENTRIES_MAX:
            self[body_bytes] = value
        return value


class _FrameStarts(dict[int, bytes]):
    """Body length → size and frame type, the 8 bytes a frame starts with."""

    def __missing__(self, body_bytes: int) -> bytes:
        value = (body_bytes + FRAME_HEADER_BYTES - 4).to_bytes(4, "big") + FRAME_TYPE_MESSAGE.to_bytes(4, "big")
        if len(self) < _TABLE_ENTRIES_MAX:
            self[body_bytes] = value
        return value


class _NextAttempts(dict[bytes, bytes]):
    """Deliveries made, 2 bytes → number of the next delivery, 2 bytes."""

    def __missing__(self, made: bytes) -> bytes:
        value = self[made] = min(int.from_bytes(made, "big") + 1, ATTEMPTS_MAX).to_bytes(2, "big")
        return value


_stored_size = _StoredSizes().__getitem__
_frame_start = _FrameStarts().__getitem__
_next_attempts = _NextAttempts().__getitem__


def _by_turns(*columns: Sequence[bytes]) -> bytes:
    """The first of every column, then the second of every column, and so on, in one buffer. All are of one length."""
    parts = [b""] * (len(columns) * len(columns[0]))
    for at, column in enumerate(columns):
        parts[at :: len(columns)] = column
    return b"".join(parts)


class Batch:
    """The messages of one publish: ids and bodies side by side, one publish time."""

    __slots__ = ("_is_even", "_run", "_stored", "bodies", "body_bytes", "body_sizes", "ids", "timestamp_ns")

    def __init__(self, timestamp_ns: int, ids: list[bytes], bodies: Sequence[bytes]) -> None:
        assert len(ids) == len(bodies) > 0
        self.timestamp_ns = timestamp_ns
        self.ids = ids
        self.bodies = bodies
        self.body_sizes = list(map(len, bodies))
        size = self.body_sizes[0]
        # Bodies of one size are put together with less work.
        self._is_even = self.body_sizes.count(size) == len(ids)
        self.body_bytes = size * len(ids) if self._is_even else sum(self.body_sizes)
        self._run: Run | None = None
        self._stored: tuple[bytes, list[int]] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def run(self) -> "Run":
        """The messages as frames of their first delivery; made once, shared by all channels."""
        if self._run is None and len(self.ids) == 1:
            self._run = Run(frame(self.timestamp_ns, 1, self.ids[0], self.bodies[0]), self.ids, self.timestamp_ns)
        elif self._run is None:
            # Timestamp and attempts are the same for the whole batch, and often the size.
            count = len(self.ids)
            first = _frame_start(self.body_sizes[0])
            middle = pack_frame_prefix(0, FRAME_TYPE_MESSAGE, self.timestamp_ns, 1)[TIMESTAMP_AT:]
            if self._is_even:
                self._run = Run(_by_turns([first + middle] * count, self.ids, self.bodies), self.ids, self.timestamp_ns)
                frame_bytes = self.body_sizes[0] + FRAME_HEADER_BYTES
                self._run.set_ends(range(frame_bytes, frame_bytes * count + 1, frame_bytes))
            else:
                starts = list(map(_frame_start, self.body_sizes))
                self._run = Run(_by_turns(starts, [middle] * count, self.ids, self.bodies), self.ids, self.timestamp_ns)
                self._run.set_sizes([size + FRAME_HEADER_BYTES for size in self.body_sizes])
        assert self._run is not None
        return self._run

    def stored_records(self) -> tuple[bytes, list[int]]:
        """The messages as disk queue records, each with its 4-byte length, and each record's byte length."""
        if self._stored is None:
            prefix = pack_stored_prefix(self.timestamp_ns, 0)
            if len(self.ids) == 1:
                record = _stored_size(self.body_bytes) + prefix + self.ids[0] + self.bodies[0]
                self._stored = record, [len(record)]
                return self._stored
            count = len(self.ids)
            if self._is_even:
                prefix = _stored_size(self.body_sizes[0]) + prefix
                records = _by_turns([prefix] * count, self.ids, self.bodies)
            else:
                records = _by_turns(list(map(_stored_size, self.body_sizes)), [prefix] * count, self.ids, self.bodies)
            self._stored = records, [size + STORED_HEADER_BYTES + 4 for size in self.body_sizes]
        return self._stored


class PublishTimes:
    """When the messages of a run were published, Unix ns: `counts` messages beside each other share each of `times`, so
    that a batch costs a step and not each message."""

    __slots__ = ("_ends", "_span", "counts", "times")

    def __init__(self, counts: list[int], times: list[int]) -> None:
        self.counts = counts
        self.times = times
        self._ends: list[int] | None = None
        self._span: tuple[int, int] | None = None

    def span(self) -> tuple[int, int]:
        """The first time and the last."""
        if self._span is None:
            self._span = min(self.times), max(self.times)
        return self._span

    def between(self, start: int, stop: int) -> list[tuple[int, int]]:
        """(count, time) of the messages from `start` up to but not including `stop`; start < stop."""
        if self._ends is None:
            self._ends = list(accumulate(self.counts))
        ends = self._ends
        first, last = bisect_right(ends, start), bisect_left(ends, stop)
        counts = self.counts[first : last + 1]
        counts[-1] -= ends[last] - stop
        counts[0] -= start - (ends[first] - self.counts[first])
        return list(zip(counts, self.times[first : last + 1], strict=True))


class Run:
    """Messages on their way to one consumer: `frames` holds them all, `ids` names them in the same order.

    The attempts in a frame are those of the delivery that the run makes. `published_ns` is the publish time that all
    messages share, Unix ns; None when they have several, or when it was not set: see `times`.
    """

    __slots__ = ("_ends", "_index", "_sizes", "_times", "frames", "ids", "published_ns")

    def __init__(
        self,
        frames: bytes,
        ids: list[bytes],
        published_ns: int | None = None,
        times: "PublishTimes | None" = None,
    ) -> None:
        """times: where they have several."""
        self.frames = frames
        self.ids = ids
        self.published_ns = published_ns
        self._ends: Sequence[int] | None = None
        self._sizes: list[int] | None = None
        self._times = times
        self._index: dict[bytes, int] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def set_sizes(self, sizes: list[int]) -> None:
        """Set the bytes of each frame, so that the frames need not be parsed."""
        self._sizes = sizes

    def set_ends(self, ends: Sequence[int]) -> None:
        """The same with the end of each frame."""
        self._ends = ends

    def ends(self) -> Sequence[int]:
        """Where each frame ends within `frames`; computed once, at the first call."""
        if self._ends is None and self._sizes is not None:
            self._ends = list(accumulate(self._sizes))
            self._sizes = None
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
        frames = self.frames[ends[start - 1] if start else 0 : ends[stop - 1]]
        return Run(frames, self.ids[start:stop], self.published_ns)

    def count_within(self, start: int, bytes_max: int) -> int:
        """How many messages from `start` on fit in `bytes_max` bytes of frames; 0 when the first of them does not.

        bytes_max: may be below 0, as the rest of a budget after a message that is larger than all of it.
        """
        if bytes_max <= 0:
            return 0
        if start == 0 and len(self.frames) <= bytes_max:
            return len(self.ids)
        ends = self.ends()
        return bisect_right(ends, (ends[start - 1] if start else 0) + bytes_max, start) - start

    def frame_at(self, index: int) -> bytes:
        """One message's frame."""
        ends = self.ends()
        return self.frames[ends[index - 1] if index else 0 : ends[index]]

    def select(self, indexes: Sequence[int]) -> "Run":
        """The messages at `indexes`, in that order."""
        frames = b"".join([self.frame_at(index) for index in indexes])
        return Run(frames, [self.ids[index] for index in indexes], self.published_ns)

    def times(self) -> "PublishTimes":
        """When its messages were published; as it was set, or read from the frames once."""
        if self._times is None:
            starts = [0, *self.ends()[:-1]]
            self._times = times_of([unpack_timestamp(self.frames, start + TIMESTAMP_AT)[0] for start in starts])
        return self._times

    def time_at(self, index: int) -> int:
        """When one message was published, Unix ns."""
        return self.published_ns if self.published_ns is not None else self.times().between(index, index + 1)[0][1]

    def oldest_ns(self) -> int:
        """The earliest publish time of its messages, Unix ns."""
        return self.published_ns if self.published_ns is not None else self.times().span()[0]

    def read_times(self) -> "PublishTimes | None":
        """The same; None when they have not been read from the frames."""
        return self._times

    def index(self) -> dict[bytes, int]:
        """The index of each id; made once."""
        if self._index is None:
            self._index = {message_id: index for index, message_id in enumerate(self.ids)}
        return self._index

    def for_next_attempt(self, ids: Sequence[bytes]) -> "Run":
        """The messages `ids` of this run (all its own, in any order) as frames of their next delivery.

        They come in the order of the run, not in that of `ids`.
        """
        if len(ids) == 1:
            one_frame = frame_with_next_attempt(self.frame_at(self.ids.index(ids[0])))
            return Run(one_frame, list(ids), self.published_ns)
        wanted = set(ids)
        frames = [frame_with_next_attempt(self.frame_at(at)) for at, one in enumerate(self.ids) if one in wanted]
        return Run(b"".join(frames), [one for one in self.ids if one in wanted], self.published_ns)

    def stored_records(self) -> tuple[bytes, list[int]]:
        """The messages as disk queue records, each with its 4-byte length, and each record's byte length."""
        messages = [stored_from_frame(self.frame_at(index)) for index in range(len(self.ids))]
        lengths = [len(message).to_bytes(4, "big") for message in messages]
        records = b"".join(chain.from_iterable(zip(lengths, messages, strict=True)))
        return records, [len(message) + 4 for message in messages]


class SentRun(Run):
    """A run in flight without its frames, which its store can read again: ids, publish times, and the bytes that the
    frames had in all."""

    __slots__ = ("frames_bytes",)

    def __init__(
        self, ids: list[bytes], published_ns: int | None, times: PublishTimes | None, frames_bytes: int
    ) -> None:
        super().__init__(b"", ids, published_ns, times)
        self.frames_bytes = frames_bytes

    @classmethod
    def of(cls, run: Run) -> "SentRun":
        times = run.times() if run.published_ns is None else None
        return cls(run.ids, run.published_ns, times, len(run.frames))

    def select(self, indexes: Sequence[int]) -> "Run":
        times = None
        if self.published_ns is None:
            times = times_of([self.time_at(index) for index in indexes])
        frames_bytes = self.frames_bytes * len(indexes) // len(self.ids)
        return SentRun([self.ids[index] for index in indexes], self.published_ns, times, frames_bytes)


def join_runs(runs: Sequence[Run]) -> Run:
    """One run of several, in order; the run itself when there is one."""
    if len(runs) == 1:
        return runs[0]
    ids: list[bytes] = []
    for run in runs:
        ids += run.ids
    return Run(b"".join([run.frames for run in runs]), ids, None, _joined_times(runs))


def _joined_times(runs: Sequence[Run]) -> PublishTimes | None:
    """When the messages of all runs were published; None when a run has not read its times yet."""
    counts = [len(run.ids) for run in runs]
    times = [run.published_ns for run in runs]
    if None not in times:
        return PublishTimes(counts, times)  # type: ignore[arg-type]  # looked at in one go: none of them is None
    joined = PublishTimes([], [])
    for run in runs:
        read = run.read_times()
        if run.published_ns is not None:
            joined.counts.append(len(run.ids))
            joined.times.append(run.published_ns)
        elif read is not None:
            joined.counts += read.counts
            joined.times += read.times
        else:
            return None
    return joined


def times_of(each: Sequence[int]) -> PublishTimes:
    """The publish times of messages one by one, those beside each other that are the same put together."""
    times = [(len(list(group)), time_ns) for time_ns, group in groupby(each)]
    return PublishTimes([count for count, _ in times], [time_ns for _, time_ns in times])


def run_of_stored(messages: Sequence[bytes]) -> Run:
    """A run of messages read back from a disk queue, for their next delivery."""
    body_sizes = [len(stored) - STORED_HEADER_BYTES for stored in messages]
    stamps = [stored[:8] for stored in messages]
    frames = _by_turns(
        list(map(_frame_start, body_sizes)),
        stamps,
        list(map(_next_attempts, [stored[8:10] for stored in messages])),
        [stored[10:] for stored in messages],
    )
    times = times_of([int.from_bytes(stamp, "big", signed=True) for stamp in stamps])
    run = Run(frames, [stored[10:26] for stored in messages], None, times)
    run.set_sizes([size + FRAME_HEADER_BYTES for size in body_sizes])
    return run
