"""Repairs an archive's table: which messages are missing with its files, and which are written again.

    1. data files with the messages that the log still has are written and checked (archive.py)
    2. the other messages are committed to `archive_gaps` as lost               killed here: the next repair replaces it
    3. one commit of the table removes the missing files and adds the new ones  from here on it is done

A repair handles about as many rows as a step of the archive; the next one goes on with the files that are left.

Steps 2 and 3 move the same app id (archive_table.py) to the same version, which the rows of step 2 have for their time:
where the table is behind `archive_gaps`, these rows count for nothing, and go. A table whose files were put back
meanwhile lacks nothing, and its rows go, too.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from queue_engine.client.log_api.message_ranges import MessageRanges, OffsetRange
from queue_engine.lake.archive.archive_files import files_of, offset_bounds, offsets_in, owner_of
from queue_engine.lake.archive.archive_gap import LOST, REPLAYED, ArchiveGap
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_table
from queue_engine.lake.archive.gaps import GapRow, Gaps
from queue_engine.lake.archive.step_check import WrittenRange
from queue_engine.lake.archive.step_writer import runs_of
from queue_engine.lake.source.wanted_range import WantedRange, synced_messages, wanted_range
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.wire.topic_state import TopicState

# As many ranges as a sentence names.
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Repair:
    """files: the missing ones. wanted: offsets of the topic that only they had, in ascending ranges; readable: those of
    them that the log has. rows: how many of the topic's the files had. replayed: ranges in which messages were left out
    because they were replayed. others: as lost, the files' rows of other topics of the name, which this log does not
    have, and files that other programs wrote without statistics. left_count: missing files for the next repair."""

    identity: ArchivedIdentity
    state: TopicState
    files: tuple[TableFile, ...]
    wanted: tuple[OffsetRange, ...]
    readable: tuple[OffsetRange, ...]
    rows: int
    replayed: tuple[OffsetRange, ...]
    others: tuple[tuple[ArchivedIdentity, OffsetRange, int], ...]
    left_count: int

    def ranges(self, rows_max: int) -> Iterator[tuple[WantedRange, bool]]:
        """The ranges to read, at most rows_max messages each, and whether replayed messages were left out there: each
        range lies in one of the replayed ones, or beside all."""
        replayed = MessageRanges(self.replayed)
        for first, after in self.readable:
            beside = [(*part, False) for part in replayed.unused_between(first, after)]
            within = [(*part, True) for part in replayed.within(first, after)]
            for begin, end, leaves_out in sorted(beside + within):
                for at in range(begin, end, rows_max):
                    yield wanted_range(self.state, at, min(at + rows_max, end)), leaves_out

    @property
    def readable_count(self) -> int:
        return sum(after - first for first, after in self.readable)

    @property
    def unreadable_count(self) -> int:
        """About how many messages stay missing, estimated before the log is read."""
        wanted = sum(after - first for first, after in self.wanted)
        return min(wanted - self.readable_count, self.rows) + sum(rows for *_, rows in self.others)

    def gaps(self, written: Sequence[WrittenRange], at_ms: int) -> list[GapRow]:
        """The messages that are lost although these ranges were written."""
        missing = _joined((first, after) for one in written for first, after, _ in one.missing)
        there = [part for first, after in self.readable for part in MessageRanges(missing).unused_between(first, after)]
        runs = [part for first, after in self.wanted for part in MessageRanges(there).unused_between(first, after)]
        # Gaps have only the number of replayed messages in a range; the files' rows are the others.
        left_out = sum(after - first for first, after in runs) - self.rows + sum(one.rows for one in written)
        found: list[GapRow] = []
        for first, after in runs:
            replayed = min(max(left_out, 0), MessageRanges(self.replayed).count_between(first, after))
            left_out -= replayed
            if count := after - first - replayed:
                found.append((self.identity, ArchiveGap(first, after, LOST, at_ms, count)))
        found += [(one, ArchiveGap(first, after, LOST, at_ms, rows)) for one, (first, after), rows in self.others]
        return found


def plan_repair(
    tables: LakeTables,
    identity: ArchivedIdentity,
    state: TopicState,
    files: Sequence[TableFile],
    start: int,
    rows_max: int | None = None,
) -> Repair:
    """Plan how the missing `files` of a topic's table are written again. state: the topic in the log. start: messages
    before this offset are not read. rows_max: only the first files that have about so many rows to be read, and all
    that have none; None for all. Raises StoreError, TableError."""
    table = archive_table(tables, identity.topic)
    end = table.transaction(identity.app_id) or 0
    gaps = Gaps(tables)
    found = gaps.read(identity.topic)
    unfinished = gaps.unfinished_repairs({identity, *found}, table, identity.server)
    recorded = [one for one in found.get(identity, []) if not (one.reason == LOST and one.at_ms in unfinished)]
    owners = {file.path: owner_of(file, {identity, *found}) for file in files}
    others = [file for file in files if owners[file.path] != identity]
    oldest, messages = max(start, state.oldest_offset), synced_messages(state)
    all_own = [file for file in files if owners[file.path] == identity]
    own = all_own if rows_max is None else _first_of(all_own, end, oldest, rows_max)
    covered = _joined(_range_of(file, end) for file in own)
    # Of a replayed range the messages among the replayed ones are in the table, or were.
    taken = [(one.first_offset, one.next_offset) for one in recorded if one.count == one.next_offset - one.first_offset]
    taken += _offsets_beside(table, identity, covered, owners.keys())
    wanted = [part for first, after in covered for part in MessageRanges(_joined(taken)).unused_between(first, after)]
    return Repair(
        identity,
        state,
        (*own, *others),
        tuple(wanted),
        tuple(part for first, after in wanted for part in messages.within(max(first, oldest), after)),
        sum(file.rows for file in own),
        tuple(_joined((one.first_offset, one.next_offset) for one in recorded if one.reason == REPLAYED)),
        tuple((owners[one.path] or identity, _range_of(one, end), one.rows) for one in others),
        len(all_own) - len(own),
    )


def missing_sentence(
    table: LakeTable, files: Sequence[TableFile], identity: ArchivedIdentity, others: Collection[ArchivedIdentity]
) -> str:
    """How much is missing: `2 of the 7 files of the table X are missing, with 20 messages, offsets 0 to 19`, and how
    many of these are of other topics than `identity`, which its log does not have. others: all topics of the name."""
    owned: dict[ArchivedIdentity | None, list[TableFile]] = {}
    for file in files:
        owned.setdefault(owner_of(file, {identity, *others}), []).append(file)
    count, verb = table.file_count or len(files), "is" if len(files) == 1 else "are"
    sentence = (
        f"{len(files):,} of the {count:,} files of the table {table.place} {verb} missing, "
        f"with {sum(one.rows for one in files):,} messages"
    )
    if owned.keys() == {identity}:
        return f"{sentence}{_offsets_named(files)}"
    order = sorted(owned, key=lambda one: (one is None, one != identity, str(one)))
    parts = [
        f"{sum(file.rows for file in owned[one]):,} {_owner_named(one, identity)}{_offsets_named(owned[one])}"
        for one in order[: NAMED_MAX + 1]
    ]
    if more := sum(file.rows for one in order[NAMED_MAX + 1 :] for file in owned[one]):
        parts.append(f"{more:,} of others")
    foreign = sum(file.rows for one in order if one != identity for file in owned[one])
    return f"{sentence} ({'; '.join(parts)}), {foreign:,} of which become lost when this server writes files again"


def _owner_named(owner: ArchivedIdentity | None, identity: ArchivedIdentity) -> str:
    if owner is None:
        return "in files of several topics or without statistics"
    if owner == identity:
        return "of this topic"
    server = f"server {owner.server}, " if owner.server != identity.server else ""
    return f"of {server}topic number {owner.number}"


def _offsets_named(files: Sequence[TableFile]) -> str:
    """`, offsets 0 to 9, 20 to 29`; "" where no file's statistics have them."""
    ranges = _joined(_range_of(one, 0) for one in files if "offset" in one.maximum)
    named = [f"{first:,} to {after - 1:,}" for first, after in ranges[:NAMED_MAX]]
    if more := len(ranges) - len(named):
        named.append(f"{more:,} more ranges")
    return f", offsets {', '.join(named)}" if named else ""


