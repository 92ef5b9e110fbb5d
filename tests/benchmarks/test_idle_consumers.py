"""Idle consumers come, are cut and come back, and publishing goes on: a small run of the benchmark."""

from pathlib import Path

import pytest

from tests.benchmarks.idle_consumers import Consumers, client_count, make_topic
from tests.benchmarks.stalled_peers import allow_descriptors, publish_ms
from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

COUNT = 600  # more than connect at once

pytestmark = pytest.mark.slow(reason="starts a server")


def test_all_are_back_after_they_were_cut(tmp_path: Path) -> None:
    allow_descriptors()
    with EngineProcess(tmp_path / "data") as server:
        make_topic(server)
        consumers = Consumers(server.tcp_port)
        for _ in range(2):
            consumers.connect(COUNT)
            wait_for("all to be there", lambda: client_count(server) == COUNT)
            assert len(publish_ms(server, 20)) == 20
            consumers.cut()
            wait_for("all to be gone", lambda: client_count(server) == 0)
