"""Batches of the log that were written or read a moment ago, cached for the channels that deliver them next."""

from collections import OrderedDict
from collections.abc import Sequence

from queue_engine.vocabulary.run import Run

# Memory of a message beside its bytes: an id, a place in a list, a share of the batch.
_MESSAGE_COST_BYTES = 100
_BATCH_COST_BYTES = 400
_KEY_COST_BYTES = 40


class LoggedBatch:
    """One record's messages, as the frames of their first delivery.

    first, end: the offsets from `first` up to but not including `end`. damaged: offsets whose bodies are lost. keys: of
    each message, of no bytes for none; None when no message has one.
    """

    keys: Sequence[bytes] | None = None  # most batches have none: only `KeyedBatch` has the attribute

    __slots__ = ("cost_bytes", "damaged", "end", "first", "run", "time_ns", "used_round")

    def __init__(self, first: int, time_ns: int, run: Run, damaged: frozenset[int] = frozenset()) -> None:
        self.first = first
        count = len(run.ids)
        self.end = first + count
        self.cost_bytes = _BATCH_COST_BYTES + len(run.frames) + _MESSAGE_COST_BYTES * count
        self.time_ns = time_ns
        self.run = run
        self.damaged = damaged
        self.used_round = 0  # set by the cache


class KeyedBatch(LoggedBatch):
    """The same with keys."""

    __slots__ = ("keys",)

    def __init__(
        self, first: int, time_ns: int, run: Run, keys: Sequence[bytes], damaged: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(first, time_ns, run, damaged)
        self.keys = keys
        self.cost_bytes += sum(map(len, keys)) + _KEY_COST_BYTES * len(keys)


class BatchCache:
    """The batches used last, by their record's position; bounded in bytes, but for a single batch that is larger."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._batches: OrderedDict[int, LoggedBatch] = OrderedDict()
        self._round = 0

    def get(self, position: int) -> LoggedBatch | None:
        batch = self._batches.get(position)
        if batch is not None:
            self._batches.move_to_end(position)
            batch.used_round = self._round
        return batch

    def put(self, position: int, batch: LoggedBatch) -> None:
        """Cache a batch; drop those unused for the longest time."""
        batches = self._batches
        if position in batches:
            self._bytes -= batches.pop(position).cost_bytes
        batches[position] = batch
        batch.used_round = self._round
        self._bytes += batch.cost_bytes
        while self._bytes > self._bytes_max and len(batches) > 1:
            self._bytes -= batches.popitem(last=False)[1].cost_bytes

    def tidy(self) -> None:
        """Drop batches that were not used since the last call but one. Called every few seconds."""
        batches = self._batches
        while batches and next(iter(batches.values())).used_round < self._round:
            self._bytes -= batches.popitem(last=False)[1].cost_bytes
        self._round += 1
