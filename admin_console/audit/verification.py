"""Checks whether the audit list is as it was written: which rows were changed, removed, moved or put in.

Rows go in, in the order of their ids; sentences come out. A run is a stretch of rows of which each names the hash of
the one before it: an untouched list is one run. Where there are more, each run names the hash that it was written
behind, which gives their order.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from admin_console.audit.chain import COLUMNS, GENESIS, hash_of
from admin_console.audit.head_file import Head
from admin_console.audit.models import VIA_SERVER
from admin_console.database.inspection import has_journal, read_only_name

FAULTS_MAX = 1_000  # changed rows, and runs; further ones are counted
AGEING = "remove_old_rows"  # the action of the row about a removal for age or size
PAGE_ROWS = 1_000
LOOKUPS_MAX = 50  # of a hash among all rows, which have no index of it

_SELECT = (
    f"SELECT id, previous_hash, hash, {', '.join(COLUMNS)} FROM admin_console_auditrow"  # noqa: S608 - names of ours
    " WHERE id > ? ORDER BY id LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row as the database has it. values: of chain.COLUMNS, of any type: a row may be written past Penstock."""

    id: int
    previous_hash: str
    hash: str
    values: dict[str, Any]


@dataclass(slots=True)
class _LinkedRows:
    """Rows first_id to last_id, linked. previous_hash: the one that the first row names. before_id: the row in front of
    it."""

    first_id: int
    last_id: int
    previous_hash: str
    last_hash: str
    before_id: int

    def __str__(self) -> str:
        return _rows(self.first_id, self.last_id)


class ChainCheck:
    """Takes all rows of a list, one after the other, and reports faults in them."""

    def __init__(self, head: Head | None = None) -> None:
        self._head = head
        self._hash_at_head: str | None = None
        self._runs: list[_LinkedRows] = []
        self._changed: dict[int, str] = {}
        self._left_out_count = 0
        self._removed_upto: dict[str, int] = {}  # the hash of a last row that was removed → its id
        self.row_count = 0

    @property
    def last_id(self) -> int:
        """Of the newest row that was taken; 0 before the first."""
        return self._runs[-1].last_id if self._runs else 0

    def take(self, row: StoredRow) -> None:
        """Check the next row, whose id is greater than the last one's."""
        self.row_count += 1
        if self._head is not None and row.id == self._head.id:
            self._hash_at_head = row.hash
        if complaint := complaint_about(row):
            if len(self._changed) < FAULTS_MAX:
                self._changed[row.id] = complaint
            else:
                self._left_out_count += 1
        elif row.values["action"] == AGEING and row.values["via"] == VIA_SERVER:
            upto, _, removed_hash = row.values["detail"].partition(" ")
            if upto.isascii() and upto.isdigit():
                self._removed_upto[removed_hash] = int(upto)
        run = self._runs[-1] if self._runs else None
        if run is not None and row.previous_hash == run.last_hash and row.hash:
            run.last_id, run.last_hash = row.id, row.hash
        elif len(self._runs) < FAULTS_MAX:
            before_id = run.last_id if run is not None else 0
            self._runs.append(_LinkedRows(row.id, row.id, row.previous_hash, row.hash, before_id))
        else:
            self._left_out_count += 1
            self._runs[-1].last_id, self._runs[-1].last_hash = row.id, row.hash

    def faults(self, id_of_hash: Callable[[str], int | None] = lambda _: None) -> list[str]:
        """A sentence for each fault, in the order of the rows; [] when the chain holds.

        id_of_hash: the id of the row that has this hash, None when there is none. Called for broken links only.
        """
        left = [LOOKUPS_MAX]

        def known_id(row_hash: str) -> int | None:
            left[0] -= 1
            return id_of_hash(row_hash) if left[0] >= 0 else None

        found = list(self._changed.items())
        behind = {run.previous_hash: position for position, run in enumerate(self._runs)}
        order = self._order_of_writing(behind)
        for position, run in enumerate(self._runs):
            if (sentence := order.get(position)) is None:
                sentence = self._link_complaint(position, run, known_id)
            if sentence:
                found.append((run.first_id, sentence))
        if sentence := self._head_complaint():
            found.append((self.last_id + 1, sentence))
        sentences = [sentence for _, sentence in sorted(found)]
        if self._left_out_count:
            sentences.append(f"{self._left_out_count:,} more rows are not as they were written.")
        return sentences

    def _order_of_writing(self, behind: dict[str, int]) -> dict[int, str]:
        """For each run that was written behind another run: "" where it stands there, else a sentence."""
        order: dict[int, str] = {}
        ends = {run.last_hash for run in self._runs if run.last_hash}
        for position, run in enumerate(self._runs):
            if run.previous_hash in ends:
                continue
            # Where a stretch of runs begins: follow it.
            stretch = [position]
            while (following := behind.get(self._runs[stretch[-1]].last_hash)) is not None and following not in order:
                order[following] = ""
                stretch.append(following)
            for place, here in zip(stretch, sorted(stretch), strict=True):
                if place != here:
                    before = self._runs[stretch[stretch.index(here) - 1]] if stretch.index(here) else None
                    where = f"behind row {before.last_id}" if before is not None else "in front of all others"
                    moved = self._runs[here]
                    verb = "was" if moved.first_id == moved.last_id else "were"
                    order[here] = f"{str(moved).capitalize()} {verb} moved: written {where}."
        return order

    def _link_complaint(self, position: int, run: _LinkedRows, id_of_hash: Callable[[str], int | None]) -> str:
        """Why a run names a hash in front of it that no run ends with; "" where that is in order, else a sentence."""
        first = run.first_id
        if position == 0:
            if run.previous_hash == GENESIS or self._removed_upto.get(run.previous_hash) == first - 1:
                return ""
            if first in self._changed:
                return ""
            if first <= 1:
                return f"Row {first} is not the first one that was written: rows in front of it were removed."
            return f"{_rows(1, first - 1).capitalize()} {_were(1, first - 1)} removed, and not by Penstock."
        if first > run.before_id + 1:
            gap = (run.before_id + 1, first - 1)
            return f"{_rows(*gap).capitalize()} {_were(*gap)} removed."
        if first in self._changed or run.before_id in self._changed:
            return ""
        if (named_id := id_of_hash(run.previous_hash)) is not None and named_id < first:
            put_in = (named_id + 1, first - 1)
            return (
                f"{_rows(*put_in).capitalize()} {_were(*put_in)} put in: row {first} was written behind row {named_id}."
            )
        return (
            f"Row {run.before_id} is not the one that row {first} was written behind: it was changed together with its "
            "hash, or rows between the two were removed."
        )

    def _head_complaint(self) -> str:
        head = self._head
        if head is None or self._hash_at_head == head.hash:
            return ""
        if head.id > self.last_id:
            lost = (self.last_id + 1, head.id)
            named = f"the file beside the database names row {head.id}"
            return f"{_rows(*lost).capitalize()} {_were(*lost)} removed: {named}."
        if self._runs and head.id < self._runs[0].first_id:
            return ""  # removed with all in front of it, which is reported elsewhere
        if head.id in self._changed:
            return ""
        return f"Row {head.id} is not the one that the file beside the database names: the list was replaced."


