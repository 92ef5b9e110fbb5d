"""Messages of a disk queue's channel whose age runs from the time they were due, not from their publication."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from queue_engine.vocabulary.run import Run

# So many of one channel are remembered; the age of others runs from their publication.
REMEMBERED_MAX = 65_536


class DueTimes:
    """Messages whose due time has passed and that are unfinished: id → due time, in Unix ns."""

    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since: OrderedDict[bytes, int] = OrderedDict()  # in the order of due times

    def __contains__(self, message_id: object) -> bool:
        return message_id in self.since

    def note(self, ids: Iterable[bytes], due_ns: int) -> None:
        """Messages were deferred until `due_ns`. Must be called in the order of due times."""
        if len(self.since) < REMEMBERED_MAX:
            self.since.update(dict.fromkeys(ids, due_ns))

    def forget(self, ids: Sequence[bytes]) -> None:
        """Messages are finished, or deferred anew. Callers skip it while `since` is empty."""
        for one in ids:
            self.since.pop(one, None)

    def forget_all(self) -> None:
        self.since.clear()

    def oldest_ns(self) -> int | None:
        """When the first of them was due."""
        return next(iter(self.since.values()), None)

    def oldest_of_others(self, run: Run) -> int | None:
        """The earliest publish time of the messages of `run` that are none of these; None when all are."""
        if not self.since or self.since.keys().isdisjoint(run.ids):
            return run.oldest_ns()
        return min((run.time_at(index) for index, one in enumerate(run.ids) if one not in self.since), default=None)
