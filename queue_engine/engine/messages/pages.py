"""Cuts pages out of lists of messages that may be very long."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from queue_engine.engine.messages.rows import SCANNED_MAX, InvalidQueryError, MessageQuery

ItemT = TypeVar("ItemT")

CURSOR_DIGITS_MAX = 18  # of an offset; Python counts no further than 2⁶³


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Some items, and `after` of the next page, "" at the end. is_bounded: as of MessageRows."""

    items: list[ItemT]
    next_cursor: str
    is_bounded: bool


def cursor_of(after: str, kind: str) -> int:
    """The number in a cursor, as `next_cursor` has it: how many messages were passed ("n12"), or the last offset
    ("o34"); for no cursor 0, and -1. Raises InvalidQueryError."""
    if not after:
        return 0 if kind == "n" else -1
    digits = after.removeprefix(kind)
    if not after.startswith(kind) or not digits.isascii() or not digits.isdigit() or len(digits) > CURSOR_DIGITS_MAX:
        raise InvalidQueryError(f"after={after[:40]} is not the next_cursor of a page with the same state and sort")
    return int(digits)


def page_of(
    found: Iterable[ItemT],
    query: MessageQuery,
    matches: Callable[[ItemT], bool],
    key: Callable[[ItemT], Any] | None,
) -> Page[ItemT]:
    """The page of a query. Looks at SCANNED_MAX items at most. key: sorts them; None for the order they come in."""
    start, limit = cursor_of(query.after, "n"), query.limit
    if key is not None:
        scanned = list(islice(found, SCANNED_MAX + 1))
        ordered = sorted(filter(matches, scanned[:SCANNED_MAX]), key=key)
        end = start + limit
        return Page(ordered[start:end], f"n{end}" if len(ordered) > end else "", len(scanned) > SCANNED_MAX)
    items: list[ItemT] = []
    passed = start
    for item in islice(found, start, None):
        if len(items) == limit:
            return Page(items, f"n{passed}", False)
        if passed >= SCANNED_MAX:
            return Page(items, "", True)
        passed += 1
        if matches(item):
            items.append(item)
    return Page(items, "", False)
