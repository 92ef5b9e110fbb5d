"""Ranges (first, end) of offsets, `end` excluded: joined, cut, and one taken from the other."""

from collections.abc import Iterable

Range = tuple[int, int]


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same offsets as ranges that do not touch each other, ascending."""
    found: list[Range] = []
    for first, end in sorted(ranges):
        if first >= end:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return found


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """The offsets of `ranges` that are not in `taken`."""
    cuts = joined(taken)
    left: list[Range] = []
    for first, end in joined(ranges):
        for cut_first, cut_end in cuts:
            if cut_end <= first or cut_first >= end:
                continue
            if first < cut_first:
                left.append((first, cut_first))
            first = min(max(first, cut_end), end)
        if first < end:
            left.append((first, end))
    return left


def within(ranges: Iterable[Range], first: int, end: int) -> list[Range]:
    """Those parts of the ranges that lie between two offsets."""
    return joined((max(one, first), min(last, end)) for one, last in ranges)
