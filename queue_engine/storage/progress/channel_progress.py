"""The progress of one channel: which offsets it delivered, deferred, quarantined and settled.

It is the same live and in a replay, and pure memory. Every offset below the floor is settled. Each offset from the
floor to the cursor has a byte in a page of 1,024: the number of its deliveries, or that it is settled (RabbitMQ's
publish, deliver and ack marks, in one byte). Pages are made when first needed and dropped when the floor has passed
them, so an idle channel costs almost nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

PAGE_OFFSETS = 1_024
SETTLED = 255
# Deliveries that fit in the byte; `many` has the number of a message with more.
MADE_MAX = 253

_MADE_ONE = bytes([1]) * PAGE_OFFSETS
_SETTLED_PAGE = bytes([SETTLED]) * PAGE_OFFSETS

Pages = dict[int, bytearray]


class Quarantined(NamedTuple):
    """One message that is set aside. since_ns: Unix. reason: as of `return_reason.py`. body_bytes: 0 when unknown."""

    since_ns: int
    reason: int
    body_bytes: int


class ChannelProgress:
    """floor: all below is settled. cursor: nothing from here on was ever delivered or settled. deferred: offset → the
    time before which it is not delivered (Unix ns; 0: at once). quarantined: offsets that are not delivered until they
    are redriven. epoch: how often the channel was rewound."""

    __slots__ = ("cursor", "deferred", "epoch", "floor", "many", "pages", "quarantined")

    def __init__(self, floor: int = 0, cursor: int | None = None, epoch: int = 0) -> None:
        self.floor = floor
        self.cursor = floor if cursor is None else cursor
        self.epoch = epoch
        self.pages: Pages = {}
        self.many: dict[int, int] = {}  # deliveries made, where they are more than MADE_MAX
        self.deferred: dict[int, int] = {}
        self.quarantined: dict[int, Quarantined] = {}

    # Changes.

    def delivered(self, first: int, count: int, made: int) -> None:
        """Note offsets as delivered; `made` counts their deliveries, this one included."""
        self._mark(first, count, made)
        if self.deferred:
            for offset in range(first, first + count):
                self.deferred.pop(offset, None)

    def deferred_until(self, first: int, count: int, made: int, due_ns: int) -> None:
        """Note that offsets are not delivered before `due_ns` (Unix; 0: at once), after `made` deliveries."""
        if made:
            self._mark(first, count, made)
        for offset in range(max(first, self.floor), first + count):
            if not self.is_settled(offset):
                self.deferred[offset] = due_ns

    def requeued(self, first: int, count: int) -> None:
        """Note that offsets wait again, at once."""
        if self.deferred:
            for offset in range(first, first + count):
                self.deferred.pop(offset, None)

    def quarantine(self, offset: int, made: int, quarantined: Quarantined) -> None:
        """Quarantine an offset after `made` deliveries. It need not have been delivered: the cursor stays."""
        if made:
            self._mark(offset, 1, made)
        if not self.is_settled(offset):
            self.deferred.pop(offset, None)
            self.quarantined[offset] = quarantined

    def redriven(self, offset: int, made: int) -> None:
        """Note that a quarantined offset waits again, at once, as if delivered `made` times."""
        if self.is_settled(offset):
            return
        if made or self.made_at(offset):
            self._mark(offset, 1, made)
        self.quarantined.pop(offset, None)
        # One that was published with a due time does not wait for it after a restart.
        self.deferred[offset] = 0

    def settled(self, first: int, count: int) -> None:
        """Settle offsets: they are never delivered again."""
        end = first + count
        marked = len(self.deferred) + len(self.many) + len(self.quarantined)
        if marked and count <= marked:
            for offset in range(first, end):
                self.deferred.pop(offset, None)
                self.many.pop(offset, None)
                self.quarantined.pop(offset, None)
        elif marked:
            # A gap that is passed may be a million offsets long.
            self.many = {offset: made for offset, made in self.many.items() if not first <= offset < end}
            self.deferred = {offset: due for offset, due in self.deferred.items() if not first <= offset < end}
            self.quarantined = {offset: one for offset, one in self.quarantined.items() if not first <= offset < end}
        if end > self.cursor:
            self.cursor = end
        if first <= self.floor:
            if end > self.floor:
                self._raise_floor(end)
        else:
            self._fill(first, end, _SETTLED_PAGE)

    def emptied(self, upto: int) -> None:
        """Settle all below `upto`."""
        if upto > self.floor and self.is_all_below(upto):
            # Nothing is left of the old containers, which may have millions of entries: none is copied.
            self.floor = self.cursor = upto
            self.pages, self.many, self.deferred, self.quarantined = {}, {}, {}, {}
        elif upto > self.floor:
            self.cursor = max(self.cursor, upto)
            self.many = {offset: made for offset, made in self.many.items() if offset >= upto}
            self.deferred = {offset: due_ns for offset, due_ns in self.deferred.items() if offset >= upto}
            self.quarantined = {offset: one for offset, one in self.quarantined.items() if offset >= upto}
            self._raise_floor(upto)

    def sought(self, target: int, epoch: int) -> None:
        """Rewind: settle all below `target`, and forget all marks from there on."""
        self.floor = self.cursor = target
        self.epoch = epoch
        self.pages, self.many, self.deferred, self.quarantined = {}, {}, {}, {}

    def cut(self, end: int) -> bool:
        """Forget all at or beyond `end`, where the topic ends; returns whether there was anything."""
        self.quarantined = {offset: one for offset, one in self.quarantined.items() if offset < end}
        if self.cursor <= end:
            return False
        for number in [number for number in self.pages if (number + 1) * PAGE_OFFSETS > end]:
            stop = end - number * PAGE_OFFSETS
            if stop <= 0:
                del self.pages[number]
            else:
                self.pages[number][stop:] = bytes(PAGE_OFFSETS - stop)
        self.many = {offset: made for offset, made in self.many.items() if offset < end}
        self.deferred = {offset: due_ns for offset, due_ns in self.deferred.items() if offset < end}
        self.cursor = end
        self.floor = min(self.floor, end)
        return True

    def level(self) -> None:
        """Raise the floor over the settled offsets that follow it, after index segments were added to the pages."""
        self._raise_floor(self.floor)

    def _mark(self, first: int, count: int, made: int) -> None:
        end = first + count
        first = max(first, self.floor)
        if first >= end:
            return
        if end > self.cursor:
            self.cursor = end
        value = min(made, MADE_MAX)
        self._fill(first, end, _MADE_ONE if value == 1 else bytes([value]) * PAGE_OFFSETS)
        if made > MADE_MAX or self.many:
            for offset in range(first, end):
                if made > MADE_MAX and not self.is_settled(offset):
                    self.many[offset] = made
                else:
                    self.many.pop(offset, None)

    def _fill(self, first: int, end: int, values: bytes) -> None:
        pages = self.pages
        while first < end:
            number, at = divmod(first, PAGE_OFFSETS)
            stop = at + end - first
            if stop > PAGE_OFFSETS:
                stop = PAGE_OFFSETS
            page = pages.get(number)
            if page is None:
                page = pages[number] = bytearray(PAGE_OFFSETS)
            if values is not _SETTLED_PAGE and page.find(SETTLED, at, stop) >= 0:
                # A journal is replayed over segments that have its entries already: settled stays settled.
                for index in range(at, stop):
                    if page[index] != SETTLED:
                        page[index] = values[0]
            else:
                page[at:stop] = values[: stop - at]
            first += stop - at

    def _raise_floor(self, floor: int) -> None:
        """Move the floor to `floor`, and on over the settled offsets that follow."""
        pages = self.pages
        old_page = self.floor // PAGE_OFFSETS
        while pages:
            number, at = divmod(floor, PAGE_OFFSETS)
            page = pages.get(number)
            if page is None or page[at] != SETTLED:
                break
            rest = page[at:]
            settled = len(rest) - len(rest.lstrip(b"\xff"))
            floor += settled
            if settled < len(rest):
                break
        self.floor = floor
        if self.cursor < floor:
            self.cursor = floor
        if pages:
            passed = floor // PAGE_OFFSETS
            if passed - old_page > len(pages):
                for number in [number for number in pages if number < passed]:
                    del pages[number]
            else:
                for number in range(old_page, passed):
                    pages.pop(number, None)

    def become(self, other: "ChannelProgress") -> None:
        """Take over the progress of `other`, which is not used any more."""
        self.floor, self.cursor, self.epoch = other.floor, other.cursor, other.epoch
        self.pages, self.many, self.deferred = other.pages, other.many, other.deferred
        self.quarantined = other.quarantined

    # Questions.

    def is_all_below(self, upto: int) -> bool:
        """Whether nothing at or beyond `upto` was delivered, settled, deferred or quarantined."""
        marked = (self.many, self.deferred, self.quarantined)
        return self.cursor <= upto and all(max(one, default=-1) < upto for one in marked)

    def copy(self) -> "ChannelProgress":
        """The same progress, for another thread to read."""
        other = ChannelProgress(self.floor, self.cursor, self.epoch)
        other.pages = {number: bytearray(page) for number, page in self.pages.items()}
        other.many = dict(self.many)
        other.deferred = dict(self.deferred)
        other.quarantined = dict(self.quarantined)
        return other

    def settled_above_floor(self) -> int:
        """How many offsets at or above the floor are settled."""
        return self.settled_count(self.floor, self.cursor)

    def settled_count(self, first: int, end: int) -> int:
        """How many offsets at or above the floor, from `first` up to but not including `end`, are settled: a look at
        each page, whatever lies in it."""
        first, end = max(first, self.floor), min(end, self.cursor)
        count, pages = 0, self.pages
        for number in range(first // PAGE_OFFSETS, -(-end // PAGE_OFFSETS)):
            page = pages.get(number)
            if page is not None:
                base = number * PAGE_OFFSETS
                count += page.count(SETTLED, max(0, first - base), max(0, end - base))
        return count

    def settled_between(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """(first, count) of offsets at or above the floor that are settled, ascending."""
        for start, count, value in self._states(first, min(end, self.cursor)):
            if value == SETTLED:
                yield start, count

    def settled_down(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """(first, count) of settled offsets from `first` on, below `end`, the last ones first."""
        begin, end = max(first, self.floor), min(end, self.cursor)
        touched = [number for number in self.pages if number * PAGE_OFFSETS < end]
        for number in sorted(touched, reverse=True):
            base, page = number * PAGE_OFFSETS, self.pages[number]
            start, stop = max(begin - base, 0), min(end - base, PAGE_OFFSETS)
            while (last := page.rfind(SETTLED, start, stop)) >= 0:
                part = page[start : last + 1]
                count = len(part) - len(part.rstrip(b"\xff"))
                stop = last + 1 - count
                yield base + stop, count
        if first < min(self.floor, end):
            yield first, min(self.floor, end) - first

    def made_at(self, offset: int) -> int:
        """Deliveries made of a message that is not settled."""
        page = self.pages.get(offset // PAGE_OFFSETS)
        if page is None:
            return 0
        made = page[offset % PAGE_OFFSETS]
        if made < MADE_MAX:
            return made
        return 0 if made == SETTLED else self.many.get(offset, made)

    def most_made(self, first: int, count: int) -> int:
        """The most deliveries made of any of these messages, none of them settled; MADE_MAX for so many and more."""
        most = 0
        while count > 0:
            number, at = divmod(first, PAGE_OFFSETS)
            length = min(count, PAGE_OFFSETS - at)
            page = self.pages.get(number)
            if page is not None:
                most = max(most, page[at] if length == 1 else max(page[at : at + length]))
            first += length
            count -= length
        return most

    def alike(self, first: int, count: int) -> int:
        """How many offsets from `first` on, at most `count`, have the same byte as it; none beyond its page."""
        index = first % PAGE_OFFSETS
        stop = min(PAGE_OFFSETS, index + count)
        page = self.pages.get(first // PAGE_OFFSETS)
        if page is None:
            return stop - index
        if page[index] == MADE_MAX:
            return 1  # their numbers may differ
        part = page[index:stop]
        return len(part) - len(part.lstrip(part[:1]))

    def first_unsettled(self, first: int, end: int) -> int:
        """The first offset from `first` on, below `end`, that is not settled; `end` when there is none."""
        at = max(first, self.floor)
        while at < end:
            page = self.pages.get(at // PAGE_OFFSETS)
            if page is None:
                return at
            rest = page[at % PAGE_OFFSETS :]
            settled = len(rest) - len(rest.lstrip(b"\xff"))
            if settled < len(rest):
                return min(at + settled, end)
            at += settled
        return end

    def is_settled(self, offset: int) -> bool:
        if offset < self.floor:
            return True
        page = self.pages.get(offset // PAGE_OFFSETS)
        return page is not None and page[offset % PAGE_OFFSETS] == SETTLED

    def _states(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """(first, count, byte) of ranges that are alike, ascending; byte by byte within pages, not beyond."""
        at = max(first, self.floor)
        while at < end:
            number, index = divmod(at, PAGE_OFFSETS)
            stop = min(PAGE_OFFSETS, index + end - at)
            page = self.pages.get(number)
            if page is None:
                yield at, stop - index, 0
                at += stop - index
                continue
            while index < stop:
                value = page[index]
                behind = index + 1
                if behind < stop and page[behind] == value:
                    behind = stop - len(page[behind:stop].lstrip(bytes([value])))
                yield number * PAGE_OFFSETS + index, behind - index, value
                at += behind - index
                index = behind

    def unsettled_between(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """(first, count, made) of messages that were delivered and are not settled, ascending."""
        for start, count, made in self.marks_between(first, end):
            if made is not None:
                yield start, count, made

    def marks_between(self, first: int, end: int) -> Iterator[tuple[int, int, int | None]]:
        """(first, count, made) of messages that were delivered or settled, ascending. made: None for settled."""
        for start, count, value in self._states(first, min(end, self.cursor)):
            if value == SETTLED:
                yield start, count, None
            elif value == MADE_MAX and self.many:
                yield from ((offset, 1, self.made_at(offset)) for offset in range(start, start + count))
            elif value:
                yield start, count, value

    def undelivered_between(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """(first, count) of offsets below the cursor that were neither delivered nor settled, ascending."""
        begun, length = 0, 0
        for start, count, value in self._states(first, min(end, self.cursor)):
            if value == 0:
                if length and start == begun + length:
                    length += count
                    continue
                if length:
                    yield begun, length
                begun, length = start, count
        if length:
            yield begun, length

    def __eq__(self, other: object) -> bool:
        """Whether both have the same progress, in the same pages or not."""
        if not isinstance(other, ChannelProgress):
            return NotImplemented
        return self._essence() == other._essence()

    __hash__ = None  # type: ignore[assignment]

    def _essence(self) -> tuple[object, ...]:
        marks = [
            (number, bytes(page[max(0, self.floor - number * PAGE_OFFSETS) :]))
            for number, page in sorted(self.pages.items())
            if (number + 1) * PAGE_OFFSETS > self.floor and any(page[max(0, self.floor - number * PAGE_OFFSETS) :])
        ]
        return self.floor, self.cursor, self.epoch, marks, self.many, self.deferred, self.quarantined
