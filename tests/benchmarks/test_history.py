"""The benchmark of the history's queries works; no timing is judged."""

from pathlib import Path

from tests.benchmarks.history import make_lake, measure_queries


def test_queries_of_a_small_history_are_measured(tmp_path: Path) -> None:
    end_s = make_lake(tmp_path, days=2, channels=9)
    measured = measure_queries(tmp_path, end_s, 9, 1)
    assert all(0 < one["median"] <= one["p95"] for one in measured.values())
    assert {"list_first", "duckdb_24h_closed_days", "channel_24h"} <= measured.keys()