def _range_of(file: TableFile, end: int) -> OffsetRange:
    """The offsets of a file; up to `end` where it has no statistics."""
    first, last = offset_bounds(file)
    return first, last + 1 if "offset" in file.maximum else max(first, end)


def _first_of(files: Sequence[TableFile], end: int, oldest: int, rows_max: int) -> list[TableFile]:
    """The first of a topic's files, with about rows_max rows from the offset `oldest` on. Files whose ranges overlap
    stay together: neither alone shows which offsets of such a range it had."""
    found: list[TableFile] = []
    rows = reach = 0
    for file in sorted(files, key=lambda one: (_range_of(one, end), one.path)):
        first, after = _range_of(file, end)
        count = file.rows if after > oldest else 0
        if rows and first >= reach and rows + count > rows_max:
            break
        found.append(file)
        rows += count
        reach = max(reach, after)
    return found


def _offsets_beside(
    table: LakeTable, identity: ArchivedIdentity, covered: Sequence[OffsetRange], missing: Collection[str]
) -> list[OffsetRange]:
    """The topic's offsets in files that are there and reach into those ranges, as a clock that was set back leaves them
    in the files of two dates."""
    found: list[OffsetRange] = []
    for file in files_of(table, identity) if covered else ():
        first, last = offset_bounds(file)
        if file.path not in missing and MessageRanges(covered).within(first, last + 1):
            found += [(begin, after) for begin, after in runs_of(offsets_in(table, file, identity)).tolist()]
    return found


def _joined(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Ranges in any order as ascending ones with a gap between any two."""
    joined: list[OffsetRange] = []
    for first, after in sorted(ranges):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], after))
        elif first < after:
            joined.append((first, after))
    return joined
