"""kill -9 of the server in the middle of an archive, started again: one worker, every row once."""

from pathlib import Path

import pytest

from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.lake.lake_lock import holder_of
from tests.pipeline.archive_reading import archive_of, archives, cursor_of, data_files, named_files, publish, switch_on
from tests.pipeline.worker.test_process import GONE_WITHIN_S, START_TIMEOUT_S, ready_worker, session
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

MESSAGES = 150_000
BATCH = 1_000

pytestmark = [pytest.mark.slow(reason="runs the worker and kills servers"), pytest.mark.spark]


def archived_count(lake: Lake) -> int:
    return sum(one.next_offset for one in archives(lake, "orders"))


@pytest.mark.timeout(1_500)
def test_a_server_killed_in_mid_archive_goes_on_with_one_worker_and_every_row_once(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "data" / "pipeline"))
    bodies = [b"%d " % number + b"x" * 180 for number in range(MESSAGES)]
    server = ServerProcess(tmp_path / "data", options=["--storage=log", "--samples-interval=0ms"])
    server.start()
    try:
        for first in range(0, MESSAGES, BATCH):
            publish(server, "orders", bodies[first : first + BATCH])
        switch_on(server, "orders")
        # Rows are on their way to the lake, and none counts yet; where this process was stopped meanwhile, all do.
        wait_for(
            "rows in the lake",
            lambda: data_files(lake),
            timeout_s=START_TIMEOUT_S,
            every_s=0.002,
        )
        holder = holder_of(lake.path)
        assert holder is not None
    finally:
        server.kill9()
    wait_for("the worker to be gone", lambda: not session(holder.pid), timeout_s=GONE_WITHIN_S)
    assert archived_count(lake) in (0, MESSAGES), "one step, which counts whole or not at all"

    with server:
        worker = ready_worker(Path(lake.path))
        wait_for(
            "all to be archived",
            lambda: cursor_of(server, "orders").offset == MESSAGES,
            timeout_s=START_TIMEOUT_S,
            every_s=0.2,
        )
        now = holder_of(lake.path)
        assert now is not None
        assert now.pid == worker != holder.pid
    wait_for("the second worker to be gone", lambda: not session(worker), timeout_s=GONE_WITHIN_S)
    assert archive_of(lake, "orders").bodies == bodies
    assert named_files(lake) <= data_files(lake)
