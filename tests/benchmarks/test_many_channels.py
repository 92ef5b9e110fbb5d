"""The console beside many channels, at a fiftieth: its pages come, and a frame is as small as it is beside them all."""

from pathlib import Path

import pytest

from tests.benchmarks.many_channels import FRAME_BYTES_MAX, PAGE_MS_P95, many_channels

PATIENCE = 5  # the machine may be busy with other tests

pytestmark = pytest.mark.slow(reason="creates a hundred channels in a real server")


@pytest.mark.timeout(300)
def test_pages_and_frames_stay_small_beside_a_hundred_channels(tmp_path: Path) -> None:
    found = many_channels(tmp_path / "data", 10, 10, seconds=2)
    assert max(found.frames) <= FRAME_BYTES_MAX
    assert min(found.frames) > 5_000, "the twenty most urgent channels are in it"
    assert max(found.p95_ms.values()) <= PATIENCE * PAGE_MS_P95, found.lines()
