"""A disk without room: the server starts on it, and whatever makes room works; publishes are refused and say why."""

from pathlib import Path

import pytest

from tests.faults.full_disks import LEFT_BYTES, OPTIONS, fill_up, kill_and_drain
from tests.support.processes.small_disk import SmallDiskServer

pytestmark = pytest.mark.slow(reason="starts real servers")


@pytest.mark.parametrize("left_bytes", LEFT_BYTES[1:], ids=["944 KiB", "nothing"])
def test_a_server_starts_on_a_full_disk_and_can_be_drained(tmp_path: Path, left_bytes: int | None) -> None:
    server = SmallDiskServer(tmp_path / "data", options=OPTIONS)
    server.limit_bytes = 24 << 20
    with server:
        count = fill_up(server)
        if left_bytes is not None:
            server.fill(left_bytes)
        kill_and_drain(server, count)
