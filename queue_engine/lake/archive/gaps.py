"""The gaps of all archives: which messages are not in their topic's table, and why. Any program can read it.

    <lake>/archive_gaps/    a Delta table without partitions

    topic string · server string · number long · id_base long: the topic · first_offset long · next_offset long: the
    range, its end excluded · count long: of the offsets in it that are not in the archive · reason string · at
    timestamp (UTC, microseconds): when it was found · lost long · left_out long · unused long: how many of count are
    lost messages, messages left out on purpose, and offsets that no message ever had

    damaged     the log had the message, and not intact
    absent      no such message was ever published: offsets that an unclean stop of the server left unused
    gone        the log had removed it before it was read
    retention   the archive lagged further behind than the log may keep for it
    off         the topic's archive was switched off
    lost        the archive had it, and its table, or a file of it, is gone or was put back to an earlier state
    replayed    replayed messages, which are left out; others lie between them, so count is less than the range
    begin       where the archive begins: nothing is missing there, count is 0

The last three columns came later, and split count by reason: the first commit to an older table adds them, and
its rows have null there; `penstock sql` computes them for all rows. An older version refuses a table that has them
("the column lost is new"): its archive rests, loses nothing, and goes on once a version that has these columns runs.

Of each topic, rows in its table + counts here = next offset - first offset. Gaps are committed before the messages
beside them, with the same app id and version. So a step that was killed in between leaves gaps behind the end of its
topic's table: the topic's next commit replaces them, and nothing is counted twice. The rows
of a killed repair are found by their time (repair.py). A table that is gone is made anew from the summary when the job
starts, with the begin of each archive and the newest gaps of each topic (summary.py).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.lake.archive.archive_gap import BEGIN, GONE, LOST, OFF, REPLAYED, ArchiveGap
from queue_engine.lake.archive.archive_table import ArchivedIdentity
from queue_engine.lake.archive.step_check import WrittenRange
from queue_engine.lake.source.arrow_schemas import TIMESTAMP
from queue_engine.lake.source.record_columns import ABSENT
from queue_engine.lake.tables.parquet_files import DataFile, write_data_file
from queue_engine.lake.tables.store_errors import table_error
from queue_engine.lake.tables.table import LakeTable, Move
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import DataFileMissingError
from queue_engine.wire.cursor import CursorStats

GAPS = "archive_gaps"
COLUMNS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("server", pa.string(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("id_base", pa.int64(), nullable=False),
        pa.field("first_offset", pa.int64(), nullable=False),
        pa.field("next_offset", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("lost", pa.int64()),
        pa.field("left_out", pa.int64()),
        pa.field("unused", pa.int64()),
    ]
)
LATER = ("lost", "left_out", "unused")
# Of the other reasons all is lost; the view of `penstock sql` has the same (query/views.py).
_KINDS = {OFF: "left_out", REPLAYED: "left_out", ABSENT: "unused"}


def gaps_table(tables: LakeTables) -> LakeTable:
    """The table of the gaps, there or not."""
    return tables.open(GAPS, COLUMNS, (), later=LATER)


GapRow = tuple[ArchivedIdentity, ArchiveGap]
GapRows = dict[ArchivedIdentity, list[ArchiveGap]]


class Gaps:
    """The table of the gaps in one lake."""

    def __init__(self, tables: LakeTables) -> None:
        self._table = gaps_table(tables)

    @property
    def table_id(self) -> str:
        """The table's identity, made with it. Raises as `LakeTable.create`."""
        self._table.create()
        return self._table.identity

    def next_offsets(self, identities: Sequence[ArchivedIdentity]) -> list[int | None]:
        """Up to where gaps of each were committed; None for one without any. Raises StoreError, TableError."""
        return self._table.transactions([one.app_id for one in identities])

    def read(self, topic: str = "") -> GapRows:
        """The gaps of a topic's name, or of all. Raises as above."""
        found: GapRows = {}
        for _, rows in self._files({topic} if topic else set()):
            for identity, gap in rows:
                if topic in ("", identity.topic):
                    found.setdefault(identity, []).append(gap)
        return {identity: sorted(gaps) for identity, gaps in found.items()}

    def commit(
        self,
        gaps: Mapping[ArchivedIdentity, Sequence[ArchiveGap]],
        ranges: Mapping[ArchivedIdentity, tuple[int | None, int]],
    ) -> None:
        """Commit gaps, durably, and of each topic once. They replace those that a killed step has left.

        gaps: of each topic of `ranges`; those of others are committed beside. ranges: the next offset of its table,
        None for none, and that of the step. Raises StoreError, TableError."""
        versions = dict(zip(ranges, self.next_offsets(list(ranges)), strict=True))
        ends = {one: -1 if archived is None else archived for one, (archived, _) in ranges.items()}
        left = {one: ends[one] for one, at in versions.items() if at is not None and at > ends[one]}
        rows, replaced = self._beside(left, lambda one, gap: one in left and not _lies_before(gap, left[one]))
        rows += [(identity, gap) for identity, found in gaps.items() for gap in found]
        if not rows and not replaced:
            return
        moves = []
        for one, (_, end) in ranges.items():
            at = versions[one]
            if gaps[one] or (replaced and one in left):
                # Behind a step that was killed, so that this commit is not taken for that one.
                moves.append(Move(one.app_id, end if at is None else max(end, at + 1), at))
        files = [self._written(rows)] if rows else []
        self._table.commit_moves(files, moves, remove=replaced)

    # Repairs.

    def unfinished_repairs(self, identities: Iterable[ArchivedIdentity], table: LakeTable, server: str) -> set[int]:
        """The times (Unix ms) of the gaps that repairs have committed and whose table did not follow: of those of these
        topics of one name that are of `server`. Another server may be between its two commits."""
        app_ids = [one.repair_app_id for one in set(identities) if one.server == server]
        pairs = zip(self._table.transactions(app_ids), table.transactions(app_ids), strict=True)
        return {begun for begun, done in pairs if begun is not None and (done is None or done < begun)}

    def time_behind_lost(self, topic: str, now_ms: int, others: Iterable[int | None]) -> int:
        """The time (Unix ms) for new lost gaps of a topic's name: now, or behind that of each other one and of `others`
        where the clock was set back. So no repair takes the gaps of anything else for its own."""
        lost_ms = (gap.at_ms for gaps in self.read(topic).values() for gap in gaps if gap.reason == LOST)
        return max(now_ms, 0, *(one + 1 for one in (*lost_ms, *others) if one is not None))

    def commit_lost(
        self, identity: ArchivedIdentity, rows: Sequence[GapRow], at_ms: int, *, unfinished: Collection[int]
    ) -> None:
        """Commit the rows that a repair of a topic's table finds lost, durably. They replace those of unfinished
        repairs. at_ms: of the rows, and the version of the commit. Raises StoreError, TableError."""

        def is_left(one: ArchivedIdentity, gap: ArchiveGap) -> bool:
            return (one.topic, gap.reason) == (identity.topic, LOST) and gap.at_ms in unfinished

        others, replaced = self._beside([identity] if unfinished else [], is_left)
        if not rows and not replaced:
            return
        (version,) = self._table.transactions([identity.repair_app_id])
        written = [*others, *rows]
        move = Move(identity.repair_app_id, at_ms, version)
        self._table.commit_moves([self._written(written)] if written else [], [move], remove=replaced)

    def _beside(
        self, topics: Iterable[ArchivedIdentity], is_left: Callable[[ArchivedIdentity, ArchiveGap], bool]
    ) -> tuple[list[GapRow], list[str]]:
        """Returns the other rows, and the paths, of files with gaps of these topics' names that a killed process
        left."""
        names = {one.topic for one in topics}
        others: list[GapRow] = []
        paths = []
        for file, rows in self._files(names) if names else ():
            beside = [(one, gap) for one, gap in rows if not is_left(one, gap)]
            if len(beside) < len(rows):
                others += beside
                paths.append(file.path)
        return others, paths

    def _files(self, topics: Collection[str]) -> Iterator[tuple[TableFile, list[GapRow]]]:
        """Each file that may have gaps of these names, or of all for none, with all of its rows."""
        if not self._table.exists():
            return
        self._table.refresh()
        for file in self._table.files():
            low, high = file.minimum.get("topic", ""), file.maximum.get("topic")
            if topics and not any(low <= one and (high is None or one <= high) for one in topics):
                continue
            try:
                rows = pq.read_table(self._table.at_filesystem(file), filesystem=self._table.storage.filesystem)
            except FileNotFoundError as exc:
                raise DataFileMissingError(
                    f"{self._table.at(file)} counts in the table, and is not there: restore it from a backup"
                ) from exc
            except (OSError, pa.ArrowException) as exc:
                raise table_error(exc, self._table.at(file)) from None
            yield file, [_row_of(row) for row in rows.to_pylist()]

    def _written(self, rows: Sequence[GapRow]) -> DataFile:
        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS.names}
        for identity, gap in rows:
            for name in ("topic", "server", "number", "id_base"):
                columns[name].append(getattr(identity, name))
            for name in ("first_offset", "next_offset", "count", "reason"):
                columns[name].append(getattr(gap, name))
            columns["at"].append(gap.at_ms * 1000)
            kind = _KINDS.get(gap.reason, "lost")
            for name in LATER:
                columns[name].append(gap.count if name == kind else 0)
        columns["at"] = pa.array(columns["at"], pa.int64()).cast(TIMESTAMP)
        table = pa.table(columns, schema=COLUMNS)
        try:
            return write_data_file(self._table.storage, GAPS, COLUMNS, {}, [table])
        except (OSError, pa.ArrowException) as exc:
            raise table_error(exc, self._table.place) from None


