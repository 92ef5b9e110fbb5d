"""All archives of one lake: how far each topic is archived, and the commits that take it further.

Two tables have a part of each step, and are committed in this order: the gaps, then the messages. The messages' commit
is the one that counts; `gaps.py` says how a step that was killed in between goes on.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from queue_engine.lake.archive.archive_files import files_of, newest_first, offset_bounds, row_counts
from queue_engine.lake.archive.archive_gap import BEGIN, ArchiveGap
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_table
from queue_engine.lake.archive.gaps import GapRows, Gaps, lost_gaps
from queue_engine.lake.archive.lake_identity import NAME as LAKE_FILE
from queue_engine.lake.archive.lake_identity import lake_identity
from queue_engine.lake.archive.repair import Repair, missing_sentence, plan_repair
from queue_engine.lake.archive.step_check import WrittenRange
from queue_engine.lake.archive.summary import (
    GAPS_MAX,
    ArchivedIncarnation,
    ArchivedTopic,
    ArchiveSummary,
)
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.error_sentences import sentence_of
from queue_engine.lake.tables.missing_files import missing_files
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import (
    ArchiveFilesMissingError,
    ArchiveLostError,
    PipelineError,
    StoreError,
    StoreUnreachableError,
    TableMissingError,
)
from queue_engine.wire.cursor import CursorStats
from queue_engine.wire.topic_state import TopicState

logger = logging.getLogger(__name__)

# A commit waits for the disk or the network most of its time.
COMMIT_THREADS = 4
# How often the files of a table are looked at: one list of its directory.
LOOK_EVERY_NS = 3_600 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Commit:
    """One topic's messages from first_offset up to but not including next_offset, and the gaps beside them. is_first:
    whether nothing was archived of the topic before."""

    identity: ArchivedIdentity
    first_offset: int
    next_offset: int
    is_first: bool
    files: Sequence[DataFile] = ()
    gaps: Sequence[ArchiveGap] = ()

    @property
    def archived(self) -> int | None:
        """Where the archive ends before it."""
        return None if self.is_first else self.first_offset

    def begin(self, at_ms: int) -> list[ArchiveGap]:
        """The mark of where the archive begins, in the first commit."""
        return [ArchiveGap(self.first_offset, self.first_offset, BEGIN, at_ms)] if self.is_first else []

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)


class Archives:
    """The archives in the lake of `tables`; only the process that holds the lake makes one.

    identity: the lake's. summary: the entries that pages show; each commit updates it.
    """

    def __init__(self, lake: Lake, tables: LakeTables, server: str, clock: Clock) -> None:
        """server: the identity of the data directory. Raises LakeDamagedError, StoreError, TableError."""
        self._server = server
        self._tables = tables
        self._clock = clock
        self._gaps = Gaps(tables)
        self._next: dict[ArchivedIdentity, int | None] = {}
        self._looked_ns: dict[ArchivedIdentity, int] = {}
        self.identity = lake_identity(tables.storage, self._gaps)
        self.summary = ArchiveSummary(lake, clock)
        if self.summary.is_new:
            self._sum_up_all()
        else:
            self._write_gaps_anew()

    def is_lake_readable(self) -> bool:
        """Whether the store lets this process read at least who the lake is."""
        try:
            return self._tables.storage.read(LAKE_FILE, 1) is not None
        except StoreError:
            return False

    # How far.

    def next_offset(self, identity: ArchivedIdentity) -> int | None:
        """The next offset to be archived; None when nothing was archived of it. Raises StoreError, TableError."""
        if identity not in self._next:
            # Only this process commits for it.
            self._next[identity] = archive_table(self._tables, identity.topic).transaction(identity.app_id)
        return self._next[identity]

    def lost_end(self, cursor: CursorStats, identity: ArchivedIdentity) -> int | None:
        """Where the archive had ended, when its table does not reach that place any more; None when it does. Raises
        StoreError, TableError."""
        archived = self.next_offset(identity)
        entry = self.summary.topics.get(identity.topic)
        if entry is not None and entry.table_version >= 0 and _identity_of(entry) == identity:
            return None if archived is not None and archived >= entry.next_offset else entry.next_offset
        # Without a summary: a cursor that belongs to this lake was moved on behind a commit.
        if archived is None and cursor.lake == self.identity and cursor.offset > self.begun_at(identity, cursor.offset):
            return cursor.offset
        return None

    def lost(self, identity: ArchivedIdentity, lost_end: int) -> ArchiveLostError:
        """The error of an archive that had ended at `lost_end`."""
        topic, archived = identity.topic, self._next.get(identity)
        found = "is gone" if archived is None else f"ends at offset {archived:,}"
        return ArchiveLostError(
            f"{topic} was archived up to offset {lost_end:,}, and its table {archive_table(self._tables, topic).place} "
            f"{found}: nothing more of it is archived, and the log keeps its messages. Put the table back from a "
            "backup, and the archive goes on; or begin again with the messages of the log, or from now on (New table… "
            f"on the page Pipeline, or penstock pipeline rearchive {topic})"
        )

    def gives_up(self, identity: ArchivedIdentity, cursor: CursorStats) -> bool:
        """Whether an archive that begins again at the cursor leaves out messages of the log, and the summary does not
        show the loss of the table, so that no operator chose this. Raises StoreError, TableError."""
        summary = self.summary.topics.get(identity.topic)
        is_shown = summary is not None and summary.is_table_lost
        return not is_shown and cursor.offset > max(cursor.oldest_offset, self.next_offset(identity) or 0)

    def lost_topics(self) -> set[str]:
        return {topic for topic, one in self.summary.topics.items() if one.is_lost}

    def begin_again(self, identity: ArchivedIdentity, lost_end: int, offset: int) -> int:
        """Begin at `offset` behind a lost table, or where the table ends if that is further on; earlier offsets that
        are not in the table are a gap. Returns where it begins. Done twice, it is done once. Raises PipelineError."""
        archived = self.next_offset(identity)
        begin = max(offset, archived or 0)
        first = min(begin, self.begun_at(identity, offset)) if archived is None else archived
        gaps_before = [
            one for one in self._gaps.read(identity.topic).get(identity, []) if one.first_offset >= (archived or 0)
        ]
        # Not the time of a repair whose table is lost now: gaps of that time count for nothing.
        unfinished = self._unfinished_repairs(identity)
        at_ms = self._gaps.time_behind_lost(identity.topic, self._clock.time_ns() // NS_PER_MS, unfinished)
        gaps = lost_gaps(gaps_before, first, lost_end, begin, at_ms)
        if error := self.commit([Commit(identity, first, begin, archived is None, gaps=gaps)])[identity]:
            raise error
        self.summary.forget(identity.topic)
        self._sum_up_anew(identity, self._clock.time_ns() // NS_PER_MS)
        logger.warning("archive begins again topic=%s offset=%d ended_at=%d", identity.topic, begin, lost_end)
        # Before the cursor belongs to this lake again: from then on a table that ends before the summary's offset is
        # lost.
        self.summary.write(is_last=True)
        return begin

    def begun_at(self, identity: ArchivedIdentity, offset: int) -> int:
        """Where an archive without a table begins: `offset`, or earlier where its gaps begin earlier: then its first
        step was killed."""
        if self._gaps.next_offsets([identity]) == [None]:
            return offset
        gaps = self._gaps.read(identity.topic).get(identity, [])
        return min([offset, *(one.first_offset for one in gaps if one.reason == BEGIN)])

    # Files that are missing.

    def is_look_due(self, identity: ArchivedIdentity, *, is_anew: bool) -> bool:
        """Whether to look for missing files of a table. is_anew: whether its cursor was made anew."""
        entry = self.summary.topics.get(identity.topic)
        if entry is None or entry.table_version < 0 or _identity_of(entry) != identity:
            return False
        looked_ns = self._looked_ns.get(identity)
        is_long_ago = looked_ns is None or self._clock.monotonic_ns() - looked_ns >= LOOK_EVERY_NS
        return is_anew or entry.is_lost or is_long_ago

    def missing_files(self, identity: ArchivedIdentity) -> list[TableFile]:
        """Return the files of a table that are missing. Where none is, the gaps that a killed repair left go, and the
        table no longer counts as lost. Raises StoreError, TableError."""
        self._looked_ns.pop(identity, None)
        table = archive_table(self._tables, identity.topic)
        found = missing_files(table)
        if not found:
            unfinished = self._unfinished_repairs(identity)
            if unfinished:
                at_ms = self._gaps.time_behind_lost(identity.topic, 0, unfinished)
                self._gaps.commit_lost(identity, [], at_ms, unfinished=unfinished)
            entry = self.summary.topics.get(identity.topic)
            is_noted = entry is not None and (entry.is_lost or entry.is_partial)
            if entry is not None and (is_noted or entry.table_version != table.version or unfinished):
                self._sum_up_anew(identity, entry.committed_ms)
            self._looked_ns[identity] = self._clock.monotonic_ns()
        return found

    def _unfinished_repairs(self, identity: ArchivedIdentity) -> set[int]:
        """Of this topic, and of those of this server that had its name before."""
        entry = self.summary.topics.get(identity.topic)
        others = [] if entry is None else _identities_of(entry)
        table = archive_table(self._tables, identity.topic)
        return self._gaps.unfinished_repairs([identity, *others], table, identity.server)

    def incomplete(self, identity: ArchivedIdentity, files: Sequence[TableFile]) -> ArchiveFilesMissingError:
        """The error of an archive whose table lacks these files. Raises StoreError, TableError."""
        topic = identity.topic
        missing = missing_sentence(archive_table(self._tables, topic), files, identity, self._gaps.read(topic))
        return ArchiveFilesMissingError(
            f"{missing}: nothing more of {topic} is archived, and the log keeps its messages. "
            "Put the files back from a backup, and the archive goes on; or have the log's messages of them written "
            f"again (Write missing files… on the page Pipeline, or penstock pipeline rearchive {topic})"
        )

    def plan_repair(
        self, identity: ArchivedIdentity, state: TopicState, files: Sequence[TableFile], start: int, rows_max: int
    ) -> Repair:
        return plan_repair(self._tables, identity, state, files, start, rows_max)

    def is_partial(self, identity: ArchivedIdentity) -> bool:
        """Whether the summary shows that files of a table are missing."""
        entry = self.summary.topics.get(identity.topic)
        return entry is not None and entry.is_partial and _identity_of(entry) == identity

    def commit_repair(self, repair: Repair, written: Sequence[WrittenRange]) -> bool:
        """Commit the files written in the place of missing ones, and the lost messages. Returns False, and commits
        nothing, where one of the files was put back meanwhile: the table keeps it. Raises StoreError, TableError."""
        identity = repair.identity
        table = archive_table(self._tables, identity.topic)
        if back := {one.path for one in repair.files} - {one.path for one in missing_files(table)}:
            logger.warning("missing files are back, repair begins anew topic=%s files=%d", identity.topic, len(back))
            return False
        done = table.transaction(identity.repair_app_id)
        unfinished = self._unfinished_repairs(identity)
        now_ms = self._clock.time_ns() // NS_PER_MS
        at_ms = self._gaps.time_behind_lost(identity.topic, now_ms, [*unfinished, done])
        gaps = repair.gaps(written, at_ms)
        self._gaps.commit_lost(identity, gaps, at_ms, unfinished=unfinished)
        files = [file for one in written for file in one.files]
        table.commit(files, identity.repair_app_id, at_ms, after=done, remove=[one.path for one in repair.files])
        logger.warning(
            "archive written again topic=%s missing_files=%d rows=%d lost=%d",
            identity.topic,
            len(repair.files),
            sum(one.rows for one in files),
            sum(gap.count for _, gap in gaps),
        )
        self._looked_ns[identity] = self._clock.monotonic_ns()
        entry = self.summary.topics.get(identity.topic)
        self._sum_up_anew(identity, now_ms)
        if repair.left_count and entry is not None and entry.is_partial:
            # The table still lacks files.
            summed = self.summary.topics[identity.topic]
            self.summary.put(replace(summed, error=entry.error, is_lost=entry.is_lost, is_partial=True))
        self.summary.write(is_last=True)
        return True

    # Commits.

    def commit(self, commits: Sequence[Commit]) -> dict[ArchivedIdentity, PipelineError | None]:
        """Commit messages with their gaps, durably and once. Returns the error of each topic that was not committed.

        Raises StoreError, TableError when the gaps can't be committed: then nothing of it counts.
        """
        now_ms = self._clock.time_ns() // NS_PER_MS
        gaps = {one.identity: [*one.begin(now_ms), *one.gaps] for one in commits}
        for one in commits:
            # Until the outcome is seen: whatever ends this call, the tables are read again.
            self._next.pop(one.identity, None)
        self._gaps.commit(gaps, {one.identity: (one.archived, one.next_offset) for one in commits})
        unreachable: list[PipelineError] = []

        def committed(one: Commit) -> PipelineError | None:
            # Each topic would wait as long, for a store that gives no answer.
            error = unreachable[0] if unreachable else self._commit_messages(one)
            for reason in (error, error and error.__cause__):
                if isinstance(reason, StoreUnreachableError):
                    unreachable.append(reason)
            return error

        with ThreadPoolExecutor(min(COMMIT_THREADS, len(commits)), "archive-commit") as pool:
            errors = dict(zip(gaps, pool.map(committed, commits), strict=True))
        for one in commits:
            if errors[one.identity] is None:
                self._next[one.identity] = one.next_offset
                try:
                    self._sum_up(one, gaps[one.identity], now_ms)
                except PipelineError as exc:
                    # The commit stands; the next one sums up anew.
                    self.note_error(one.identity, exc)
        return errors

    def _commit_messages(self, one: Commit) -> PipelineError | None:
        try:
            table = archive_table(self._tables, one.identity.topic)
            try:
                table.commit(one.files, one.identity.app_id, one.next_offset, after=one.archived)
            except TableMissingError:
                self.next_offset(one.identity)
                return self.lost(one.identity, one.first_offset)
        except PipelineError as exc:
            return exc
        return None

    # The summary.

    def _sum_up(self, one: Commit, gaps: Sequence[ArchiveGap], now_ms: int) -> None:
        entry = self.summary.topics.get(one.identity.topic)
        version = archive_table(self._tables, one.identity.topic).version
        if (
            entry is None
            or (entry.table_version, entry.next_offset) != (version - 1, one.first_offset)
            or _identity_of(entry) != one.identity
            or not entry.incarnations  # an earlier version's
        ):
            self._sum_up_anew(one.identity, now_ms)
            return
        times = [time for file in one.files for time in _times_of(file)]
        times += [time for time in (entry.first_time_ms, entry.last_time_ms) if time is not None]
        self.summary.put(
            replace(
                entry,
                next_offset=one.next_offset,
                rows=entry.rows + one.rows,
                bytes=entry.bytes + sum(file.size for file in one.files),
                file_count=entry.file_count + len(one.files),
                first_time_ms=min(times, default=None),
                last_time_ms=max(times, default=None),
                table_version=version,
                committed_ms=now_ms,
                error="",
                is_lost=False,
                is_partial=False,
                incarnations=tuple(
                    replace(other, rows=other.rows + one.rows) if _is_of(other, one.identity) else other
                    for other in entry.incarnations
                ),
            ).with_gaps(list(gaps))
        )

    def _sum_up_anew(self, identity: ArchivedIdentity, committed_ms: int) -> None:
        """Raises StoreUnreachableError: the next topic would wait as long."""
        try:
            end = self.next_offset(identity)
            entry = self.summary.topics.get(identity.topic)
            is_of_identity = entry is not None and entry.table_version >= 0 and _identity_of(entry) == identity
            if entry is not None and is_of_identity and (end is None or end < entry.next_offset):
                self.note_error(identity, self.lost(identity, entry.next_offset))
                return
            if end is None:
                return  # killed before its first messages were committed
            # A step that was killed has left gaps behind the end.
            found = self._gaps.read(identity.topic)
            gaps = [one for one in found.get(identity, []) if one.next_offset <= end]
            table = archive_table(self._tables, identity.topic)
            counts = row_counts(table, {identity, *found})
            summed = summed_up(table, identity, end, gaps, committed_ms)
            self.summary.put(replace(summed, incarnations=newest_first(counts, identity.server)))
        except StoreUnreachableError:
            raise
        except PipelineError as exc:
            entry = self.summary.topics.get(identity.topic)
            nothing = ArchivedTopic(identity.topic, identity.server, identity.number, identity.id_base, 0, 0)
            self.summary.put(replace(entry or nothing, error=sentence_of(exc)))

    def sum_up_again(self, topics: Iterable[str]) -> None:
        """Sum up topics whose tables others have changed, such as housekeeping."""
        for topic in topics:
            entry = self.summary.topics.get(topic)
            if entry is not None:
                try:
                    archive_table(self._tables, topic).refresh()
                except StoreUnreachableError:
                    raise
                except PipelineError as exc:
                    logger.warning("topic not summed up topic=%s error=%s", topic, exc)
                    continue
                self._sum_up_anew(_identity_of(entry), entry.committed_ms)
                summed = self.summary.topics[topic]
                if (entry.is_lost or entry.is_partial) and not summed.is_lost:
                    # The table alone does not show that its files are there: `missing_files` does, and clears the
                    # error.
                    summed = replace(summed, error=entry.error, is_lost=entry.is_lost, is_partial=entry.is_partial)
                    self.summary.put(summed)

    def _sum_up_all(self) -> None:
        """Every archive of the lake, from the tables."""
        newest: dict[str, ArchivedIdentity] = {}
        for identity in self._gaps.read():
            newest_so_far = newest.get(identity.topic, identity)
            newest[identity.topic] = max(
                identity, newest_so_far, key=lambda one: (one.server == self._server, one.number)
            )
        for identity in newest.values():
            self._sum_up_anew(identity, 0)

    def _write_gaps_anew(self) -> None:
        """Write the gaps that the summary has of this server's archives and `archive_gaps` lacks, since the table was
        gone: the begin of each archive, and the newest gaps of the newest topic of a name. Each server of a lake does
        so; until then, rows with the begins of its archives stand in for its own. Raises StoreError, TableError."""
        archived = [(entry, one) for entry in self.summary.topics.values() for one in _identities_of(entry)]
        own = [one for _, one in archived if one.server == self._server]
        # The first commit of an archive has its begin. The table itself may be there, and empty: it is made before.
        is_there = dict(zip(own, (at is not None for at in self._gaps.next_offsets(own)), strict=True))
        if all(is_there.values()):
            return
        found = self._gaps.read()
        gaps: GapRows = {}
        ranges: dict[ArchivedIdentity, tuple[int | None, int]] = {}
        for entry, one in archived:
            if is_there.get(one, one in found):
                continue
            is_newest = one == _identity_of(entry)
            try:
                table = archive_table(self._tables, one.topic)
                end = table.transaction(one.app_id)
                if end is None:
                    continue  # lost, or the summary is of another lake
                first = entry.first_offset if is_newest else _first_in_files(table, one)
            except StoreUnreachableError:
                raise
            except PipelineError as exc:
                # The next start tries again.
                logger.warning("archive_gaps lacks topic=%s number=%d error=%s", one.topic, one.number, exc)
                if not entry.is_lost:
                    self.note_error(one, exc)
                continue
            rows = [] if one in found else [ArchiveGap(first, first, BEGIN, entry.committed_ms)]
            rows += entry.gaps if is_newest and one in is_there else ()
            if rows:
                gaps[one] = rows
            if rows and one in is_there:
                # Where the table was put back to an earlier state, the next commit replaces the gaps behind its end.
                ranges[one] = (end, max(end, entry.next_offset if is_newest else 0))
        if ranges:
            self._gaps.commit(gaps, ranges)
            logger.warning(
                "the table archive_gaps was gone and is made anew archives=%d: it has the %d newest gaps of each topic "
                "at most",
                len(gaps),
                GAPS_MAX,
            )

    def note_error(self, identity: ArchivedIdentity, error: BaseException) -> None:
        """Show an error with the topic until its next commit."""
        entry, is_lost = self.summary.topics.get(identity.topic), isinstance(error, ArchiveLostError)
        if entry is None and is_lost:
            entry = ArchivedTopic(identity.topic, identity.server, identity.number, identity.id_base, 0, 0)
        if entry is not None:
            # The loss that an operator has seen stays noted where the repair fails by another error.
            is_partial = isinstance(error, ArchiveFilesMissingError) or (entry.is_partial and not is_lost)
            is_lost = is_lost or entry.is_table_lost
            self.summary.put(replace(entry, error=sentence_of(error), is_lost=is_lost, is_partial=is_partial))


def _identity_of(one: ArchivedTopic) -> ArchivedIdentity:
    return ArchivedIdentity(one.topic, one.server, one.number, one.id_base)


def _identities_of(entry: ArchivedTopic) -> list[ArchivedIdentity]:
    """All topics of a name of which something is archived."""
    others = (ArchivedIdentity(entry.topic, one.server, one.number, one.id_base) for one in entry.incarnations)
    return [*dict.fromkeys((_identity_of(entry), *others))] if entry.table_version >= 0 else []


def _first_in_files(table: LakeTable, identity: ArchivedIdentity) -> int:
    """The least offset of the files that may have a topic's rows."""
    return min((offset_bounds(file)[0] for file in files_of(table, identity)), default=0)


