"""Where each message of one channel of a `log` topic stands, from the cursor on.

Each offset of the channel is in one of these places, and every move is one call:

    pending     at or beyond the cursor, which will hand it out: counted in `depth`
    skipped     beyond the cursor, which passes over it: deferred at publication, or handed out before its turn
    unsent      taken and not sent: at the very front
    returned    given back, or due: a line of its own; `ReturnOrder` decides when it goes before the cursor
    deferred    until its due time
    quarantined set aside until it is redriven (`progress/quarantine.py`)
    in flight   sent; delivery has it
    settled     finished: never delivered again

`sort` finds the places from the progress after a start, and `place_joined` those of messages that come back from the
trash.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice

from queue_engine.storage.log_store.channel_cursor import ChannelCursor
from queue_engine.storage.log_store.log_topic import LogTopic
from queue_engine.storage.log_store.offset_lines import DueOffsets, OffsetLine, Range
from queue_engine.storage.progress.joining import Joined, offsets_between, unsettled_ranges
from queue_engine.storage.progress.journaled_progress import JournaledProgress
from queue_engine.storage.progress.quarantine import without
from queue_engine.storage.return_order import ReturnOrder

# So many messages are placed in one step.
PLACED_AT_ONCE = 500


class ChannelPlaces:
    """The places of one channel. Belongs to the engine's thread. `LogBacklog` takes messages out of them and puts them
    back; lists, and acts on single messages, use them, too."""

    def __init__(self, topic: LogTopic, journaled: JournaledProgress) -> None:
        self.topic = topic
        self.journaled = journaled
        self.cursor = ChannelCursor(topic, journaled.progress.floor)
        self.unsent = OffsetLine()
        self.returned = OffsetLine()
        self.order = ReturnOrder(topic.memory_count_max)
        self.due = DueOffsets(topic.deferred_budget)
        self._forgot_count = 0  # how often all places were forgotten

    def forget_all(self) -> None:
        """Forget all but the cursor's offset and skipped ranges."""
        self._forgot_count += 1
        self.order.clear()
        self.journaled.attempts.forget_all()
        for forgotten in (
            self.unsent.clear(),
            self.returned.clear(),
            self.due.clear(),
            *self.journaled.ages.forget_all(),
        ):
            self.topic.next_turn.free(forgotten)

    # At a start.

    def sort(self) -> None:
        """Sort the messages that the channel had before a restart into their places."""
        topic, progress = self.topic, self.journaled.progress
        floor = progress.floor = max(progress.floor, topic.oldest_offset)
        passed_end = min(max(progress.cursor, floor), topic.end_offset)
        # No message has these offsets: skipped ones, and those of removed segments whose FINs a power cut undid.
        for first, count in topic.gaps_between(floor, passed_end):
            progress.settled(first, count)
        floor = progress.floor
        quarantined = progress.quarantined = {
            offset: one for offset, one in progress.quarantined.items() if offset >= floor
        }
        deferred_at_publish = dict(topic.deferred_between(floor, topic.released))
        undelivered = (
            [] if passed_end <= floor else without(progress.undelivered_between(floor, passed_end), quarantined)
        )
        cursor = self.cursor
        cursor.start_at(undelivered[0][0] if undelivered else passed_end)
        now_ns, moved = topic.time_ns(), progress.deferred
        waiting: list[tuple[int, int]] = []
        for first, count, made in progress.unsettled_between(floor, passed_end):
            parts = (
                without([(first, count)], offsets_between(quarantined, first, count))
                if quarantined
                else [(first, count)]
            )
            for start, length in parts:
                self.journaled.attempts.note(start, made)
                found = offsets_between(moved, start, length) if length > 1 else [start] if start in moved else ()
                found = [offset for offset in found if moved[offset] > now_ns]
                waiting += [(offset, moved[offset]) for offset in found]
                self._return_rest(start, length, found)
        # Offsets beyond the cursor that were handed out before.
        at = cursor.offset
        for first, count in undelivered:
            if first > at:
                cursor.skip(at, first - at)
            at = first + count
        if undelivered and passed_end > at:
            cursor.skip(at, passed_end - at)
        for offset in sorted(quarantined):
            if offset >= passed_end:
                cursor.skip(offset, 1)
        never_delivered = [
            (offset, moved.get(offset, due_ns))
            for offset, due_ns in deferred_at_publish.items()
            if progress.made_at(offset) == 0 and not progress.is_settled(offset) and offset not in quarantined
        ]
        cursor.skip_all([offset for offset, _ in never_delivered if offset >= cursor.offset])
        self._wait_or_return(waiting + never_delivered)
        self.journaled.ages.begin(topic.time_ns())

    def _return_rest(self, first: int, count: int, left_out: Iterable[int]) -> None:
        """Return messages but for these, ascending: they come before all others."""
        end = first + count
        for offset in left_out:
            if first < offset:
                self._return_first(first, offset - first)
            first = offset + 1
        if first < end:
            self._return_first(first, end - first)

    def _wait_or_return(self, dues: Sequence[tuple[int, int]]) -> None:
        """Let the due ones of these (offset, due Unix ns) wait, and defer the others. There may be a million."""
        now_ns, monotonic_ns = self.topic.time_ns(), self.topic.monotonic_of(0)
        for offset, due_ns in dues:
            if due_ns <= now_ns:
                self._return_first(offset, 1)
        self.due.put_all([(due_ns + monotonic_ns, offset, 1) for offset, due_ns in dues if due_ns > now_ns])

    def _return_first(self, first: int, count: int) -> None:
        """Return messages that were handed out before a restart, or are due: they come before all others."""
        self.returned.append(first, count)
        self.order.came_back(count, 0)

    def return_behind(self, first: int, count: int) -> None:
        """Return messages behind those that wait."""
        self.order.came_back(count, self.cursor.pending_count)
        self.returned.append(first, count)

    def note_deferred(self, offset: int, due_ns: int) -> None:
        """Defer an offset that was published with a due time (Unix ns), even one that is past: `release_due` counts
        it as released."""
        self.cursor.skip_one(offset)
        self.due.put(offset, 1, self.topic.monotonic_of(due_ns))

    def note_all_deferred(self, dues: Sequence[tuple[int, int]]) -> None:
        """The same of many (offset, due Unix ns), ascending, that are pending and not due."""
        self.cursor.skip_all([offset for offset, _ in dues])
        self._wait_or_return(dues)

    def return_all(self, ranges: list[Range]) -> int:
        total = 0
        for first, count in ranges:
            self.return_behind(first, count)
            total += count
        return total

    # The order.

    def heads(self, count_max: int) -> list[int]:
        """The next offsets, in the order in which `take` hands them out; nothing moves."""
        return list(islice(self.in_order(), count_max))

    def in_order(self) -> Iterator[int]:
        """All that waits, in the order in which `take` hands it out; nothing moves."""
        yield from self.unsent.offsets()
        returned, pending = self.returned.offsets(), self.cursor.offsets()
        passed = 0
        for ahead_count, count in self.order.plan():
            yield from islice(pending, ahead_count - passed)
            yield from islice(returned, count)
            passed = ahead_count
        yield from pending

    # Messages that come back from the trash.

    def place_joined(self, joined: Joined) -> Generator[None, None, None]:
        """Put the messages that `LogBacklog.join` brought back before all that wait, some with each step; other calls
        may come between. Ends early when the channel sorts all its messages again."""
        forgot_count = self._forgot_count
        dues: list[Range] = []
        for first, count in () if joined.has_settled else joined.returned:
            # Acts may have settled some of them since.
            for start, end in _parts(unsettled_ranges(self.journaled.progress, first, first + count)):
                dues += self._place_joined(start, end - start)
                self.topic.next_turn.request_log_work()
                yield
                if self._forgot_count != forgot_count:
                    return
        for at in range(0, len(dues), PLACED_AT_ONCE):
            self._wait_or_return(dues[at : at + PLACED_AT_ONCE])
            yield
            if self._forgot_count != forgot_count:
                return
        if dues or not joined.has_settled:
            yield from self.journaled.ages.beginning(self.topic.time_ns)
        self.topic.next_turn.request_log_work()

    def _place_joined(self, first: int, count: int) -> list[tuple[int, int]]:
        """Returns the offsets that have a due time, with it, ascending."""
        progress, end = self.journaled.progress, first + count
        for start, _, made in progress.unsettled_between(first, end):
            self.journaled.attempts.note(start, made)
        dues = {
            offset: due_ns
            for offset, due_ns in self.topic.deferred_between(first, end)
            if progress.made_at(offset) == 0
        } | {offset: progress.deferred[offset] for offset in offsets_between(progress.deferred, first, count)}
        quarantined = set(offsets_between(progress.quarantined, first, count))
        self._return_rest(first, count, sorted(dues.keys() | quarantined))
        return sorted((offset, due_ns) for offset, due_ns in dues.items() if offset not in quarantined)


def _parts(ranges: Iterable[Range]) -> Iterator[tuple[int, int]]:
    """Ranges (first, end) of these that are short enough for a step each."""
    for first, count in ranges:
        for start in range(first, first + count, PLACED_AT_ONCE):
            yield start, min(start + PLACED_AT_ONCE, first + count)
