"""Reads the file of acts, newest first, beside the server that writes it or without one."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.delivery.stats import ActRecord
from queue_engine.service.act_file.act_file import NAME, old_names
from queue_engine.service.act_file.line import decode_line
from queue_engine.storage.disk.no_follow import read_no_follow


@dataclass(frozen=True, slots=True)
class NumberedAct:
    """An act that the reader found. number: None for a damaged line, whose act is None, too."""

    number: int | None
    act: ActRecord | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some acts, newest first. has_older: there are more behind them."""

    acts: tuple[NumberedAct, ...]
    has_older: bool


def has_entries(directory: str | os.PathLike[str]) -> bool:
    """Whether there is such a file."""
    return os.path.lexists(os.path.join(directory, NAME))


def read_page(directory: str | os.PathLike[str], *, before: int = 0, count: int) -> Page:
    """Up to `count` acts with numbers below `before` (0: the newest ones). An intent is left out when its result is
    in the file. Raises OSError."""
    found: list[NumberedAct] = []
    results: set[str] = set()
    is_below = not before
    for one in _newest_first(directory):
        act = one.act
        if act is not None and not act.is_intent:
            results.add(act.act_id)
        elif act is not None and act.act_id in results:
            continue
        # A damaged line has no number: it is where its neighbours are.
        is_below = is_below or (one.number is not None and one.number < before)
        if not is_below:
            continue
        if len(found) == count:
            return Page(tuple(found), has_older=True)
        found.append(one)
    return Page(tuple(found), has_older=False)


def _newest_first(directory: str | os.PathLike[str]) -> Iterator[NumberedAct]:
    names = [*old_names(os.listdir(directory)), NAME]
    for name in reversed(names):
        try:
            data = read_no_follow(os.path.join(directory, name))
        except FileNotFoundError:
            continue  # it was renamed meanwhile, or removed
        lines = data.split(b"\n")
        # Behind the last newline: nothing, or a line that is being written.
        for line in reversed(lines[:-1]):
            decoded = decode_line(line)
            yield NumberedAct(*decoded) if decoded is not None else NumberedAct(None, None)
