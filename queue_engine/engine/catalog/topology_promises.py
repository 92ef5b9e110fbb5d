"""Numbers and offsets that topology.json reserves before the log uses them, and the log's identity.

It is ahead of the numbers that topics and channels get and of each topic's offsets, so that the log never has a record
whose number or offset a start would not know. It says once that the log carries the identity of this data directory.
The number of a deleted topic stays in it until the log has no record of that topic.
"""

import logging

from queue_engine.engine.catalog.stores import Stores
from queue_engine.engine.topology.change_log import ChangeLog
from queue_engine.engine.topology.log_guard import LogGuard, UnknownTopicsError
from queue_engine.engine.topology.topology import (
    Change,
    Topology,
    largest_msg_size_raised,
    log_joined,
    numbers_forgotten,
    numbers_reserved,
    numbers_unknown,
    offsets_reserved,
)
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError, TopologyError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.ticket import Ticket

logger = logging.getLogger(__name__)

# topology.json is at most so many ahead of the numbers that were given.
NUMBERS_AHEAD = 65_536
# How often numbers of deleted topics are forgotten.
FORGET_NS = 10 * NS_PER_S
# How often a log that had no segment yet is joined, and how often at most the log warns that it failed.
JOIN_NS = NS_PER_S
JOIN_WARNING_NS = 60 * NS_PER_S


class TopologyPromises:
    """Belongs to the engine's thread. changes: where they are written. guard: knows the log's identity."""

    def __init__(self, options: Options, clock: Clock, stores: Stores, changes: ChangeLog, guard: LogGuard) -> None:
        self._options = options
        self._clock = clock
        self._stores = stores
        self._changes = changes
        self._guard = guard
        self._next_number = 1
        self._promised_number = 1
        self._unknown: list[int] = []  # topic numbers that the log has, and that are let go
        self._gone_at: dict[int, int] = {}  # deleted number → position from which on the log has nothing of it
        self._is_reserving_due = False  # the disk refused it
        self._forget_ns = 0
        self._join_ns = 0
        self._join_warning_ns = 0

    def check(self, state: Topology, source: str) -> None:
        """Refuse a log that does not belong to `state`, which was read from `source`. Raises TopologyError."""
        self._guard.check(state, source)
        unknown = self._guard.unknown(state)
        if unknown and not self._options.drop_unknown_topics:
            raise UnknownTopicsError(unknown, self._guard.directory)
        for topic in unknown:
            logger.warning("unknown topic let go (--drop-unknown-topics) %s", topic.sentence())
        self._unknown = [topic.number for topic in unknown]
        self._next_number = max([state.next_number, *(number + 1 for number in self._unknown)])

    def begin(self) -> None:
        """Every queue is open: reserve the numbers and offsets that may be given from now on."""
        reserving = self._stores.reserving()
        self._promised_number = self._next_number + NUMBERS_AHEAD
        changes = [numbers_reserved(self._promised_number)]
        if self._options.max_msg_size > self._changes.state.largest_msg_size:
            # Larger messages may come than ever before; a later start needs the limit to read the queues.
            changes.append(largest_msg_size_raised(self._options.max_msg_size))
        if reserving:
            changes.append(offsets_reserved(reserving))
        if self._unknown:
            changes.append(numbers_unknown(self._unknown))
        try:
            self._changes.begin(changes)
        except TopologyError as exc:
            # No room, perhaps: the messages there can be consumed, and the write is tried again.
            logger.error("topology not written error=%s", exc)
            self._is_reserving_due = True
        else:
            self._stores.reserved(reserving)
            self._stores.remove_deleted_progress()
            self._append_joined()

    def finish(self, state: Topology) -> None:
        """A clean stop: promise nothing ahead."""
        state.next_number = self._next_number

    def tick(self, now_ns: int) -> None:
        """Retry a write that the disk refused, and forget numbers without records in the log. now_ns: monotonic."""
        if self._is_reserving_due and self._changes.error is None:
            self.reserve_offsets()
        if now_ns >= self._join_ns and self._changes.error is None:
            self._join_ns = now_ns + JOIN_NS
            self._append_joined()
        if self._changes.state.deleted and now_ns >= self._forget_ns:
            self._forget_ns = now_ns + FORGET_NS
            self._forget_deleted()

    def take_number(self) -> int:
        """The number of a new topic or channel."""
        number = self._next_number
        self._next_number += 1
        if self._next_number > self._promised_number:
            self._promised_number = self._next_number + NUMBERS_AHEAD
            self._changes.append(numbers_reserved(self._promised_number))
        return number

    def reserve_offsets(self) -> None:
        """A topic of the log needs more offsets."""
        self._is_reserving_due = False
        reserving = self._stores.reserving()

        def settled(done: Ticket) -> None:
            if done.error is None:
                self._stores.reserved(reserving)
            else:
                self._is_reserving_due = True

        if reserving:
            self._changes.append(offsets_reserved(reserving)).when_done(settled)

    def join_log(self) -> list[Change]:
        """Write the identity of this data directory into the log where that is due; the entries of topology.json that
        must come then."""
        state = self._changes.state
        if (state.has_log and self._guard.is_joined) or not state.identity or self._stores.log is None:
            return []
        try:
            if not self._guard.has_segments:
                return []  # no room for one yet; a log that says whose it is has one
            self._guard.join(state.identity)
        except (OSError, StorageError) as exc:
            # It is tried again with the next topic, each second, and at the next start.
            now_ns = self._clock.monotonic_ns()
            if now_ns >= self._join_warning_ns:
                self._join_warning_ns = now_ns + JOIN_WARNING_NS
                logger.warning("identity of the log not written error=%s", exc)
            return []
        return [] if state.has_log else [log_joined()]

    def _append_joined(self) -> None:
        if joined := self.join_log():
            self._changes.append(*joined)

    def _forget_deleted(self) -> None:
        """Forget numbers of deleted topics of which the log can't have a record any more."""
        log = self._stores.log
        if log is None:
            return
        gone: list[int] = []
        for number in self._changes.state.deleted:
            gone_at = self._gone_at.setdefault(number, log.unused_position)
            if log.has_no_records_of(number, before=gone_at):
                gone.append(number)
        if gone:
            for number in gone:
                del self._gone_at[number]
            self._changes.append(numbers_forgotten(gone))
