"""A worker without work ends, for real, and comes back for the next message, also for one that came as it ended."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.directory.lake_lock import holder_of
from queue_engine.lake.worker.state import ENDING, RESTING, read_worker_state
from tests.pipeline.archive_reading import archive_of, cursor_of, publish, switch_on
from tests.pipeline.worker.test_process import START_TIMEOUT_S, ready_worker, session
from tests.support.processes.penstock_command import TIMEOUT_S
from tests.support.processes.server import ROOT, ServerProcess
from tests.support.waiting import wait_for

REST_S = 3
ENDS_WITHIN_S = 60.0  # 30 s are given to a worker that ends to rest, before it is killed

pytestmark = [pytest.mark.slow(reason="runs the worker and its server"), pytest.mark.spark]


def wait_for_archive(server: ServerProcess, count: int) -> None:
    wait_for(
        f"{count} messages in the archive",
        lambda: cursor_of(server, "orders").offset == count,
        timeout_s=START_TIMEOUT_S,
        every_s=0.1,
    )


def wait_for_state(lake_path: Path, *states: str) -> None:
    def look() -> bool:
        said = read_worker_state(lake_path)
        return said is not None and said.state in states

    wait_for(f"a worker that is {states}", look, timeout_s=ENDS_WITHIN_S, every_s=0.01)


def wait_until_gone(worker_pid: int) -> None:
    wait_for("its processes to be gone", lambda: not session(worker_pid), timeout_s=ENDS_WITHIN_S, every_s=0.05)


@pytest.mark.timeout(1_500)
def test_a_worker_rests_and_comes_back_for_messages_and_none_is_lost_between(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "data" / "pipeline"))
    lake_path = Path(lake.path)
    options = ["--storage=log", "--samples-interval=0ms", f"--worker-rest={REST_S}s"]
    with ServerProcess(tmp_path / "data", options=options) as server:
        publish(server, "orders", [b"first"])
        switch_on(server, "orders")
        first = ready_worker(lake_path)
        wait_for_archive(server, 1)
        # The next message comes while the worker ends.
        wait_for_state(lake_path, ENDING, RESTING)
        publish(server, "orders", [b"second"])
        wait_until_gone(first)
        second = ready_worker(lake_path, other_than=first)
        wait_for_archive(server, 2)
        # The one after that comes while nothing of the pipeline runs.
        wait_for_state(lake_path, RESTING)
        wait_until_gone(second)
        assert holder_of(lake.path) is None
        command = [sys.executable, "manage.py", "pipeline", "status", f"--data-path={tmp_path / 'data'}"]
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        status = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        assert status.stdout.startswith("The worker has rested since 20"), status.stdout
        publish(server, "orders", [b"third"])
        wait_for_archive(server, 3)
        assert "the pipeline's worker rests; it is started again when there is work" in server.log
        assert "the pipeline's worker ended" not in server.log, "a rest is no failure"
    assert archive_of(lake, "orders").bodies == [b"first", b"second", b"third"]
