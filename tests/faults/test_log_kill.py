"""kill -9 of the real server, 20 times: no acknowledged message is lost, with any sync policy."""

from pathlib import Path

import pytest

from tests.faults.kill_runs import ACKNOWLEDGED_MIN, run

pytestmark = pytest.mark.slow(reason="kills real servers")

KILLS = {"always": 8, "interval": 6, "os": 6}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", KILLS)
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path, policy: str) -> None:
    assert run(tmp_path / "data", KILLS[policy], seed=7, policy=policy) > ACKNOWLEDGED_MIN * KILLS[policy]
