"""The daily compaction: computes a closed day again from its raw samples, late ones included, into two files.

A day is closed ten minutes after its end (UTC). Its minutes replace the stream's, and then its hours are added
(history_tables.py). The log retains samples for a week: where the raw samples of a day, or of its beginning, are gone,
the stream's minutes are taken instead. Hours of the current day are not written: readers sum them from its minutes.
"""

import logging

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from queue_engine.lake.history import aggregation
from queue_engine.lake.history.history_tables import HistoryTables
from queue_engine.lake.history.levels import DAY_S, HOURS, MINUTES, date_of
from queue_engine.lake.history.samples_topic import Samples, SamplesTopic
from queue_engine.lake.history.schema import HISTORY_ROWS
from queue_engine.lake.history.writer import write_rows
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.state import RUNNING, JobState
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.vocabulary.clock import NS_PER_MS

logger = logging.getLogger(__name__)

CLOSED_AFTER_S = 600
# Samples that were published later than this after their day are not searched.
LATE_S = DAY_S
# When the clock was set back, a sample may have a publish time before the time it was taken.
EARLY_S = 3600
# The samples' log keeps a week; earlier days can only come from the stream's minutes.
RAW_DAYS = 8


def compact(context: JobContext, now_s: int, *, samples: Samples | None = None) -> bool:
    """Close every day that is over at now_s (Unix seconds) and not closed yet; remove files beyond their retention.

    Returns whether anything changed. Days that were closed stay closed when the job is stopped or killed. Raises
    PipelineError, Spark's errors, OSError.
    """
    samples = samples or SamplesTopic(context.spark, context.engine)
    started_ms = context.clock.time_ns() // NS_PER_MS
    until_s = (now_s - CLOSED_AFTER_S) // DAY_S * DAY_S
    tables = HistoryTables(context.lake)
    tables.check_converted()
    days = _days_to_close(tables, until_s)
    # Only days with data are computed: a server's first start finds a week of empty ones.
    filled = [day_s for day_s in days if _may_hold_any(tables, samples, day_s)]
    for number, day_s in enumerate(filled):
        if context.stop.is_set():
            return number > 0
        minutes = DAY_S // 60
        context.report(
            JobState("compact", RUNNING, started_ms, 0, number * minutes, len(filled) * minutes, unit="windows")
        )
        _close_day(context, tables, samples, day_s)
    if days and days[-1] not in filled:
        tables.close_empty_days(until_s)
    return tables.forget(now_s) or bool(days)


def _days_to_close(tables: HistoryTables, until_s: int) -> list[int]:
    """The starts of the days before until_s that may have data, and of the last day in any case."""
    # The hours are the last to be closed: a day that only the minutes have closed is computed again.
    closed_until_s = tables.closed_until_s(HOURS)
    days = {one.day_s for one in tables.files(MINUTES)}
    days |= {until_s - number * DAY_S for number in range(1, RAW_DAYS + 1)}
    return sorted(day for day in days if closed_until_s <= day < until_s)


def _may_hold_any(tables: HistoryTables, samples: Samples, day_s: int) -> bool:
    is_written = any(one.day_s == day_s for one in tables.files(MINUTES))
    return is_written or samples.has_any((day_s - EARLY_S) * 1000, (day_s + DAY_S) * 1000)


def _close_day(context: JobContext, tables: HistoryTables, samples: Samples, day_s: int) -> None:
    rows, source = _minutes_of_day(context, tables, samples, day_s)
    files: dict[str, list[DataFile]] = {}
    if rows is not None:
        minutes = files[MINUTES] = write_rows(tables.storage, MINUTES, rows)
        if minutes:
            of_minutes = _read(context, tables, [one.path for one in minutes])
            files[HOURS] = write_rows(tables.storage, HOURS, aggregation.hours(of_minutes))
            count = sum(one.rows for one in minutes)
            logger.info("day computed day=%s source=%s rows=%d", date_of(day_s), source, count)
    tables.close_day(day_s, files)


def _read(context: JobContext, tables: HistoryTables, paths: list[str]) -> DataFrame:
    """Rows of files of minutes, as `HISTORY_ROWS`."""
    # On this machine's file system, whatever file system a cluster has as its default.
    places = [f"file://{tables.path_of(MINUTES, path)}" for path in paths]
    frame: DataFrame = context.spark.read.parquet(*places)
    return frame.select(*HISTORY_ROWS.names)


def _minutes_of_day(
    context: JobContext, tables: HistoryTables, samples: Samples, day_s: int
) -> tuple[DataFrame | None, str]:
    """The day's minutes as `HISTORY_ROWS`, and their source; None without data."""
    start_ms, end_ms = (day_s - EARLY_S) * 1000, (day_s + DAY_S + LATE_S) * 1000
    # One request to the engine before Spark starts a job: days without samples are common, and cost nothing.
    has_raw = samples.has_any(start_ms, (day_s + DAY_S) * 1000)
    raw_from_s = day_s
    if not samples.is_whole_from(day_s * 1000):
        raw_from_s = day_s + DAY_S
        if has_raw:
            oldest = samples.read(start_ms, end_ms).agg(F.min("published_at").cast("double")).first()
            assert oldest is not None
            # The first minute with all its samples begins behind the oldest sample.
            raw_from_s = min(raw_from_s, (int(oldest[0]) // 60 + 1) * 60)
    parts = []
    written = [one.path for one in tables.files(MINUTES) if one.day_s == day_s]
    if written and raw_from_s > day_s:
        parts.append((_between(_read(context, tables, written), day_s, raw_from_s), "fresh"))
    if has_raw and raw_from_s < day_s + DAY_S:
        rows = aggregation.rows_of_samples(samples.read(start_ms, end_ms), _ignore)
        parts.insert(0, (_between(aggregation.minutes(rows), raw_from_s, day_s + DAY_S), "raw"))
    found = None
    for part, _ in parts:
        found = part if found is None else found.unionByName(part)
    return found, " and ".join(source for _, source in parts)


def _ignore(_: str) -> None:
    """Does nothing: the stream has reported the unreadable sample."""


def _between(minutes: DataFrame, first_s: int, end_s: int) -> DataFrame:
    return minutes.where(F.col("t").between(first_s, end_s - 1))
