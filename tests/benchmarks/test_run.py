"""The pipeline's scenarios: the small run has each of them, and each of its rows is one of the table's."""

from tests.benchmarks import results, run
from tests.benchmarks.small_pipeline_run import ROWS, SMALL

ELSEWHERE = {"pipeline_queryable"}  # test_queryable.py


def test_the_small_run_has_each_scenario_of_the_pipeline() -> None:
    assert {one.name for one in SMALL} | ELSEWHERE == {one.name for one in run.PIPELINE}


def test_each_row_of_the_small_run_is_a_row_of_the_table() -> None:
    assert results.ROWS.keys() >= ROWS
