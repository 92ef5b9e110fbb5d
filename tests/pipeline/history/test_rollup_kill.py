"""kill -9 of the whole process while a batch of the rollups is under way; the next one goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history.history_tables import HistoryTables
from queue_engine.lake.history.levels import MINUTES
from queue_engine.lake.history.rollup_stream import start_rollup_stream
from tests.pipeline.history.history_rows import SampleFiles, job_context, read_rows
from tests.support import disk_files
from tests.support.lakes.engine_samples import EngineModel, body_of, minutes_of
from tests.support.waiting import wait_for

tmp_path_factory = disk_files.tmp_path_factory

pytestmark = [pytest.mark.spark, pytest.mark.slow(reason="runs Spark"), pytest.mark.timeout(900)]

FIRST_S = 1_800_057_600
FILES = 4
FILE_S = 600


def start(lake_path: Path, samples_path: Path, scratch: Path) -> subprocess.Popen[bytes]:
    module = "tests.pipeline.history.rollup_process"
    command = [sys.executable, "-m", module, str(lake_path), str(samples_path), str(scratch)]
    # A group of its own: Spark's processes are killed with it.
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)


def wait_for_batch(process: subprocess.Popen[bytes], lake: Lake, batch: int) -> None:
    """Until that batch or a later one is under way: begun, and not done."""
    checkpoint = Path(lake.within("checkpoints/rollup"))

    def is_under_way() -> bool:
        assert process.poll() is None, f"the process ended with code {process.returncode} before batch {batch}"
        begun, done = (
            {int(one.name) for one in (checkpoint / kind).glob("[0-9]*") if one.name.isdigit()}
            for kind in ("offsets", "commits")
        )
        return any(one >= batch for one in begun - done)

    wait_for(f"batch {batch} of the stream", is_under_way, timeout_s=240)


def test_minutes_are_whole_and_single_after_a_kill_in_mid_batch(spark: SparkSession, tmp_path: Path) -> None:
    engine = EngineModel("n1", {"orders": ["billing", "mail"]}, seed=6)
    samples = SampleFiles(None, tmp_path / "samples")
    taken = []
    for number in range(FILES):
        file = [
            engine.sample(at_s * 1000) for at_s in range(FIRST_S + number * FILE_S, FIRST_S + (number + 1) * FILE_S, 10)
        ]
        samples.add([(one["taken_ms"] + 5, body_of(one)) for one in file])
        taken += file
    lake = Lake(str(tmp_path / "lake"))
    process = start(tmp_path / "lake", tmp_path / "samples", tmp_path / "scratch")
    try:
        wait_for_batch(process, lake, 2)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    # What counts is whole at any time, and not all there is.
    minutes = minutes_of(taken)
    before = read_rows(lake, MINUTES)
    assert all(minutes[key] == row for key, row in before.items())
    assert before.keys() < minutes.keys()
    with lake.lock():
        query = start_rollup_stream(
            job_context(spark, lake),
            samples=SampleFiles(spark, tmp_path / "samples"),
            trigger={"availableNow": True},
        )
        query.awaitTermination()
        assert query.exception() is None
    until_s = FIRST_S + FILES * FILE_S - 10 - 120
    assert read_rows(lake, MINUTES) == {key: row for key, row in minutes.items() if key[0] + 60 <= until_s}
    assert HistoryTables(lake).end_s() == until_s // 60 * 60
