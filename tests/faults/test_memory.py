"""The memory that clients can fill in the real server: never more than its budgets, and none when they are gone."""

from pathlib import Path

import pytest

from tests.faults.memory_runs import MB, run

pytestmark = pytest.mark.slow(reason="costs real servers hundreds of megabytes")

# Scenario → the share of its full size that takes clearly more where no budget holds.
SHARES = {
    "stalled_consumers": 0.6,
    "large_mpubs": 0.5,
    "half_bodies_tcp": 0.5,
    "half_bodies_http": 0.5,
    "many_half_bodies": 0.4,
    "stalled_server": 0.6,
    "stalled_copies": 0.2,
    "ephemeral_topic": 0.1,
    "deferred": 0.7,
}
# The allocator is asked to give back from 32 MiB on, and the server's own growth comes on top.
ABOVE_BYTES = 48 * MB


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scenario", SHARES)
def test_memory_stays_within_its_budgets_and_comes_back(tmp_path: Path, scenario: str) -> None:
    run(tmp_path / "data", scenario, SHARES[scenario], above_bytes=ABOVE_BYTES)
