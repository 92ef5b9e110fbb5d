"""The pipeline's scenarios at a small size, as `run --pipeline` measures them: each gives its rows. Times are not
judged."""

import json
import subprocess
import sys

import pytest

from tests.benchmarks import results, run
from tests.benchmarks.small_pipeline_run import SMALL

ELSEWHERE = {"pipeline_queryable"}  # test_queryable.py: its second round would wait for a minute
ROWS = {
    "pipeline_parquet", "pipeline_leased", "pipeline_http", "pipeline_copy", "pipeline_archive",
    "pipeline_publish_alone", "pipeline_publish", "history_query_ms", "history_query_now_ms", "history_page_p95_ms",
    "worker_first_start_s", "worker_later_start_s", "worker_idle_percent",
}  # fmt: skip

pytestmark = [pytest.mark.spark, pytest.mark.slow(reason="runs Spark and servers"), pytest.mark.timeout(900)]


def test_each_scenario_of_the_pipeline_gives_its_rows() -> None:
    assert {one.name for one in SMALL} | ELSEWHERE == {one.name for one in run.PIPELINE}
    command = [sys.executable, "-m", "tests.benchmarks.small_pipeline_run"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    rounds = json.loads(ended.stdout.splitlines()[-1])
    assert set(rounds) == ROWS
    assert all(value >= 0 for sides in rounds.values() for value in sides["penstock"])
    lines = results.table(rounds).splitlines()
    for name in ROWS:
        assert any(line.startswith(f"| {results.ROWS[name].title}, ") for line in lines)
