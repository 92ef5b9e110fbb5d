"""Published messages come to a query over the archive, each once: a small run of the benchmark."""

import statistics
from pathlib import Path

import pytest

from tests.benchmarks.queryable import OPTIONS, archive_topic, times_to_query
from tests.benchmarks.results import ROWS
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow(reason="runs the worker and its server"), pytest.mark.timeout(600)]


def test_messages_are_queryable_within_three_times_the_target(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", options=OPTIONS) as server:
        archive_topic(server)
        # The worker starts and archives these in its first round, not a minute later.
        times_s = times_to_query(server, tmp_path / "data", range(3))
    at_most_s = ROWS["queryable_s"].at_most
    assert at_most_s is not None
    assert 0 < statistics.median(times_s) <= 3 * at_most_s
