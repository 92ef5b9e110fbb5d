"""Reads the file of acts, newest first, beside the server that writes it or without one."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.act_file.act_file import NAME, old_names
from queue_engine.act_file.entry import Entry, decode_entry
from queue_engine.disk.no_follow import read_no_follow


@dataclass(frozen=True, slots=True)
class NumberedEntry:
    """An entry that the reader found. number: None for a damaged line, whose entry is None, too."""

    number: int | None
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries, newest first. has_older: there are more behind them."""

    entries: tuple[NumberedEntry, ...]
    has_older: bool


def has_entries(directory: str | os.PathLike[str]) -> bool:
    """Whether there is such a file."""
    return os.path.lexists(os.path.join(directory, NAME))


def read_page(directory: str | os.PathLike[str], *, before: int = 0, count: int) -> Page:
    """Up to `count` entries with numbers below `before` (0: the newest ones). An intent is left out when its result is
    in the file. Raises OSError."""
    found: list[NumberedEntry] = []
    results: set[str] = set()
    is_below = not before
    for one in _newest_first(directory):
        entry = one.entry
        if entry is not None and entry.phase == "result":
            results.add(entry.act)
        if entry is not None and entry.phase == "intent" and entry.act in results:
            continue
        # A damaged line has no number: it is where its neighbours are.
        is_below = is_below or (one.number is not None and one.number < before)
        if not is_below:
            continue
        if len(found) == count:
            return Page(tuple(found), has_older=True)
        found.append(one)
    return Page(tuple(found), has_older=False)


def _newest_first(directory: str | os.PathLike[str]) -> Iterator[NumberedEntry]:
    names = [*old_names(os.listdir(directory)), NAME]
    for name in reversed(names):
        try:
            data = read_no_follow(os.path.join(directory, name))
        except FileNotFoundError:
            continue  # it was renamed meanwhile, or removed
        lines = data.split(b"\n")
        # Behind the last newline: nothing, or a line that is being written.
        for line in reversed(lines[:-1]):
            decoded = decode_entry(line)
            yield NumberedEntry(*decoded) if decoded is not None else NumberedEntry(None, None)
