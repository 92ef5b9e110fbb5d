"""The job housekeeping: merges small files of the archive's tables, drops files beyond the limits, removes files that
no reader needs, one table after another.

    1. drop      files beyond the topic's limits no longer count; the log has let go of these messages long ago
    2. merge     neighbouring small files become one, of the same messages (choices.py); readers notice nothing
    3. vacuum    once a day: files go that no version of the last days names, and those that no commit ever named

Each step is a commit of its own, beside those of the archive: a run that is killed anywhere has done some of them, and
left at most a file that no commit names. Files stay for `vacuum_ms` after a commit has replaced or dropped them, for
readers of an older version of the table: replays, and other programs. Housekeeping does not see these, so a reader
that takes longer finds files missing.

Removal by age waits while the clock is far ahead of where it was (vocabulary/trusted_time.py).

On an object store that several servers share, one of them runs housekeeping at a time (lease.py).
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from queue_engine.lake.archive.archive_table import ARCHIVE, DICTIONARY, PARTITION, archive_table
from queue_engine.lake.archive.gaps import GAPS, gaps_table
from queue_engine.lake.directory.status_file import BrokenStatusFileError
from queue_engine.lake.housekeeping.choices import CLOSED_AFTER_MS, ArchivedFile, merges, outdated
from queue_engine.lake.housekeeping.lease import HousekeepingLease
from queue_engine.lake.housekeeping.limits import ArchiveLimits, read_limits
from queue_engine.lake.housekeeping.report import HousekeepingReport, HousekeepingRun, read_report, write_report
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.state import RUNNING, WAITING, JobState
from queue_engine.lake.tables.housekeeping import clean_log, merge, vacuum
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import PipelineError
from queue_engine.vocabulary.names import is_valid_name
from queue_engine.vocabulary.trusted_time import HOLD_MS, TrustedTime

logger = logging.getLogger(__name__)

JOB = "housekeeping"
HOUR_MS = 3_600_000
VACUUM_EVERY_MS = 86_400_000
# A read of a topic's gaps reads every file that may have some.
GAPS_FILES_MAX = 64
# In a table's transactions: how often files went because of the topic's limits.
RETENTION_APP = "penstock/retention"


class Housekeeping:
    """Maintains the tables of one lake; each `run` looks at all of them. For one thread."""

    def __init__(self, context: JobContext, tables: LakeTables) -> None:
        self._context = context
        self._tables = tables
        settings = context.archive
        self._usual = ArchiveLimits(settings.keep_ms, settings.keep_bytes)
        self._vacuum_ms = settings.vacuum_ms
        self._lease: HousekeepingLease | None = None
        self._lake_path = Path(context.lake.path)
        self._time: TrustedTime | None = None
        # By topic, the table's version, the hour and the limits at the last look that found nothing to do.
        self._last_looks: dict[str, tuple[int, int, ArchiveLimits]] = {}

    def run(self) -> HousekeepingRun:
        """Look at every table once, until context.stop is set. Returns the run, which is in the report, too.

        A table that can't be maintained costs that table: it is a problem of the run. Raises BrokenStatusFileError when
        the limits can't be read (nothing is removed then), StoreError when the lake can't be reached, OSError.
        """
        started_ms = self._now_ms()
        limits = read_limits(self._lake_path)
        report = self._report()
        self._time = self._time or TrustedTime(self._context.clock, report.trusted_ms, report.leapt_ms)
        vacuumed_ms = dict(report.vacuumed_ms or {})
        # Directories of other programs are left alone.
        topics = [one for one in self._tables.storage.directories(ARCHIVE) if is_valid_name(one)]
        run = HousekeepingRun(at_ms=started_ms, tables=len(topics))
        self._check_clock(run)
        if not self._has_lease():
            return run
        for number, topic in enumerate(topics):
            if self._context.stop.is_set():
                break
            self._context.report(JobState(JOB, RUNNING, started_ms, self._now_ms(), number, len(topics), unit="tables"))
            if not self._has_lease():
                break
            before = (run.merged_files, run.dropped_files)
            with _problem_of(topic, run):
                self._maintain(topic, limits.get(topic, self._usual), vacuumed_ms, run)
            if (run.merged_files, run.dropped_files) != before:
                run.changed += (topic,)
        if not self._context.stop.is_set() and self._has_lease():
            with _problem_of(GAPS, run):
                self._merge_gaps(run)
        run.took_ms = self._now_ms() - started_ms
        left = {topic: at_ms for topic, at_ms in vacuumed_ms.items() if topic in set(topics)}
        write_report(self._lake_path, report.after(run, left, self._time))
        self._context.report(JobState(JOB, WAITING, unit="tables"))
        return run

    def _report(self) -> HousekeepingReport:
        try:
            return read_report(self._lake_path)
        except BrokenStatusFileError as exc:
            # It is derived, and written anew.
            logger.warning("report of housekeeping begins anew: %s", exc)
            return HousekeepingReport()

    def _has_lease(self) -> bool:
        """Whether this server has the lease, where there is one. It lasts longer with each table."""
        if self._tables.storage.is_local:
            return True
        if self._lease is None:
            self._lease = HousekeepingLease(self._tables, self._context.engine.server(), self._context.clock)
        wait_s = self._lease.take()
        if wait_s:
            logger.info("another server runs housekeeping lake=%s for_s=%d", self._tables.storage.place, wait_s)
        return not wait_s

    def _maintain(self, topic: str, limits: ArchiveLimits, vacuumed_ms: dict[str, int], run: HousekeepingRun) -> None:
        table = archive_table(self._tables, topic)
        if not table.exists():
            return
        hour = self._now_ms() // HOUR_MS
        self._check_clock(run)
        if self._last_looks.get(topic) != (table.refresh(), hour, limits):
            self._drop(table, limits, run)
            if self._merge(table, run) and not self._is_time_held:
                self._last_looks[topic] = (table.version, hour, limits)
        # A time to come is one of a clock that was ahead.
        since_ms = self._now_ms() - vacuumed_ms.get(topic, 0)
        is_due = not 0 <= since_ms < VACUUM_EVERY_MS
        if is_due and not self._is_time_held and not self._context.stop.is_set():
            self._vacuum(table, run)
            vacuumed_ms[topic] = self._now_ms()

    def _check_clock(self, run: HousekeepingRun) -> None:
        """Before each table: a run may last while the clock leaps."""
        ahead_ms = self._time.look() if self._time is not None else 0
        if ahead_ms:
            run.add_problem(_ahead_sentence(ahead_ms))

    @property
    def _is_time_held(self) -> bool:
        return self._time is not None and self._time.leapt_ms > 0

    def _merge_gaps(self, run: HousekeepingRun) -> None:
        """The table of the gaps has a file for each step with gaps: many become one, and none is dropped."""
        table = gaps_table(self._tables)
        if not table.exists():
            return
        table.refresh()
        files = table.files()
        if len(files) < GAPS_FILES_MAX or merge(table, files, should_stop=self._context.stop.is_set) is None:
            return
        run.count_merge(len(files), sum(one.size for one in files))
        if not self._is_time_held:
            self._vacuum(table, run)

    def _drop(self, table: LakeTable, limits: ArchiveLimits, run: HousekeepingRun) -> None:
        keep_ms = None if self._is_time_held else limits.keep_ms or None
        gone = outdated(files_of(table), self._now_ms(), keep_ms=keep_ms, keep_bytes=limits.keep_bytes or None)
        if not gone:
            return
        version = table.transaction(RETENTION_APP)
        table.commit([], RETENTION_APP, (version or 0) + 1, after=version, remove=[one.path for one in gone])
        rows, size = sum(one.rows for one in gone), sum(one.bytes for one in gone)
        logger.info("archive beyond its limits table=%s files=%d rows=%d bytes=%d", table.path, len(gone), rows, size)
        run.dropped_files += len(gone)
        run.dropped_rows += rows
        run.dropped_bytes += size

    def _merge(self, table: LakeTable, run: HousekeepingRun) -> bool:
        """Returns whether nothing is left to be merged, now or once the newest file is older."""
        files = files_of(table)
        today = datetime.fromtimestamp(self._now_ms() / 1000, UTC).date().isoformat()
        by_path = {one.path: one for one in table.files()}
        for group in merges(files, today, self._now_ms()):
            parts = [by_path[one.path] for one in group]
            if merge(table, parts, dictionary=DICTIONARY, should_stop=self._context.stop.is_set) is None:
                return False
            run.count_merge(len(parts), sum(one.size for one in parts))
        closed_ms = self._now_ms() - CLOSED_AFTER_MS
        return all(one.last_time_ms <= closed_ms for one in files)

    def _vacuum(self, table: LakeTable, run: HousekeepingRun) -> None:
        keep_ms = self._vacuum_ms
        removed = vacuum(table, retention_ms=keep_ms, unnamed_age_ms=keep_ms)
        clean_log(table, keep_ms=keep_ms)
        run.removed_files += removed.replaced + removed.unnamed
        run.removed_bytes += removed.bytes

    def _now_ms(self) -> int:
        return self._context.clock.time_ns() // NS_PER_MS


@contextmanager
def _problem_of(name: str, run: HousekeepingRun) -> Iterator[None]:
    """A table that can't be maintained is a problem of the run, and costs that table alone."""
    try:
        yield
    except PipelineError as exc:
        logger.warning("table not maintained table=%s error=%s", name, exc)
        run.add_problem(f"{name}: {exc}")


