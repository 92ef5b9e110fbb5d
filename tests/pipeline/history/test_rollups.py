"""Samples of two engines through the stream and the compaction, compared with the same sums in plain Python.

The samples come in files, each a batch of the stream: from 22:30 to 01:30, in steps of 20 s, with restarts of an
engine, a channel made anew, bodies that are no samples, and samples that come 75 minutes late.
"""

import logging
import math
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history.checkpoint import checkpoint_id
from queue_engine.lake.history.compaction import EARLY_S, compact
from queue_engine.lake.history.history_tables import HistoryTables
from queue_engine.lake.history.levels import DAY_S, HOURS, MINUTES
from queue_engine.lake.history.rollup_stream import start_rollup_stream
from queue_engine.lake.history.schema import HISTORY_ROWS
from queue_engine.lake.job.state import JobState
from tests.pipeline.history.history_rows import SampleFiles, job_context, read_rows
from tests.pipeline.history.percentiles import percentiles_ms
from tests.support.lakes.engine_samples import (
    COUNTERS,
    GAUGES,
    EngineModel,
    Key,
    Row,
    Sample,
    body_of,
    hours_of,
    minutes_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow(reason="runs Spark"), pytest.mark.timeout(900)]

MIDNIGHT_S = 1_800_057_600
FIRST_S = MIDNIGHT_S - 5400
END_S = MIDNIGHT_S + 5400
STEP_S = 20
# More than two files' length: a batch passes over what the one before it would have passed over.
LATE_S = 4500
NOW = {"availableNow": True}
AT_ONCE = {"processingTime": "0 seconds"}