def _row_of(row: Mapping[str, Any]) -> GapRow:
    identity = ArchivedIdentity(row["topic"], row["server"], row["number"], row["id_base"])
    # Not cut off: a float may lie below the millisecond, and a repair's gaps are found by their time.
    at_ms = round(row["at"].timestamp() * 1000)
    return identity, ArchiveGap(row["first_offset"], row["next_offset"], row["reason"], at_ms, row["count"])


def _lies_before(gap: ArchiveGap, end: int) -> bool:
    """Whether a gap is one of the steps up to `end`, the next offset of its topic's table; -1 before the first one."""
    return gap.first_offset < end or (gap.reason == BEGIN and end >= 0)


def gaps_of(written: WrittenRange, at_ms: int) -> list[ArchiveGap]:
    """The gaps of a range: its offsets that are not in its files."""
    wanted = written.wanted
    gaps = [ArchiveGap(first, after, ABSENT, at_ms) for first, after in wanted.unused]
    gaps += [ArchiveGap(first, after, reason, at_ms) for first, after, reason in written.missing]
    runs = written.left_out
    if len(runs):
        count = int(np.sum(runs[:, 1] - runs[:, 0]))
        gaps.append(ArchiveGap(int(runs[0, 0]), int(runs[-1, 1]), REPLAYED, at_ms, count))
    return sorted(gaps)


