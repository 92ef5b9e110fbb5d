"""Rows of the history, read from its Parquet files by duckdb.

One connection in the process, one query at a time. It may read the history's directory and nothing else, loads no
extension, and its settings are locked before the first query. Values from outside are always parameters; only names of
columns from tables of this package are written into SQL. Files are those that count in the history's tables.

A query runs in the caller's thread, without the interpreter's lock while duckdb works: columns leave it as arrays.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from admin_console.gateway.history import HistorySource, HistoryUnreadableError
from admin_console.pacing.pace import PACE
from admin_console.vocabulary.current_cluster import PerCluster, current_cluster

logger = logging.getLogger(__name__)

MEMORY_LIMIT = "256MB"
BUCKET_COUNT = 1 << 12  # more than there are latency buckets
WINDOWS_S = {"minutes": 60, "hours": 3_600}
# No node's own name has a "/". Without a cluster $before is empty.
_OF_CLUSTER = "starts_with(node, $before) AND ($before <> '' OR NOT contains(node, '/'))"

Floats = NDArray[np.float64]
Column = NDArray[np.generic]
Rows = dict[str, Column]


@dataclass(frozen=True, slots=True)
class Part:
    """Windows of one level in [first_s, end_s), Unix seconds. The parts of a query do not overlap."""

    level: str
    first_s: int
    end_s: int


class HistoryStore:
    """Reads the files of `source`, and of them the windows of one cluster's nodes. Any thread.

    cluster: its name, which windows have before the node's (`cluster/samples/node_samples.py`).
    """

    def __init__(self, source: HistorySource, cluster: str = "") -> None:
        self._before = f"{cluster}/" if cluster else ""
        self._own_name = f"node[{len(self._before) + 1} :] AS node" if cluster else "node"
        self.directory = source.directory
        self._source = source
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def windows(
        self, topic: str, channel: str, names: Sequence[str], parts: Sequence[Part], nodes: Sequence[str] = ()
    ) -> Rows | None:
        """Columns `names` of a channel, a topic (channel "") or the totals (both ""), and `t` and `window_s`.

        A row is a window of one node, of all or of `nodes`; rows come in no order. None when no file holds any. Raises
        HistoryUnreadableError.
        """
        where, values = self._of_one(topic, channel, nodes)
        selection = ", ".join(self._own_name if name == "node" else name for name in ("t", "window_s", *names))
        return self._read(selection, where, parts, ", ".join(("t", *names)), values=values)

    def latencies(
        self, topic: str, channel: str, parts: Sequence[Part], nodes: Sequence[str] = ()
    ) -> tuple[Rows, frozenset[str]] | None:
        """A channel's counts of messages by latency over all nodes: columns `t`, `b` (bucket) and `n`; and the nodes
        that have some. Otherwise as `windows`."""
        where, values = self._of_one(topic, channel, nodes)
        # Added up here: a day of fifty nodes has a million counts.
        selection = f"t, u.b AS b, sum(u.n)::DOUBLE AS n, {self._own_name}"
        behind = "GROUP BY GROUPING SETS ((t, u.b), (node))"
        rows = self._read(selection, where, parts, "t, node, unnest(latency) AS u", behind, values=values)
        if rows is None:
            return None
        is_count = ~np.ma.getmaskarray(rows["b"])
        names = frozenset(rows["node"][~is_count].tolist())
        return {name: np.ma.getdata(rows[name])[is_count] for name in ("t", "b", "n")}, names

    def nodes(self, topic: str, channel: str, parts: Sequence[Part]) -> list[str]:
        """The nodes with windows of a channel or topic. Otherwise as `windows`."""
        where, values = self._of_one(topic, channel, ())
        rows = self._read(self._own_name, where, parts, "node", "GROUP BY node", values=values)
        return [] if rows is None else rows["node"].tolist()

    def deepest(self, count: int, parts: Sequence[Part], node: str = "") -> list[tuple[str, str]]:
        """Topic and channel of the channels in which most waited at any moment, at most `count`. Of several nodes the
        peaks are added up.

        Raises as `windows`.
        """
        rows = self._read(
            "topic, channel, sum(node_peak) AS peak",
            "channel <> '' AND waiting_max > 0 AND " + ("node = $node" if node else _OF_CLUSTER),
            parts,
            "topic, channel, node, waiting_max",
            "GROUP BY topic, channel ORDER BY peak DESC, topic, channel LIMIT $count",
            within="SELECT topic, channel, max(waiting_max) AS node_peak FROM ({}) GROUP BY topic, channel, node",
            values={"count": count} | ({"node": self._before + node} if node else {"before": self._before}),
        )
        return list(zip(map(str, rows["topic"]), map(str, rows["channel"]), strict=True)) if rows else []

    def _of_one(self, topic: str, channel: str, nodes: Sequence[str]) -> tuple[str, dict[str, object]]:
        """The condition for the rows of a channel, a topic or the totals, and its values."""
        where = "topic = $topic AND channel = $channel AND "
        values: dict[str, object] = {"topic": topic, "channel": channel}
        if nodes:
            return f"{where}list_contains($nodes, node)", {**values, "nodes": [self._before + one for one in nodes]}
        return where + _OF_CLUSTER, {**values, "before": self._before}

    def _read(
        self,
        selection: str,
        where: str,
        parts: Sequence[Part],
        columns: str,
        behind: str = "",
        within: str = "{}",
        *,
        values: Mapping[str, object],
    ) -> Rows | None:
        for is_last_try in (False, True):
            values_by_name: dict[str, object] = dict(values)
            reads = self._reads(where, parts, columns, values_by_name)
            if not reads:
                return None
            try:
                found = within.format(" UNION ALL ".join(reads))
                query = f"SELECT {selection} FROM ({found}) {behind}"  # noqa: S608 - names of our own
                rows = self._run(query, values_by_name)
            except (duckdb.Error, UnicodeDecodeError) as exc:
                # A file that a newer commit has replaced may be gone between the two.
                if is_last_try or not isinstance(exc, duckdb.IOException):
                    logger.error("history not read directory=%s error=%s", self.directory, exc)
                    # After a failure of its own duckdb answers nothing any more on this connection.
                    self.close()
                    raise HistoryUnreadableError(_sentence(exc)) from exc
            else:
                _check(rows, parts)
                return rows
        raise AssertionError("the last try returns or raises")

    def _reads(self, where: str, parts: Sequence[Part], columns: str, values: dict[str, object]) -> list[str]:
        """A SELECT for the files of each part; its values go into `values`."""
        reads: list[str] = []
        for part in parts:
            paths = self._source.files(part.level, part.first_s, part.end_s)
            if not paths:
                continue
            number = len(reads)
            values |= {f"files_{number}": paths, f"first_{number}": part.first_s, f"end_{number}": part.end_s}
            reads.append(
                f"SELECT {columns}, {WINDOWS_S[part.level]} AS window_s FROM read_parquet($files_{number}) "  # noqa: S608 - as below
                f"WHERE {where} AND t >= $first_{number} AND t < $end_{number}"
            )
        return reads

    def _run(self, query: str, values: dict[str, object]) -> Rows:
        with PACE.away(), self._lock:
            if self._connection is None:
                self._connection = _connect(self.directory)
            found: Rows = self._connection.execute(query, values).fetchnumpy()
        return found

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _connect(directory: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    # Files never change under their name: their footers are read once.
    connection.execute("SET parquet_metadata_cache = true")
    connection.execute("SET allowed_directories = ?", [[directory]])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _check(rows: Rows, parts: Sequence[Part]) -> None:
    """Check the rows: duckdb trusts a file's statistics about its times, and a damaged file may have wrong ones."""
    for name, first, end in (("t", parts[0].first_s, parts[-1].end_s), ("b", 0, BUCKET_COUNT)):
        column = rows.get(name)
        if column is not None and len(column) and not (first <= int(column.min()) <= int(column.max()) < end):
            raise HistoryUnreadableError("The history can't be read: a file of it is damaged.")


def _sentence(error: duckdb.Error | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "The history can't be read: a file is damaged, and so is the text of the error."
    first_line = str(error).partition("\n")[0].strip()
    if isinstance(error, duckdb.IOException) and "No files found" in first_line:
        path = first_line.rpartition("pattern ")[2].strip('"')
        return f"A file of the history is missing: its table names {path}, which is not there."
    return f"The history can't be read: {first_line}."


_stores = PerCluster[HistoryStore]()
_stores_lock = threading.Lock()


def store_of(source: HistorySource) -> HistoryStore:
    """The store of the cluster that the running code works for, for the source of its gateway."""
    with _stores_lock:
        found = _stores.get()
        if found is None or found._source is not source:
            if found is not None:
                found.close()
            found = HistoryStore(source, current_cluster())
            _stores.put(found)
        return found