class Story:
    """The input: engines, their samples in the order in which they came, and which of them came late."""

    def __init__(self) -> None:
        rng = Random(5)
        self.engines = [
            EngineModel("n1", {"orders": ["billing", "mail"], "pay": ["ledger"]}, seed=1, finished_max=80),
            EngineModel("nsq-b2:4151", {"orders": ["billing"], "idle": []}, seed=2),
        ]
        self.on_time: list[Sample] = []
        self.late: list[Sample] = []
        self.messages: list[tuple[int, bytes]] = []
        for at_s in range(FIRST_S, END_S, STEP_S):
            for engine in self.engines:
                if rng.random() < 0.01:
                    engine.restart(at_s * 1000)
                if rng.random() < 0.01:
                    engine.recreate_channel("orders", "billing")
                sample = engine.sample(at_s * 1000 + rng.randrange(2000))
                is_late = rng.random() < 0.03 and at_s < END_S - LATE_S - 600
                (self.late if is_late else self.on_time).append(sample)
                self.messages.append((at_s * 1000 + 2000 + is_late * LATE_S * 1000, body_of(sample)))
                if rng.random() < 0.01:
                    self.messages.append((at_s * 1000 + 2500, b"PSMP\x01 is no sample"))
        self.messages.sort()
        self.unreadable = sum(body.endswith(b"no sample") for _, body in self.messages)
        # Two minutes behind the newest sample, a minute is over.
        newest_ms = max(sample["taken_ms"] for sample in self.on_time)
        self.watermark_ms = newest_ms - 120_000

    def files(self, count: int) -> list[list[tuple[int, bytes]]]:
        size = -(-len(self.messages) // count)
        return [self.messages[at : at + size] for at in range(0, len(self.messages), size)]

    def emitted(self) -> dict[Key, Row]:
        """The rows that the stream must have written at the end."""
        return {key: row for key, row in minutes_of(self.on_time).items() if (key[0] + 60) * 1000 <= self.watermark_ms}


def run(spark: SparkSession, lake: Lake, samples: SampleFiles) -> None:
    """Let the stream take what there is."""
    query = start_rollup_stream(job_context(spark, lake), samples=samples, trigger=NOW)
    query.awaitTermination()
    assert query.exception() is None


def of_day(rows: dict[Key, Row], day_s: int) -> dict[Key, Row]:
    return {key: row for key, row in rows.items() if key[0] // DAY_S * DAY_S == day_s}


def test_minutes_are_exact_as_far_as_they_came_in_time_and_all_of_them_after_compaction(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "queue_engine")
    story = Story()
    assert story.late
    assert story.unreadable
    files = story.files(5)
    samples = SampleFiles(spark, tmp_path / "samples")
    lake = Lake(str(tmp_path / "lake"))
    with lake.lock():
        for file in files[:2]:
            samples.add(file)
        run(spark, lake, samples)
        # The process ended behind the commit, and before Spark heard that the batch was done.
        commits = Path(lake.within("checkpoints/rollup/commits"))
        last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
        assert HistoryTables(lake).last_batch(checkpoint_id(lake)) == last
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink()
    with lake.lock():
        # Stopped in the middle of it, twice.
        for file in files[2:4]:
            samples.add(file)
            tables, checkpoint = HistoryTables(lake), checkpoint_id(lake)
            last = tables.last_batch(checkpoint)
            query = start_rollup_stream(job_context(spark, lake), samples=samples, trigger=AT_ONCE)
            while tables.last_batch(checkpoint) == last:
                query.awaitTermination(0.05)
                assert query.exception() is None
            query.stop()
    with lake.lock():
        for file in files[4:]:
            samples.add(file)
        run(spark, lake, samples)

        assert "batch already written" in caplog.text
        fresh = read_rows(lake, MINUTES)
        expected = story.emitted()
        assert fresh.keys() == expected.keys()
        assert fresh == expected
        complete = minutes_of(story.on_time + story.late)
        late_keys = {key for key in expected if expected[key] != complete[key]}
        assert late_keys
        tables = HistoryTables(lake)
        for one in tables.files(MINUTES):
            footer = pq.ParquetFile(tables.path_of(MINUTES, one.path))
            assert [field.name for field in footer.schema_arrow] == HISTORY_ROWS.names
            assert footer.metadata.row_group(0).column(0).compression == "ZSTD"
        counted = [record.args for record in caplog.records if record.message.startswith("samples unreadable")]
        # Batches that were told again are counted again.
        assert sum(int(str(args[0])) for args in counted if isinstance(args, tuple)) >= story.unreadable

        # A checkpoint that is gone begins the stream anew, and costs and doubles nothing.
        samples.files_a_batch = 10
        shutil.rmtree(lake.within("checkpoints/rollup"))
        run(spark, lake, samples)
        assert read_rows(lake, MINUTES) == fresh

        context = job_context(spark, lake)
        compact(context, MIDNIGHT_S + 599, samples=samples)
        assert read_rows(lake, MINUTES) == fresh
        assert compact(context, MIDNIGHT_S + 600, samples=samples)
        assert [tables.closed_until_s(level) for level in (MINUTES, HOURS)] == [MIDNIGHT_S] * 2
        written = [tables.files(level) for level in (MINUTES, HOURS)]
        first_day, second_day = MIDNIGHT_S - DAY_S, MIDNIGHT_S
        found = read_rows(lake, MINUTES)
        assert of_day(found, first_day) == of_day(complete, first_day)
        assert of_day(found, second_day) == of_day(expected, second_day)
        assert not compact(context, MIDNIGHT_S + 7200, samples=samples)
        assert [tables.files(level) for level in (MINUTES, HOURS)] == written

        # The stream goes on behind a closed day, and the next one is closed, too.
        assert compact(context, MIDNIGHT_S + DAY_S + 600, samples=samples)
        assert read_rows(lake, MINUTES) == complete
        for level in (MINUTES, HOURS):
            assert [one.day_s for one in tables.files(level)] == [first_day, second_day]
        ordered = pq.ParquetFile(tables.path_of(MINUTES, tables.files(MINUTES)[0].path)).read()
        keys = [(row["topic"], row["channel"], row["t"], row["node"]) for row in ordered.to_pylist()]
        assert keys == sorted(keys)
        check_hours(read_rows(lake, HOURS), complete)
        check_counters_and_percentiles(read_rows(lake, MINUTES), story, window_s=60)
        check_counters_and_percentiles(read_rows(lake, HOURS), story, window_s=3600)


def check_hours(found: dict[Key, Row], minutes: dict[Key, Row]) -> None:
    expected = hours_of(minutes)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        for name, value in row.items():
            # An average of averages depends on their order by its last digits.
            is_rounded = name.endswith("_avg") and value is not None
            assert found[key][name] == (pytest.approx(value, rel=1e-12) if is_rounded else value), (key, name)


def check_counters_and_percentiles(rows: dict[Key, Row], story: Story, *, window_s: int) -> None:
    """Compared with the acts of the engines, not with their samples."""
    latencies: defaultdict[Key, list[float]] = defaultdict(list)
    for engine in story.engines:
        for (t, node, topic, channel), found in engine.latencies_ms.items():
            latencies[t // window_s * window_s, node, topic, channel] += found
    checked = 0
    for key, exact in latencies.items():
        assert rows[key]["finished"] == len(exact)
        assert sum(count for _, count in rows[key]["latency"]) == len(exact)
        if len(exact) >= 100:
            exact.sort()
            fractions = [0.5, 0.9, 0.99, 1.0]
            found_ms = percentiles_ms(dict(rows[key]["latency"]), fractions)
            assert found_ms is not None
            for fraction, value in zip(fractions, found_ms, strict=True):
                assert value == pytest.approx(exact[math.ceil(fraction * len(exact)) - 1], rel=0.04)
                checked += 1
    assert checked > 20


def test_a_day_whose_raw_samples_are_gone_is_made_of_what_the_stream_wrote(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "queue_engine")
    engine = EngineModel("n1", {"orders": ["billing"]}, seed=9)
    taken = [engine.sample(at_s * 1000) for at_s in range(MIDNIGHT_S - 1800, MIDNIGHT_S + DAY_S + 1800, 120)]
    samples = SampleFiles(spark, tmp_path / "samples")
    samples.add([(one["taken_ms"] + 5, body_of(one)) for one in taken])
    # Something that the stream has never seen: what the raw samples of the first days' ends give differs by it.
    lake = Lake(str(tmp_path / "lake"))
    with lake.lock():
        run(spark, lake, samples)
        fresh = read_rows(lake, MINUTES)
        late = [engine.sample((MIDNIGHT_S + hour * 3600 - 600) * 1000 + 1) for hour in (0, 2, 23)]
        samples.add([(one["taken_ms"] + 5, body_of(one)) for one in late])
        complete = minutes_of(taken + late)
        gone_before_s = MIDNIGHT_S + 12 * 3600 + 30
        samples.gone_before_ms = gone_before_s * 1000
        assert compact(job_context(spark, lake), MIDNIGHT_S + DAY_S + 600, samples=samples)
        found = read_rows(lake, MINUTES)
        assert found == {
            key: fresh[key] if key[0] < gone_before_s else row for key, row in complete.items() if key in fresh
        }
        computed = [record.args for record in caplog.records if record.message.startswith("day computed")]
        assert [args[:2] for args in computed if isinstance(args, tuple)] == [
            ("2027-01-15", "fresh"),
            ("2027-01-16", "raw and fresh"),
        ]
        check_hours(read_rows(lake, HOURS), {key: row for key, row in found.items() if key[0] < MIDNIGHT_S + DAY_S})


def test_the_days_before_a_server_was_there_are_closed_without_a_word(tmp_path: Path) -> None:
    samples = SampleFiles(None, tmp_path / "samples")
    samples.add([((MIDNIGHT_S + 2 * EARLY_S) * 1000, b"of today")])
    lake = Lake(str(tmp_path / "lake"))
    said: list[JobState] = []
    with lake.lock():
        context = replace(job_context(None, lake), report=said.append)
        assert compact(context, MIDNIGHT_S + 3 * EARLY_S, samples=samples)
        tables = HistoryTables(lake)
        assert [(tables.closed_until_s(level), tables.files(level)) for level in (MINUTES, HOURS)] == [
            (MIDNIGHT_S, [])
        ] * 2
        assert not compact(context, MIDNIGHT_S + 3 * EARLY_S, samples=samples)
    assert said == []


def test_rows_name_every_gauge_and_counter() -> None:
    assert set(HISTORY_ROWS.names) >= {f"{name}_last" for name in GAUGES} | set(COUNTERS)
