"""The daily compaction: computes a closed day again from its raw samples, late ones included, into two files.

A day is closed ten minutes after its end (UTC). Its minutes and hours replace the stream's minutes in one step of the
manifest. Samples are kept for a week: where the raw samples of a day, or of its beginning, are gone, the stream's
minutes are taken instead, and the manifest says so. Hours of the current day are not written: readers sum them from its
minutes.
"""

import logging
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from queue_engine.pipeline.history import aggregation
from queue_engine.pipeline.history.manifest import (
    DAY,
    FRESH,
    History,
    HistoryFile,
    change_history,
    read_history,
    without,
)
from queue_engine.pipeline.history.samples_topic import Samples, SamplesTopic
from queue_engine.pipeline.history.schema import DAY_S, HOURS, MINUTES, RETENTION_S
from queue_engine.pipeline.history.writer import StagedFile, spark_path, stage
from queue_engine.pipeline.job.context import JobContext
from queue_engine.pipeline.job.state import RUNNING, JobState
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
    history = read_history(context.lake)
    days = _days_to_close(history, until_s)
    # Only days with data are computed: a server's first start finds a week of empty ones.
    filled = [day_s for day_s in days if _may_hold_any(history, samples, day_s)]
    for number, day_s in enumerate(filled):
        if context.stop.is_set():
            return number > 0
        minutes = DAY_S // 60
        context.report(
            JobState("compact", RUNNING, started_ms, 0, number * minutes, len(filled) * minutes, unit="windows")
        )
        _close_day(context, samples, day_s)
    if days and days[-1] not in filled:
        change_history(context.lake, lambda before: replace(before, closed_until_s=until_s))
    return _forget(context, now_s) or bool(days)


def _days_to_close(history: History, until_s: int) -> list[int]:
    """The starts of the days before until_s that may have data, and of the last day in any case."""
    written = {one.first_s // DAY_S * DAY_S for one in history.of(MINUTES, FRESH)}
    written |= {(one.end_s - 1) // DAY_S * DAY_S for one in history.of(MINUTES, FRESH)}
    days = written | {until_s - number * DAY_S for number in range(1, RAW_DAYS + 1)}
    return sorted(day for day in days if history.closed_until_s <= day < until_s)


def _may_hold_any(history: History, samples: Samples, day_s: int) -> bool:
    end_s = day_s + DAY_S
    is_written = any(one.first_s < end_s and day_s < one.end_s for one in history.of(MINUTES, FRESH))
    return is_written or samples.has_any((day_s - EARLY_S) * 1000, end_s * 1000)


def _close_day(context: JobContext, samples: Samples, day_s: int) -> None:
    lake, end_s = context.lake, day_s + DAY_S
    rows, source = _minutes_of_day(context, samples, day_s)
    day = datetime.fromtimestamp(day_s, UTC).date().isoformat()
    staged: list[StagedFile] = []
    minutes = None if rows is None else stage(lake, rows, MINUTES, DAY, day=day, source=source)
    if minutes is not None:
        staged.append(minutes)
        of_minutes = context.spark.read.parquet(spark_path(lake, minutes.staged))
        hours = stage(lake, aggregation.hours(of_minutes), HOURS, DAY, day=day, source=source)
        assert hours is not None
        staged.append(hours)
        lake.publish([one.move for one in staged])
        for one in staged:
            lake.remove_staged(one.directory)

    def step(before: History) -> History:
        replaced = [one for one in before.files if one.kind == FRESH and one.end_s <= end_s]
        files = (*without(before.files, replaced), *(one.file for one in staged))
        return replace(before, closed_until_s=end_s, files=files)

    change_history(lake, step)
    if minutes is not None:
        logger.info("day closed day=%s source=%s rows=%d", day, source, minutes.file.rows)


def _minutes_of_day(context: JobContext, samples: Samples, day_s: int) -> tuple[DataFrame | None, str]:
    """The day's minutes as `HISTORY_ROWS`, and their source; None without data."""
    start_ms, end_ms = (day_s - EARLY_S) * 1000, (day_s + DAY_S + LATE_S) * 1000
    # The engine is asked before Spark starts a job: days without samples are common, and cost nothing.
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
    files = [one for one in read_history(context.lake).of(MINUTES, FRESH) if day_s < one.end_s]
    if files and raw_from_s > day_s:
        paths = [spark_path(context.lake, f"history/{one.path}") for one in files]
        parts.append((_between(context.spark.read.parquet(*paths), day_s, raw_from_s), "fresh"))
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


def _forget(context: JobContext, now_s: int) -> bool:
    """Remove files whose windows are all beyond their retention."""

    def is_old(one: HistoryFile) -> bool:
        return one.end_s <= now_s - RETENTION_S[one.level]

    def step(before: History) -> History | None:
        old = [one for one in before.files if is_old(one)]
        return replace(before, files=without(before.files, old)) if old else None

    return change_history(context.lake, step)
