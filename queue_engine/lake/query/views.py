"""The views that a query can name, and the tables behind them.

A view's name is the topic's. SQL ignores case, topics do not: of names that are one in SQL
the first has it, and the others get ~2, ~3 … behind them, which no topic's name can have. The fixed names come first.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from queue_engine.lake.tables.storage import TableStorage
from queue_engine.vocabulary.errors import QueryError
from queue_engine.vocabulary.names import is_valid_name

ARCHIVE = "archive"
ARCHIVE_GAPS = "archive_gaps"
HISTORY = "history"
HISTORY_VIEWS = {"history_minutes": "minutes", "history_hours": "hours"}
AUDIT = "audit"
FIXED_NAMES = (ARCHIVE_GAPS, *HISTORY_VIEWS, AUDIT)

# The columns that a view selects of its table.
_OF_ARCHIVE = (
    '"offset", published_at, message_id, "key", body, try(decode(body)) AS text, '
    "try_cast(try(decode(body)) AS JSON) AS json, replayed, server, date"
)
# Of the table's count (archive/gaps.py has the reasons): offsets that a kill left unused are no loss.
_OF_GAPS = (
    "topic, server, number, id_base, first_offset, next_offset, "
    "CASE WHEN reason IN ('absent', 'off', 'replayed', 'begin') THEN 0 ELSE \"count\" END AS lost, "
    "CASE WHEN reason IN ('off', 'replayed') THEN \"count\" ELSE 0 END AS left_out, "
    "CASE WHEN reason = 'absent' THEN \"count\" ELSE 0 END AS unused, "
    'reason, "at"'
)
_OF_HISTORY = 'to_timestamp(t) AS "at", *'
# The columns that a view has before there is a table: so a question about nothing has an answer without rows.
_GAPS_COLUMNS = {
    "topic": "VARCHAR", "server": "VARCHAR", "number": "BIGINT", "id_base": "BIGINT", "first_offset": "BIGINT",
    "next_offset": "BIGINT", "count": "BIGINT", "reason": "VARCHAR", "at": "TIMESTAMPTZ",
}  # fmt: skip
# Beside the tables.
_OLD_MANIFEST = "manifest.json"
_HISTORY_COLUMNS = {"t": "BIGINT", "node": "VARCHAR", "topic": "VARCHAR", "channel": "VARCHAR"}


@dataclass(frozen=True, slots=True)
class View:
    """One view. place, table: the storage of the table, and its path there. select: its columns, as SQL. empty: columns
    and types, where a missing table has no rows; none where it is an error. topic: the archived topic, or ""."""

    name: str
    place: str
    table: str
    select: str = "*"
    empty: dict[str, str] = field(default_factory=dict)
    topic: str = ""

    def is_named_in(self, sql: str) -> bool:
        """Whether the query can name the view: else its table is not opened."""
        return self.name.lower() in sql.lower()


def views_of(lake: TableStorage, history: TableStorage, *, may_read_bodies: bool) -> list[View]:
    """The views of a lake and of the history at `history`, by name. may_read_bodies: else no topic has a view. Raises
    QueryError, StoreError where the lake can't be listed."""
    # A history of before there were tables is in none of them: an answer without it would be wrong.
    empty = {} if history.exists(_OLD_MANIFEST) else _HISTORY_COLUMNS
    found = [View(name, history.place, table, _OF_HISTORY, empty) for name, table in HISTORY_VIEWS.items()]
    found.append(View(ARCHIVE_GAPS, lake.place, ARCHIVE_GAPS, _OF_GAPS, empty=_GAPS_COLUMNS))
    if may_read_bodies:
        try:
            topics = [one for one in lake.directories(ARCHIVE) if is_valid_name(one)]
        except OSError as exc:
            raise QueryError(f"The archive in {lake.place} can't be listed: {exc}") from exc
        found += [
            View(name, lake.place, f"{ARCHIVE}/{topic}", _OF_ARCHIVE, topic=topic)
            for topic, name in names_of(topics).items()
        ]
    return sorted(found, key=lambda one: one.name)


def names_of(topics: Iterable[str]) -> dict[str, str]:
    """Topic → the name of its view."""
    taken = set(FIXED_NAMES)
    names = {}
    for topic in sorted(topics):
        name, number = topic, 1
        while name.lower() in taken:
            number += 1
            name = f"{topic}~{number}"
        taken.add(name.lower())
        names[topic] = name
    return names


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
