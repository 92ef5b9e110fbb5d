"""Some hundred crash states of a Delta table; more by hand."""

from pathlib import Path

import pytest

from tests.faults.table_crash_states import run_states


@pytest.mark.slow(reason="hundreds of tables are opened and written")
@pytest.mark.parametrize("seed", [1, 2])
def test_a_table_keeps_what_was_acknowledged(tmp_path: Path, seed: int) -> None:
    assert run_states(100, seed, tmp_path) >= 100
