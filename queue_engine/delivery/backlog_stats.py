"""A channel's backlog for its stats, read as far as the disk allows.

Reading never fails: a count that can't be read now is the last one, any other value is None. While the backlog's
`stats_sign` stays, the last values are returned again, but for the bytes on disk: stats read thousands of channels, of
which few change.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from queue_engine.delivery.in_flight import InFlightTable
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineStats
from queue_engine.storage.store import Backlog
from queue_engine.vocabulary.errors import StorageError


class BacklogStats(NamedTuple):
    """The fields of `ChannelStats` with these names."""

    depth: int
    backend_depth: int
    deferred_count: int
    message_count: int
    quarantine: QuarantineStats
    oldest_ns: int | None
    next_due_ns: int | None
    latest_due_ns: int | None
    disk_bytes: int | None
    attempts_max: int
    attempts_max_id: str
    unreadable: str


class BacklogStatsReader:
    """Reads the stats of one channel's backlog. stop: fences it after an unexpected error, called with the failed step
    and the error."""

    def __init__(self, backlog: Backlog, in_flight: InFlightTable, stop: Callable[[str, Exception], object]) -> None:
        self._backlog = backlog
        self._in_flight = in_flight
        self._stop = stop
        self._counts = (0, 0, 0, 0)  # the last that could be read
        self._cached: tuple[Hashable, BacklogStats] | None = None  # with the backlog's sign at that time

    def waiting_and_deferred(self) -> tuple[int, int]:
        try:
            return self._backlog.depth, self._backlog.deferred_count
        except Exception as exc:
            self._stop("counting waiting messages", exc)
            return self._counts[0], self._counts[2]

    def read(self, unreadable: str) -> BacklogStats:
        """unreadable: why the disk refuses the channel, as far as the caller knows. The same object as before while
        nothing changed."""
        try:
            sign = None if unreadable else self._backlog.stats_sign()
        except Exception as exc:
            self._stop("making its stats", exc)
            sign = None
        cached = self._cached
        if sign is not None and cached is not None and cached[0] == sign:
            same = self._with_disk_bytes(cached[1])
            if same is not None:
                self._cached = sign, same
                return same
        self._cached = None
        stats = self._read_all(unreadable)
        # A search for the oldest message that found none, where there are some, goes on at the next look.
        is_whole = stats.oldest_ns is not None or not (stats.depth or len(self._in_flight))
        if sign is not None and is_whole and not stats.unreadable and stats.disk_bytes is not None:
            self._cached = sign, stats
        return stats

    def _with_disk_bytes(self, stats: BacklogStats) -> BacklogStats | None:
        """The same object while they are the same; None when they can't be read. They alone grow with the messages of
        other topics write into the log: for them nothing else is read again."""
        try:
            disk_bytes = self._backlog.disk_bytes()
        except Exception:
            return None  # reading all of it says why
        return stats if disk_bytes == stats.disk_bytes else stats._replace(disk_bytes=disk_bytes)

    def _read_all(self, unreadable: str) -> BacklogStats:
        backlog = self._backlog
        try:
            counts = backlog.depth, backlog.backend_depth, backlog.deferred_count, backlog.message_count
            self._counts = counts
        except Exception as exc:
            counts = self._counts
            self._stop("counting waiting messages", exc)
        attempts, attempts_id = 0, b""
        oldest_ns = None
        quarantine = NO_QUARANTINE
        try:
            quarantine = backlog.quarantine_stats()
            oldest_ns = self._oldest_ns()
        except StorageError as exc:
            unreadable = unreadable or str(exc)
        except Exception as exc:
            self._stop("looking for its oldest message", exc)
        try:
            disk_bytes: int | None = backlog.disk_bytes()
            next_due_ns, latest_due_ns = backlog.next_due_ns(), backlog.latest_due_ns()
            attempts, attempts_id = backlog.most_attempts()
        except StorageError as exc:
            disk_bytes = next_due_ns = latest_due_ns = None
            unreadable = unreadable or str(exc)
        except Exception as exc:
            disk_bytes = next_due_ns = latest_due_ns = None
            self._stop("making its stats", exc)
        return BacklogStats(
            *counts,
            quarantine,
            oldest_ns,
            next_due_ns,
            latest_due_ns,
            disk_bytes,
            attempts,
            attempts_id.decode("ascii", "replace"),
            unreadable,
        )

    def _oldest_ns(self) -> int | None:
        """As `Backlog.oldest_ns`, with the messages in flight."""
        oldest_ns = self._backlog.oldest_ns()
        if self._backlog.can_reread:
            return oldest_ns
        held_ns = self._in_flight.oldest_ns(self._backlog.aged_by_due)
        return min((time_ns for time_ns in (oldest_ns, held_ns) if time_ns is not None), default=None)
