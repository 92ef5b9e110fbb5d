"""Quarantine: messages of a channel that are set aside, because they were delivered too often or by an operator's act.

A quarantined message is neither waiting nor in flight nor deferred, is not delivered until it is redriven, and keeps
its segment. The progress lists these messages, as durably as a FIN. Where a limit is reached nothing is dropped:
messages wait again as without a quarantine, and `is_full` says so.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from queue_engine.storage.progress.channel_progress import Quarantined
from queue_engine.storage.progress.journaled_progress import JournaledProgress
from queue_engine.storage.progress.return_history import BYTES_MAX, MADE_MIN, ReturnEvent, ReturnHistory
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineLimits, QuarantineStats
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.flow.return_reason import COUNTS_AGAINST, ReturnReason, reason_text

# Of all channels of one log: each takes some 300 bytes of memory.
TOTAL_MAX = 200_000

Range = tuple[int, int]
"""(first offset, count)."""


class QuarantineTotals:
    """The count and limits that all channels of one log share. count: quarantined messages. changes: rises with each
    that comes or goes."""

    def __init__(self, limits: QuarantineLimits) -> None:
        self.limits = limits
        self.history_budget = ByteBudget(BYTES_MAX)
        self.count = 0
        self.changes = 0


class ChannelQuarantine:
    """One channel's. max_attempts: deliveries after which a message that comes back is quarantined; 0: off."""

    __slots__ = ("_bytes", "_count", "_has_refused", "_journaled", "_stats", "_totals", "history", "max_attempts")

    def __init__(self, journaled: JournaledProgress, totals: QuarantineTotals) -> None:
        self.max_attempts = 0
        self.history = ReturnHistory(totals.history_budget)
        journaled.history = self.history
        self._journaled = journaled
        self._totals = totals
        self._count = 0  # that `_bytes` is the sum of
        self._bytes = 0
        self._has_refused = False  # one that found no room, since one left
        self._stats: tuple[tuple[int, int, int], QuarantineStats] | None = None  # and the values they depend on

    # Figures.

    @property
    def count(self) -> int:
        return len(self._journaled.progress.quarantined)

    @property
    def bytes(self) -> int:
        """Of their bodies."""
        self._recount()
        return self._bytes

    def stats(self) -> QuarantineStats:
        if not self.count and not self.max_attempts:
            return NO_QUARANTINE
        cached = self._stats
        key = self._totals.changes, self.count, self.max_attempts
        if cached is None or cached[0] != key:
            held = self._journaled.progress.quarantined
            oldest_ns = min((one.since_ns for one in held.values()), default=None)
            counts = Counter(one.reason for one in held.values()).most_common()
            reasons = tuple((reason_text(reason), count) for reason, count in counts)
            made = QuarantineStats(self.max_attempts, self.count, self.bytes, oldest_ns, self.full_reason(), reasons)
            cached = self._stats = (self._totals.changes, self.count, self.max_attempts), made
        return cached[1]

    def _recount(self) -> None:
        """Messages also leave when they are finished or dropped: then the sum is made anew."""
        held = self._journaled.progress.quarantined
        if len(held) != self._count:
            self._bytes = sum([one.body_bytes for one in held.values()])
            self._note_count(len(held))
            self._has_refused = False

    def _note_count(self, count: int) -> None:
        if count == self._count:
            return
        self._totals.count += count - self._count
        self._totals.changes += 1
        self._count = count

    def full_reason(self) -> str:
        """Which limit is reached, as a sentence's part; "" when there is room."""
        limits, count, size = self._totals.limits, self.count, self.bytes
        if count >= limits.count_max:
            return f"{count} messages are quarantined and the most is {limits.count_max} (--quarantine-max-count)"
        if self._totals.count >= TOTAL_MAX:
            return f"{self._totals.count} messages of all channels are quarantined and the most is {TOTAL_MAX}"
        if size >= limits.bytes_max or self._has_refused:
            return f"quarantined messages take {size} bytes and the most is {limits.bytes_max} (--quarantine-max-bytes)"
        return ""

    def _has_room(self, count: int = 1) -> bool:
        return len(self._journaled.progress.quarantined) + count <= self._totals.limits.count_max and (
            self._totals.count + count <= TOTAL_MAX
        )

    def has(self, offset: int) -> bool:
        return offset in self._journaled.progress.quarantined

    def histories(self) -> dict[int, list[ReturnEvent]]:
        """By offset, of those that are quarantined."""
        held = self._journaled.progress.quarantined
        return {offset: list(events) for offset, events in self.history.by_offset.items() if offset in held}

    # Changes.

    def came_back(
        self,
        ranges: list[Range],
        event: ReturnEvent,
        body_bytes_of: Callable[[int], int],
    ) -> list[Range]:
        """Messages came back from a consumer: note why, quarantine those that were delivered too often, and return the
        others."""
        progress, history = self._journaled.progress, self.history
        least = self.max_attempts if event.reason in COUNTS_AGAINST else 0
        noted_from = min(MADE_MIN, least or MADE_MIN)
        # Nearly always no message was delivered twice: one look at a page decides for a whole range.
        if all(progress.most_made(first, count) < noted_from for first, count in ranges):
            return ranges
        left: list[Range] = []
        for first, count in ranges:
            while count:
                made, alike = self._journaled.alike(first, count)
                is_worn = 0 < least <= made
                for offset in range(first, first + alike) if is_worn or made >= MADE_MIN else ():
                    if made >= MADE_MIN:
                        history.note(offset, event)
                    if is_worn and not (self._has_room() and self.set_aside(offset, event, body_bytes_of(offset))):
                        left.append((offset, 1))
                if not is_worn:
                    left.append((first, alike))
                first += alike
                count -= alike
        return left

    def has_room_for(self, body_bytes: int, count: int) -> bool:
        """body_bytes: of so many messages together."""
        return self._has_room(count) and self.bytes + body_bytes <= self._totals.limits.bytes_max

    def set_aside(self, offset: int, event: ReturnEvent, body_bytes: int) -> bool:
        """Quarantine a message that its line, or delivery, has given up; False when there is no room for it."""
        self._recount()
        if not self._has_room():
            return False
        if self._bytes + body_bytes > self._totals.limits.bytes_max:
            self._has_refused = True
            self._totals.changes += 1
            return False
        self._journaled.quarantine(offset, Quarantined(event.time_ns, event.reason, min(body_bytes, 0xFFFF_FFFF)))
        self._bytes += body_bytes
        self._note_count(self._count + 1)
        return True

    def redrive(self, offset: int, now_ns: int, *, keeps_attempts: bool) -> bool:
        """Let a quarantined message wait again; the caller puts it into its line. False when it is not quarantined.
        now_ns: Unix."""
        held = self._journaled.progress.quarantined.get(offset)
        if held is None:
            return False
        self._recount()
        self._journaled.redriven(offset, now_ns, keeps_attempts=keeps_attempts)
        self._bytes -= held.body_bytes
        self._note_count(self._count - 1)
        self._has_refused = False
        return True

    def due_by_age(self, now_ns: int, count_max: int) -> list[int]:
        """Those that were quarantined longer ago than the limit. now_ns: Unix."""
        age_ms_max = self._totals.limits.age_ms_max
        held = self._journaled.progress.quarantined
        if not age_ms_max or not held:
            return []
        latest = now_ns - age_ms_max * 1_000_000
        return [offset for offset, one in held.items() if one.since_ns <= latest][:count_max]

    def forget(self) -> None:
        """The channel is gone."""
        self.history.forget_all()
        self._note_count(0)


def without(ranges: Iterable[Range], left_out: Iterable[int]) -> list[Range]:
    """The ranges, ascending, without these offsets."""
    parts: list[Range] = []
    out = iter(sorted(left_out))
    next_out = next(out, None)
    for first, count in ranges:
        end = first + count
        while next_out is not None and next_out < end:
            if next_out >= first:
                if next_out > first:
                    parts.append((first, next_out - first))
                first = next_out + 1
            next_out = next(out, None)
        if first < end:
            parts.append((first, end - first))
    return parts


def operator_event(now_ns: int) -> ReturnEvent:
    return ReturnEvent(now_ns, ReturnReason.BY_OPERATOR, "")
