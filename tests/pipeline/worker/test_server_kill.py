"""kill -9 of the server while its worker starts Java and in the middle of an archive, though Java hangs: nothing of it
goes on. Started again: one worker, every row once."""

import os
import signal
from pathlib import Path

import pytest

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.directory.lake_lock import holder_of
from tests.pipeline.archive_reading import archive_of, archives, cursor_of, data_files, named_files, publish, switch_on
from tests.pipeline.worker.test_process import (
    GONE_WITHIN_S,
    START_TIMEOUT_S,
    group,
    java_of,
    ready_worker,
    session,
)
from tests.support import disk_files
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

tmp_path_factory = disk_files.tmp_path_factory

MESSAGES = 60_000
BATCH = 1_000

pytestmark = [pytest.mark.slow(reason="runs the worker and kills servers"), pytest.mark.spark]


def archived_count(lake: Lake) -> int:
    return sum(one.next_offset for one in archives(lake, "orders"))


@pytest.mark.timeout(1_500)
def test_a_killed_server_takes_its_worker_along_and_goes_on_with_one_and_every_row_once(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "data" / "pipeline"))
    bodies = [b"%d " % number + b"x" * 180 for number in range(MESSAGES)]
    server = ServerProcess(tmp_path / "data", options=["--storage=log", "--samples-interval=0ms"])
    server.start()
    try:
        for first in range(0, MESSAGES, BATCH):
            publish(server, "orders", bodies[first : first + BATCH])
        switch_on(server, "orders")
        starting = wait_for("the worker", lambda: holder_of(lake.path), timeout_s=START_TIMEOUT_S).pid
        wait_for("its java", lambda: len(group(starting)) > 1, timeout_s=START_TIMEOUT_S)
    finally:
        server.kill9()
    wait_until_gone(starting)

    server.start()
    try:
        # Rows are on their way to the lake, and none counts yet; where this process was stopped meanwhile, all do.
        wait_for("rows in the lake", lambda: data_files(lake), timeout_s=START_TIMEOUT_S, every_s=0.002)
        holder = holder_of(lake.path)
        assert holder is not None
        assert holder.pid != starting
        os.kill(java_of(holder.pid), signal.SIGSTOP)
    finally:
        server.kill9()
    wait_until_gone(holder.pid)
    wait_for("the lake to be free", lambda: holder_of(lake.path) is None)
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
    wait_until_gone(worker)
    assert archive_of(lake, "orders").bodies == bodies
    assert named_files(lake) <= data_files(lake)


def wait_until_gone(worker_pid: int) -> None:
    wait_for("all that the worker has started to be gone", lambda: not session(worker_pid), timeout_s=GONE_WITHIN_S)
