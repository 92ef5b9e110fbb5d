"""The gaps of all archives: which messages are not in their topic's table, and why. Any program can read it.

    <lake>/archive_gaps/    a Delta table without partitions

    topic string · server string · number long · id_base long: the topic · first_offset long · next_offset long: the
    range, its end excluded · count long: of the offsets in it that are not in the archive · reason string · at
    timestamp (UTC, microseconds): when it was found

    damaged     the log had the message, and not intact
    absent      no such message was ever published: offsets that an unclean stop of the server left unused
    gone        the log had removed it before it was read
    retention   the archive lagged further behind than the log may keep for it
    off         the topic's archive was switched off
    replayed    replayed messages, which are left out; others lie between them, so count is less than the range
    begin       where the archive begins: nothing is missing there, count is 0

Of each topic, rows in its table + counts here = next offset - first offset. Gaps are committed before the messages
beside them, with the same app id and version. So a step that is done again after a kill finds some of its gaps here:
`Gaps.not_recorded` leaves those out, and nothing is counted twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.pipeline.archive.archive_gap import BEGIN, GONE, OFF, REPLAYED, ArchiveGap
from queue_engine.pipeline.archive.archive_table import ArchivedIdentity
from queue_engine.pipeline.archive.step_check import WrittenRange
from queue_engine.pipeline.source.arrow_schemas import TIMESTAMP
from queue_engine.pipeline.source.record_columns import ABSENT
from queue_engine.pipeline.tables.parquet_files import write_data_file
from queue_engine.pipeline.tables.store_errors import table_error
from queue_engine.pipeline.tables.table import Move
from queue_engine.pipeline.tables.tables import LakeTables
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
    ]
)


GapRows = dict[ArchivedIdentity, list[ArchiveGap]]


class Gaps:
    """The table of the gaps in one lake."""

    def __init__(self, tables: LakeTables) -> None:
        self._table = tables.open(GAPS, COLUMNS, ())

    @property
    def table_id(self) -> str:
        """The table's identity, made with it. Raises as `LakeTable.create`."""
        self._table.create()
        return self._table.identity

    def next_offsets(self, identities: Sequence[ArchivedIdentity]) -> list[int | None]:
        """Up to where gaps of each were committed; None for one without any. Raises StoreError, TableError."""
        return self._table.transactions([one.app_id for one in identities])

    def read(self, topic: str = "", *, behind: int = -1) -> GapRows:
        """The gaps of a topic's name, or of all; only those that end behind the offset `behind`. Raises as above."""
        found: GapRows = {}
        if not self._table.exists():
            return found
        self._table.refresh()
        for file in self._table.files():
            if topic and not file.minimum.get("topic", "") <= topic <= file.maximum.get("topic", topic):
                continue
            try:
                rows = pq.read_table(self._table.at_filesystem(file), filesystem=self._table.storage.filesystem)
            except FileNotFoundError as exc:
                raise DataFileMissingError(
                    f"{self._table.at(file)} counts in the table, and is not there: restore it from a backup"
                ) from exc
            except (OSError, pa.ArrowException) as exc:
                raise table_error(exc, self._table.at(file)) from None
            for row in rows.to_pylist():
                if topic in ("", row["topic"]) and row["next_offset"] > behind:
                    identity = ArchivedIdentity(row["topic"], row["server"], row["number"], row["id_base"])
                    at_ms = int(row["at"].timestamp() * 1000)
                    gap = ArchiveGap(row["first_offset"], row["next_offset"], row["reason"], at_ms, row["count"])
                    found.setdefault(identity, []).append(gap)
        return {identity: sorted(gaps) for identity, gaps in found.items()}

    def not_recorded(
        self, identity: ArchivedIdentity, archived: int | None, gaps: Iterable[ArchiveGap]
    ) -> list[ArchiveGap]:
        """Those of `gaps`, or parts of them, that are not in the table. archived: the next offset of the topic's table.

        A step that was killed between both commits has left its gaps here, and the log may have lost messages since:
        so what is there is compared, not only how far it goes.
        """
        recorded = self.read(identity.topic, behind=-1 if archived is None else archived).get(identity, [])
        return [piece for gap in gaps for piece in _without(gap, recorded)]

    def commit(
        self, rows: Mapping[ArchivedIdentity, Sequence[ArchiveGap]], ends: Mapping[ArchivedIdentity, int]
    ) -> None:
        """Commit gaps, durably, and of each topic once. ends: of each, the next offset of the step's messages.

        Raises StoreError, TableError."""
        listed = [(identity, gap) for identity, gaps in rows.items() for gap in gaps]
        if not listed:
            return
        identities = list(dict.fromkeys(identity for identity, _ in listed))
        moves = [
            # Behind a step that was killed, so that this commit is not taken for that one.
            Move(one.app_id, ends[one] if known is None else max(ends[one], known + 1), known)
            for one, known in zip(identities, self.next_offsets(identities), strict=True)
        ]
        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS.names}
        for identity, gap in listed:
            for name in ("topic", "server", "number", "id_base"):
                columns[name].append(getattr(identity, name))
            for name in ("first_offset", "next_offset", "count", "reason"):
                columns[name].append(getattr(gap, name))
            columns["at"].append(gap.at_ms * 1000)
        columns["at"] = pa.array(columns["at"], pa.int64()).cast(TIMESTAMP)
        table = pa.table(columns, schema=COLUMNS)
        try:
            file = write_data_file(self._table.storage, GAPS, COLUMNS, {}, [table])
        except (OSError, pa.ArrowException) as exc:
            raise table_error(exc, self._table.place) from None
        self._table.commit_moves([file], moves)


def gaps_of(written: WrittenRange, at_ms: int) -> list[ArchiveGap]:
    """What of a range is not in its files."""
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


def _without(gap: ArchiveGap, recorded: Sequence[ArchiveGap]) -> list[ArchiveGap]:
    """The parts of a gap that no recorded gap of its kind covers."""
    if gap.reason in (REPLAYED, BEGIN):
        # A step behind a killed one ends where that ended, so it leaves out the same messages.
        return [] if any(one.reason == gap.reason for one in recorded) else [gap]
    pieces = [gap]
    for one in recorded:
        if one.reason not in (REPLAYED, BEGIN):
            pieces = [part for piece in pieces for part in _cut(piece, one)]
    # Replayed messages lie between others, and are counted already.
    counted = [one for one in recorded if one.reason == REPLAYED]
    return [
        replace(piece, count=piece.count - sum(one.count for one in counted if _has(piece, one))) for piece in pieces
    ]


def _has(gap: ArchiveGap, other: ArchiveGap) -> bool:
    return gap.first_offset <= other.first_offset and other.next_offset <= gap.next_offset


def _cut(gap: ArchiveGap, other: ArchiveGap) -> list[ArchiveGap]:
    """The parts of a gap before and behind another one."""
    first, after = max(gap.first_offset, other.first_offset), min(gap.next_offset, other.next_offset)
    if first >= after:
        return [gap]
    return [
        ArchiveGap(begin, end, gap.reason, gap.at_ms)
        for begin, end in ((gap.first_offset, first), (after, gap.next_offset))
        if begin < end
    ]
