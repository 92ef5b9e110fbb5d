"""kill -9 at four moments of an archive, and of a replay of it, by the same steps as the command of full size.

Its tasks run without Java, which takes seconds to start; worker/test_server_kill.py has Spark killed with its server.
"""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.kill_archive import run_archive, run_replay
from tests.pipeline.random_kills import RandomKills
from tests.support import disk_files
from tests.support.processes.engine_process import EngineProcess

tmp_path_factory = disk_files.tmp_path_factory

MESSAGES = 60_000


@pytest.mark.spark
@pytest.mark.slow(reason="runs Spark")
@pytest.mark.timeout(900)
def test_every_message_is_archived_and_replayed_once_whenever_it_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    with EngineProcess(tmp_path / "engine", options=["--storage=log"]) as engine:
        run_archive(tmp_path, engine, messages=MESSAGES, kills=4, job="archive-here")
        run_replay(tmp_path, engine, spark, messages=MESSAGES, kills=3)


@pytest.mark.slow(reason="starts the archive's process twice")
@pytest.mark.timeout(600)
def test_every_message_is_archived_once_beside_housekeeping_when_both_are_killed(tmp_path: Path) -> None:
    with EngineProcess(tmp_path / "engine", options=["--storage=log"]) as engine:
        kills = RandomKills(tmp_path, engine, "", 20_000, 1, random.Random(0), window_s=2)
        kills.run()
    assert kills.met["kills"] == 1
