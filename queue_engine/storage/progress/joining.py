"""Joins the progress of a channel in the trash with that of the living channel of its name.

Both are of one topic. `upto` is the offset where the living one begins to speak for itself: where it began, when the
other was deleted before; where it was emptied, when the other has its messages from then. With U for "not settled":

    before `upto`             U where either is U: the living one was never given these messages, or gave them up
    from `upto` on            U where both are U: a message that either finished stays finished

Attempts and due times are the greater of both; a message quarantined in either is quarantined. An act that gives the
living one messages before `upto` by other means, such as a rewind, settles them in the one in the trash.
"""

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from queue_engine.storage.progress.channel_progress import MADE_MAX, PAGE_OFFSETS, SETTLED, ChannelProgress
from queue_engine.vocabulary.pieces import whole

# Settled in one step: 256 pages, well below a millisecond.
PIECE_OFFSETS = PAGE_OFFSETS * 256
SPAN_OFFSETS_MIN = 2_048
SPANS_MAX = 1_000


@dataclass(slots=True)
class Joined:
    """progress: of both. returned: ranges (first, count) that the living one had settled and that wait again,
    ascending. has_settled: whether messages that the living one has not finished are settled now."""

    progress: ChannelProgress
    returned: list[tuple[int, int]] = field(default_factory=list)
    has_settled: bool = False


def join(
    trashed: ChannelProgress,
    living: ChannelProgress,
    upto: int,
    *,
    oldest: int,
    gaps: Sequence[tuple[int, int]] = (),
) -> Joined:
    """`joining` in one go."""
    return whole(joining(trashed, living, upto, oldest=oldest, gaps=gaps))


def joining(
    trashed: ChannelProgress,
    living: ChannelProgress,
    upto: int,
    *,
    oldest: int,
    gaps: Sequence[tuple[int, int]] = (),
) -> Generator[None, None, Joined]:
    """Neither is changed; `living` may change from the first step on, `trashed` may not. oldest: the first offset that
    exists. gaps: ranges (first, count) without a message, ascending. Yields after each range, and within long ones."""
    joined = living.copy()
    joined.epoch = max(living.epoch, trashed.epoch) + 1
    result = Joined(joined)
    floor = max(trashed.floor, oldest)
    if floor < upto:
        settled_end = joined.floor
        yield from _lowering_floor(joined, min(floor, joined.floor))
        # A gap may be millions of offsets long: the other one's offsets in it are not read.
        for present, end in _between(gaps, floor, upto):
            for first, count in unsettled_ranges(trashed, present, end):
                yield from _bring_back(result, trashed, first, count)
        for first, count in gaps:
            for start, end in _pieces(max(first, settled_end), first + count):
                joined.settled(start, end - start)
                yield
        result.returned = yield from _without(result.returned, joined)
    # Messages that the other one finished from `upto` on.
    if trashed.floor > upto:
        _settle(result, upto, trashed.floor - upto)
    for first, count in trashed.settled_between(max(upto, trashed.floor), trashed.cursor):
        _settle(result, first, count)
        yield
    joined.level()
    return result


def _settle(result: Joined, first: int, count: int) -> None:
    if result.progress.first_unsettled(first, first + count) < first + count:
        result.has_settled = True
        result.progress.settled(first, count)


def unsettled_ranges(progress: ChannelProgress, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Ranges (first, count) that are not settled, delivered or not; nothing at or beyond the cursor is."""
    at = max(first, progress.floor)
    for start, count in chain(progress.settled_between(at, end), [(end, 0)]):
        if at < start:
            yield at, start - at
        at = start + count


def _between(gaps: Sequence[tuple[int, int]], first: int, end: int) -> Iterator[tuple[int, int]]:
    """Ranges (first, end) of these offsets beside the gaps, ascending."""
    for gap, count in gaps:
        if first < min(gap, end):
            yield first, min(gap, end)
        first = max(first, gap + count)
    if first < end:
        yield first, end


def _pieces(first: int, end: int) -> Iterator[tuple[int, int]]:
    """The range as ranges (first, end) that are short enough for a step each."""
    while first < end:
        yield first, min(first + PIECE_OFFSETS, end)
        first += PIECE_OFFSETS


def _lowering_floor(progress: ChannelProgress, floor: int) -> Generator[None, None, None]:
    """Settle, one by one, the offsets between `floor` and the present floor, which then is `floor`."""
    end, progress.floor = progress.floor, floor
    for start, piece_end in _pieces(floor, end):
        _put(progress, start, piece_end, SETTLED)
        yield


def _put(progress: ChannelProgress, first: int, end: int, value: int) -> None:
    pages = progress.pages
    while first < end:
        number, at = divmod(first, PAGE_OFFSETS)
        stop = min(PAGE_OFFSETS, at + end - first)
        page = pages.get(number)
        if page is None:
            page = pages[number] = bytearray(PAGE_OFFSETS)
        page[at:stop] = bytes([value]) * (stop - at)
        first += stop - at


def _bring_back(result: Joined, trashed: ChannelProgress, first: int, count: int) -> Generator[None, None, None]:
    """Have a range that the one in the trash has not settled wait in the joined progress."""
    joined, end = result.progress, first + count
    # The offsets behind the one it is at are put back while it goes on.
    for start, length in joined.settled_between(first, min(end, joined.cursor)):
        _put(joined, start, start + length, 0)
        result.returned.append((start, length))
        yield
    if end > joined.cursor:
        joined.cursor = end
    for start, length, made in trashed.unsettled_between(first, end):
        for offset in range(start, start + length):
            if made > joined.made_at(offset):
                _put(joined, offset, offset + 1, min(made, MADE_MAX))
                if made > MADE_MAX:
                    joined.many[offset] = made
        yield
    for offset in offsets_between(trashed.quarantined, first, count):
        joined.quarantined.setdefault(offset, trashed.quarantined[offset])
    for offset in offsets_between(trashed.deferred, first, count):
        joined.deferred[offset] = max(trashed.deferred[offset], joined.deferred.get(offset, 0))
    yield


def spans(first: int, end: int) -> Iterator[tuple[int, int]]:
    """The range as ranges (first, end), a thousand at most, for a look at single messages of each in a step."""
    step = max(SPAN_OFFSETS_MIN, (end - first) // SPANS_MAX)
    for start in range(first, end, step):
        yield start, min(start + step, end)


def offsets_between(offsets: Collection[int], first: int, count: int) -> list[int]:
    """Those of `offsets`, a set or dict, in a range of `count` offsets, ascending. Loops over the smaller of the
    two."""
    if count < len(offsets):
        return [offset for offset in range(first, first + count) if offset in offsets]
    return sorted(offset for offset in offsets if first <= offset < first + count)


def _without(
    ranges: Sequence[tuple[int, int]], progress: ChannelProgress
) -> Generator[None, None, list[tuple[int, int]]]:
    """The parts of these ranges that are not settled, which follow each other as one."""
    found: list[tuple[int, int]] = []
    for first, count in ranges:
        for start, length in unsettled_ranges(progress, first, first + count):
            if found and sum(found[-1]) == start:
                found[-1] = (found[-1][0], found[-1][1] + length)
            else:
                found.append((start, length))
        yield
    return found