def gaps_to(next_offset: int, cursor: CursorStats, begin: int, at_ms: int) -> list[ArchiveGap]:
    """The gaps of an archive that ends at next_offset and goes on at `begin`, which lies behind it.

    cursor: with the gaps at which it was cut off.
    """
    gaps: list[ArchiveGap] = []
    for gap in sorted(cursor.gaps, key=lambda one: one.first_offset):
        first, after = max(gap.first_offset, next_offset), min(gap.next_offset, begin)
        if first < after:
            if first > next_offset:
                gaps.append(ArchiveGap(next_offset, first, OFF, at_ms))
            gaps.append(ArchiveGap(first, after, gap.reason, gap.at_ms))
            next_offset = after
    if next_offset < begin:
        # OFF: the cursor was created after the archive had ended. GONE: the log removed messages before the cursor.
        gaps.append(ArchiveGap(next_offset, begin, OFF if cursor.offset >= begin else GONE, at_ms))
    return gaps


def lost_gaps(recorded: Sequence[ArchiveGap], first: int, lost_end: int, begin: int, at_ms: int) -> list[ArchiveGap]:
    """The gaps from `first` to `begin`, of an archive that begins again there after its table was lost.

    recorded: the gaps that it had. lost_end: where it had ended: offsets before it are LOST, later ones OFF."""
    gaps: list[ArchiveGap] = []

    def fill(until: int) -> None:
        for end, reason in ((min(lost_end, until), LOST), (until, OFF)):
            at = gaps[-1].next_offset if gaps else first
            if at < end:
                gaps.append(ArchiveGap(at, end, reason, at_ms))

    for gap in sorted(recorded):
        start = max(gap.first_offset, gaps[-1].next_offset if gaps else first)
        # Replayed messages lie among others: of a part of such a range their count is unknown.
        is_whole = start == gap.first_offset and gap.next_offset <= begin
        after = min(gap.next_offset, begin)
        if gap.reason == BEGIN or start >= after or not (is_whole or gap.reason != REPLAYED):
            continue
        fill(start)
        # Lost rows get the time of now, too: a repair's rows are found by its own.
        gap_ms = at_ms if gap.reason == LOST else gap.at_ms
        gaps.append(replace(gap, at_ms=gap_ms) if is_whole else ArchiveGap(start, after, gap.reason, gap_ms))
        if gap.reason == REPLAYED and (others := after - start - gap.count):
            gaps.append(ArchiveGap(start, after, LOST, at_ms, others))
    fill(begin)
    return gaps