def files_of(table: LakeTable) -> list[ArchivedFile]:
    """The files that count in a table, as `choices.py` takes them."""
    found = []
    for one in table.files():
        first, last = one.minimum, one.maximum
        offset, newest = first.get("offset"), last.get("published_at")
        if offset is None or newest is None:
            continue  # without statistics: another program's file, which is left alone
        # Ids are the id base plus the offset: so the first and the last one show whether all are of one topic.
        bases = {_id_base(first), _id_base(last)}
        servers = {first.get("server"), last.get("server")}
        identity = (
            f"{servers.pop()}/{bases.pop()}" if len(bases) == len(servers) == 1 and None not in bases else one.path
        )
        found.append(
            ArchivedFile(
                path=one.path,
                date=one.partition[PARTITION],
                identity=identity,
                first_offset=int(offset),
                rows=one.rows,
                bytes=one.size,
                last_time_ms=int(newest.timestamp() * 1000),
            )
        )
    return found


def _ahead_sentence(ahead_ms: int) -> str:
    ahead_h, hold_min = ahead_ms // HOUR_MS, HOLD_MS // 60_000
    return (
        f"the clock is {ahead_h:,} hours ahead of where housekeeping saw it last: nothing is dropped or removed because"
        f" of its age for {hold_min} minutes; if the server was not off so long, mend its clock"
    )


def _id_base(bound: Mapping[str, Any]) -> int | None:
    """None where the file has no statistics, as another program's."""
    try:
        return int(bound["message_id"], 16) - int(bound["offset"])
    except (KeyError, TypeError, ValueError):
        return None
