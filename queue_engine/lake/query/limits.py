"""How much one query may take, and how long its text may be."""

from dataclasses import dataclass

from queue_engine.vocabulary.errors import QueryError

MIB = 1 << 20
MEMORY_BYTES = 1 << 30
MEMORY_BYTES_MIN, MEMORY_BYTES_MAX = 64 * MIB, 1 << 40
TIMEOUT_MS = 60_000
TIMEOUT_MS_MIN, TIMEOUT_MS_MAX = 1, 24 * 3_600_000
ROWS = 1_000
ROWS_MIN, ROWS_MAX = 1, 1_000_000_000
TEXT_BYTES_MAX = 1 * MIB
COLUMNS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """memory_bytes: of duckdb; Python, pyarrow and their read-ahead come on top, at most once as much.
    timeout_ms: how long the query may work; the time in which its rows wait for their reader does not count. rows: the
    most that are returned."""

    memory_bytes: int = MEMORY_BYTES
    timeout_ms: int = TIMEOUT_MS
    rows: int = ROWS

    def __post_init__(self) -> None:
        """Raises QueryError for a limit that is out of range."""
        for name, value, least, most in (
            ("memory", self.memory_bytes, MEMORY_BYTES_MIN, MEMORY_BYTES_MAX),
            ("timeout", self.timeout_ms, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX),
            ("rows", self.rows, ROWS_MIN, ROWS_MAX),
        ):
            if not least <= value <= most:
                unit = {"memory": " bytes", "timeout": " ms", "rows": ""}[name]
                raise QueryError(f"The limit of {name}, {value:,}{unit}, is not from {least:,} to {most:,}{unit}.")


def check_text(sql: str) -> None:
    """Raises QueryError for a text that no query is made of."""
    size = len(sql.encode("utf-8", "surrogatepass"))
    if size > TEXT_BYTES_MAX:
        raise QueryError(f"The query has {size:,} bytes; the most is {TEXT_BYTES_MAX:,}.")
    if not sql.strip():
        raise QueryError("The query is empty.")
    if not sql.isprintable() and (
        found := next((one for one in sql if one == "\0" or "\ud800" <= one <= "\udfff"), "")
    ):
        raise QueryError(f"The query has a character that no text has: {found!r}.")
