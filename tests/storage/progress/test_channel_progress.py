"""A channel's progress against the plainest model there is: a dict of offsets."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from queue_engine.storage.progress.channel_progress import ChannelProgress, Quarantined


def test_a_channel_that_settles_in_order_keeps_no_page() -> None:
    progress = ChannelProgress()
    for first in range(0, 10_000, 100):
        progress.delivered(first, 100, 1)
        progress.settled(first, 100)
    assert (progress.floor, progress.cursor) == (10_000, 10_000)
    assert len(progress.pages) <= 1


def test_the_floor_passes_over_what_was_settled_before() -> None:
    progress = ChannelProgress()
    progress.delivered(0, 5_000, 1)
    progress.settled(1, 4_999)
    assert progress.floor == 0
    progress.settled(0, 1)
    assert (progress.floor, progress.cursor, len(progress.pages)) == (5_000, 5_000, 1)


def test_attempts_are_exact_beyond_what_a_byte_holds() -> None:
    progress = ChannelProgress()
    for made in (1, 252, 253, 254, 65_535):
        progress.delivered(7, 2, made)
        assert (progress.made_at(7), progress.made_at(8), progress.made_at(9)) == (made, made, 0)
    assert list(progress.unsettled_between(0, 100)) == [(7, 1, 65_535), (8, 1, 65_535)]
    progress.settled(7, 1)
    assert progress.many == {8: 65_535}


def test_what_the_cursor_jumped_over_is_known_as_one_range() -> None:
    progress = ChannelProgress()
    progress.delivered(10_000_000, 1, 1)
    assert list(progress.undelivered_between(0, 10_000_001)) == [(0, 10_000_000)]
    assert list(progress.unsettled_between(0, 10_000_001)) == [(10_000_000, 1, 1)]


def test_a_cut_forgets_what_lies_beyond() -> None:
    progress = ChannelProgress()
    progress.delivered(0, 3_000, 1)
    progress.deferred_until(2_500, 1, 1, 99)
    progress.settled(0, 2_000)
    assert progress.cut(2_400)
    assert (progress.floor, progress.cursor, progress.deferred) == (2_000, 2_400, {})
    assert list(progress.unsettled_between(0, 9_999)) == [(2_000, 48, 1), (2_048, 352, 1)]
    assert progress.cut(1_000)
    assert (progress.floor, progress.cursor) == (1_000, 1_000)
    assert not progress.cut(1_000)


class ProgressMachine(RuleBasedStateMachine):
    """Random progress over 3,000 offsets. The model: offset → deliveries made, settled offsets, due times, since when
    quarantined."""

    def __init__(self) -> None:
        super().__init__()
        self.progress = ChannelProgress()
        self.made: dict[int, int] = {}
        self.settled: set[int] = set()
        self.due: dict[int, int] = {}
        self.aside: dict[int, int] = {}

    places = st.integers(0, 2_999)
    lengths = st.sampled_from([1, 1, 3, 200, 1_500])

    def _open(self, first: int, count: int) -> list[tuple[int, int]]:
        """The ranges among these that are neither settled nor quarantined."""
        ranges: list[tuple[int, int]] = []
        for offset in range(first, min(first + count, 3_000)):
            if offset in self.settled or offset in self.aside:
                continue
            if ranges and sum(ranges[-1]) == offset:
                ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
            else:
                ranges.append((offset, 1))
        return ranges

    @rule(first=places, count=lengths, made=st.sampled_from([1, 1, 2, 253, 300]))
    def deliver(self, first: int, count: int, made: int) -> None:
        for start, length in self._open(first, count):
            self.progress.delivered(start, length, made)
            for offset in range(start, start + length):
                self.made[offset] = made
                self.due.pop(offset, None)

    def _settle(self, offsets: range) -> None:
        for offset in offsets:
            self.settled.add(offset)
            for known in (self.made, self.due, self.aside):
                known.pop(offset, None)

    @rule(first=places, count=lengths)
    def settle(self, first: int, count: int) -> None:
        end = min(first + count, 3_000)
        if not self.settled.isdisjoint(range(first, end)):
            return
        self.progress.settled(first, end - first)
        self._settle(range(first, end))

    @rule(offset=places, since=st.integers(0, 9))
    def quarantine(self, offset: int, since: int) -> None:
        if offset not in self.settled:
            self.progress.quarantine(offset, self.progress.made_at(offset), Quarantined(since, 1, 7))
            self.aside[offset] = since
            self.due.pop(offset, None)

    @rule(nth=st.integers(0, 9), keeps=st.booleans())
    def redrive(self, nth: int, keeps: bool) -> None:
        for offset in sorted(self.aside)[nth : nth + 1]:
            made = self.made.get(offset, 0) if keeps else 0
            self.progress.redriven(offset, made)
            del self.aside[offset]
            self.made.pop(offset, None)
            self.made |= {offset: made} if made else {}
            self.due[offset] = 0

    @rule(first=places, made=st.sampled_from([0, 1, 2]), due=st.integers(0, 9))
    def defer(self, first: int, made: int, due: int) -> None:
        for start, length in self._open(first, 1):
            self.progress.deferred_until(start, length, made, due)
            self.due[start] = due
            if made:
                self.made[start] = made

    @rule(first=places, count=lengths)
    def requeue(self, first: int, count: int) -> None:
        for start, length in self._open(first, count):
            self.progress.requeued(start, length)
            for offset in range(start, start + length):
                self.due.pop(offset, None)

    @rule(upto=places)
    def empty(self, upto: int) -> None:
        self.progress.emptied(upto)
        self._settle(range(upto))

    @rule(to=places)
    def seek(self, to: int) -> None:
        self.progress.sought(to, self.progress.epoch + 1)
        self.settled = set(range(to))
        self.made.clear()
        self.due.clear()
        self.aside.clear()

    @invariant()
    def both_agree(self) -> None:
        progress = self.progress
        floor = next(offset for offset in range(3_001) if offset not in self.settled)
        assert progress.floor == floor
        assert {offset for offset in range(3_000) if progress.is_settled(offset)} == self.settled
        assert [progress.made_at(offset) for offset in range(floor, 3_000)] == [
            self.made.get(offset, 0) for offset in range(floor, 3_000)
        ]
        assert progress.deferred == self.due
        assert {offset: one.since_ns for offset, one in progress.quarantined.items()} == self.aside
        delivered = {
            offset: made
            for first, count, made in progress.unsettled_between(0, 3_000)
            for offset in range(first, first + count)
        }
        assert delivered == self.made
        untouched = [
            offset for first, count in progress.undelivered_between(0, 3_000) for offset in range(first, first + count)
        ]
        assert untouched == [
            offset for offset in range(progress.cursor) if offset not in self.settled and offset not in self.made
        ]
        assert progress.cursor >= max([floor, *(offset + 1 for offset in (*self.settled, *self.made))])


ProgressMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
TestProgressMachine = ProgressMachine.TestCase