def complaint_about(row: StoredRow) -> str:
    """A sentence when the row's content does not match its hash; else ""."""
    if not row.hash:
        return f"Row {row.id} was not written by Penstock: it has no hash. Its content: {_shown(row.values)}."
    try:
        if hash_of(row.previous_hash, row.values) == row.hash:
            return ""
    except (TypeError, ValueError, RecursionError):
        pass
    return f"Row {row.id} was changed. Its content now: {_shown(row.values)}."


def open_to_read(path: Path) -> sqlite3.Connection:
    """The database, to be read only, with or without a server that writes it. Raises sqlite3.Error."""
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30, isolation_level=None)
    try:
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        database.close()
        if has_journal(path):
            raise
        # The directory can't be written, and all rows are in the file itself.
        database = sqlite3.connect(read_only_name(path), uri=True, isolation_level=None)
    # A row that was written past Penstock may not be text.
    database.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    return database


def read_rows(database: sqlite3.Connection, after_id: int, count_max: int = PAGE_ROWS) -> list[StoredRow]:
    """The rows behind one, by id. Raises sqlite3.Error."""
    found = []
    for row_id, previous_hash, row_hash, *values in database.execute(_SELECT, (after_id, count_max)):
        content = dict(zip(COLUMNS, values, strict=True))
        try:
            content["counts"] = json.loads(content["counts"])
        except (TypeError, ValueError, RecursionError):
            content["counts"] = None  # Penstock writes a dictionary: the hash won't fit
        found.append(StoredRow(row_id, previous_hash, row_hash, content))
    return found


def all_rows(database: sqlite3.Connection) -> Iterator[StoredRow]:
    """Every row, by id. Raises sqlite3.Error."""
    after_id = -(2**63)
    while page := read_rows(database, after_id):
        yield from page
        after_id = page[-1].id


def id_of_hash(database: sqlite3.Connection, row_hash: str) -> int | None:
    """The row with this hash; looks at every row. Raises sqlite3.Error."""
    found = database.execute("SELECT id FROM admin_console_auditrow WHERE hash = ? LIMIT 1", (row_hash,)).fetchone()
    return None if found is None else int(found[0])


def stands(database: sqlite3.Connection, head: Head) -> bool:
    """Whether the row that a head names is there with its hash, or was removed with those in front of it for their age.
    Raises sqlite3.Error."""
    found = database.execute("SELECT hash FROM admin_console_auditrow WHERE id = ?", (head.id,)).fetchone()
    if found is not None:
        return bool(found[0] == head.hash)
    (first_id,) = database.execute("SELECT min(id) FROM admin_console_auditrow").fetchone()
    return first_id is not None and head.id < first_id


def newest_head(database: sqlite3.Connection) -> Head | None:
    """The newest row; None where there is none, or where Penstock did not write it. Raises sqlite3.Error."""
    found = database.execute("SELECT id, hash FROM admin_console_auditrow ORDER BY id DESC LIMIT 1").fetchone()
    return Head(*found) if found is not None and found[1] else None


def has_rows_before(database: sqlite3.Connection, at_ms: int) -> bool:
    """Whether the list has a row that was written before this moment, Unix ms. Raises sqlite3.Error."""
    found = database.execute("SELECT at_ms FROM admin_console_auditrow ORDER BY id LIMIT 1").fetchone()
    return found is not None and isinstance(found[0], int) and found[0] < at_ms


def _shown(values: dict[str, Any]) -> str:
    """A row's content, safe for a terminal: a changed row may contain control characters."""
    place = "/".join(str(values[name]) for name in ("topic", "channel") if values[name])
    words = [values["action"], place, f"by {values['actor']}" if values["actor"] else "", values["verdict"]]
    text = " ".join(str(word) for word in words if word)
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:200]


def _rows(first: int, last: int) -> str:
    return f"row {first}" if first >= last else f"rows {first} to {last}"


def _were(first: int, last: int) -> str:
    return "was" if first >= last else "were"
