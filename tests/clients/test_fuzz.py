"""Malformed input on all three doors: a fortieth of `python -m tests.clients.fuzz_run`."""

from pathlib import Path

import pytest

from tests.clients.fuzz_run import run

pytestmark = pytest.mark.slow(reason="starts real servers")


def test_malformed_input_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    run(tmp_path / "data", rounds=360, seed=1, waits_for_files=False)