def _is_of(one: ArchivedIncarnation, identity: ArchivedIdentity) -> bool:
    return (one.server, one.number, one.id_base) == (identity.server, identity.number, identity.id_base)


def _times_of(file: DataFile) -> list[int]:
    """The first and the last publish time in a file, Unix ms."""
    values = orjson.loads(file.statistics)
    texts = [values[bound].get("published_at") for bound in ("minValues", "maxValues")]
    return [int(datetime.fromisoformat(text).timestamp() * 1000) for text in texts if text]


def summed_up(
    table: LakeTable, identity: ArchivedIdentity, next_offset: int, gaps: list[ArchiveGap], committed_ms: int
) -> ArchivedTopic:
    """A topic summed up from its table, as that is at its version. identity: the newest of the name; gaps: its own."""
    files = table.files()
    times = [one for file in files if (one := _bounds_of(file.minimum, file.maximum)) is not None]
    begins = [gap.first_offset for gap in gaps if gap.reason == BEGIN]
    return ArchivedTopic(
        topic=identity.topic,
        server=identity.server,
        number=identity.number,
        id_base=identity.id_base,
        first_offset=min(begins, default=next_offset),
        next_offset=next_offset,
        rows=sum(file.rows for file in files),
        bytes=sum(file.size for file in files),
        file_count=len(files),
        first_time_ms=min((first for first, _ in times), default=None),
        last_time_ms=max((last for _, last in times), default=None),
        table_version=table.version,
        committed_ms=committed_ms,
    ).with_gaps(gaps)


def _bounds_of(minimum: Mapping[str, Any], maximum: Mapping[str, Any]) -> tuple[int, int] | None:
    first, last = minimum.get("published_at"), maximum.get("published_at")
    if not isinstance(first, datetime) or not isinstance(last, datetime):
        return None
    return int(first.timestamp() * 1000), int(last.timestamp() * 1000)
