"""Archive and rollup on a real cluster of one machine: a small run of the same steps as the command."""

from pathlib import Path

import pytest

from tests.pipeline.cluster_run import run

MESSAGES = 20_000


@pytest.mark.spark
@pytest.mark.slow(reason="runs Spark")
@pytest.mark.timeout(600)
def test_a_cluster_makes_the_same_rows_over_http_and_leaves_no_process(tmp_path: Path) -> None:
    run(tmp_path, messages=MESSAGES, is_small=True)
