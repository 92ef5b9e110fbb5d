"""The daily compaction: a day that is over is made anew from its raw samples, late ones included, in two files.

A day is over ten minutes after its end (UTC). Its minutes and hours replace what the stream had written of it in one
step of the manifest. Samples are kept for a week: of a day whose raw samples are gone, or those of its beginning, what
the stream had written is taken instead, and the manifest says so. Hours of the day that runs are not written: readers
sum them from its minutes, and are never behind.
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
# A sample that comes later than this after its day is not looked for.
LATE_S = DAY_S
# Clocks are set back: a sample may have been published, by the clock, before it was taken.
EARLY_S = 3600
# The samples' log keeps a week; earlier days can only come from what the stream has written.
RAW_DAYS = 8


def compact(context: JobContext, now_s: int, *, samples: Samples | None = None) -> bool:
    """Close every day that is over at now_s (Unix seconds) and not closed yet; forget what is too old to keep.

    Returns whether anything changed. When it is stopped or dies, the days that were closed are. Raises PipelineError,
    what Spark raises, OSError.
    """
    samples = samples or SamplesTopic(context.spark, context.engine)
    started_ms = context.clock.time_ns() // NS_PER_MS
    until_s = (now_s - CLOSED_AFTER_S) // DAY_S * DAY_S
    history = read_history(context.lake)
    days = _days_to_close(history, until_s)
    # The others have nothing to do: a server's first day begins with a week of them.
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
    """Starts of the days before until_s that may hold something, and of the last one, whatever it holds."""
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
    """`HISTORY_ROWS` of the day's minutes, and what they are made of; None where nothing is left."""
    start_ms, end_ms = (day_s - EARLY_S) * 1000, (day_s + DAY_S + LATE_S) * 1000
    # Asked before Spark is: days on which nothing was written are common, and cost nothing.
    has_raw = samples.has_any(start_ms, (day_s + DAY_S) * 1000)
    raw_from_s = day_s
    if not samples.is_whole_from(day_s * 1000):
        raw_from_s = day_s + DAY_S
        if has_raw:
            oldest = samples.read(start_ms, end_ms).agg(F.min("published_at").cast("double")).first()
            assert oldest is not None
            # The first minute of which every sample is left begins behind the oldest one.
            raw_from_s = min(raw_from_s, (int(oldest[0]) // 60 + 1) * 60)
    parts = []
    files = [one for one in read_history(context.lake).of(MINUTES, FRESH) if day_s < one.end_s]
    if files and raw_from_s > day_s:
        paths = [spark_path(context.lake, f"history/{one.path}") for one in files]
        parts.append((_between(context.spark.read.parquet(*paths), day_s, raw_from_s), "fresh"))
    if has_raw and raw_from_s < day_s + DAY_S:
        rows = aggregation.rows_of_samples(samples.read(start_ms, end_ms), _pass_over)
        parts.insert(0, (_between(aggregation.minutes(rows), raw_from_s, day_s + DAY_S), "raw"))
    found = None
    for part, _ in parts:
        found = part if found is None else found.unionByName(part)
    return found, " and ".join(source for _, source in parts)


def _pass_over(_: str) -> None:
    """The stream has told of it when it came."""


def _between(minutes: DataFrame, first_s: int, end_s: int) -> DataFrame:
    return minutes.where(F.col("t").between(first_s, end_s - 1))


def _forget(context: JobContext, now_s: int) -> bool:
    """Let go of files whose every window is too old to keep."""

    def is_old(one: HistoryFile) -> bool:
        return one.end_s <= now_s - RETENTION_S[one.level]

    def step(before: History) -> History | None:
        old = [one for one in before.files if is_old(one)]
        return replace(before, files=without(before.files, old)) if old else None

    return change_history(context.lake, step)
