"""Consumers that stop reading: half of the benchmark, with bounds that a busy machine keeps."""

from pathlib import Path

import pytest

from tests.benchmarks.stopped_consumers import COST_BYTES_MAX, stopped_consumers

CONSUMERS = 24
PATIENCE = 2  # they share what the allocator keeps of other work; a run begun and a full socket for each are 240 KB


@pytest.mark.slow(reason="fills the sockets of a real server's consumers")
@pytest.mark.timeout(240)
def test_a_consumer_that_stops_reading_costs_little_and_others_are_served(tmp_path: Path) -> None:
    found = stopped_consumers(tmp_path / "data", CONSUMERS, seconds=0.5, rounds=1)
    assert found.cost_bytes[0] <= PATIENCE * COST_BYTES_MAX
    assert found.in_flight[0] > 0
    assert min(*found.alone[0], *found.beside[0]) > 0
