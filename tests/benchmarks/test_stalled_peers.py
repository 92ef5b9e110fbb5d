"""Stalled connections are ended, and others are served beside them: a tenth of the benchmark, with short timeouts."""

from pathlib import Path

import pytest

from tests.benchmarks.stalled_peers import PATIENCE_S, STALLED, allow_descriptors, publish_ms, stalled
from tests.support.processes.engine_process import EngineProcess

CONNECTIONS = 12 * len(STALLED)

pytestmark = pytest.mark.slow(reason="starts a server and waits for its timeouts")


def test_stalled_connections_go_and_others_are_served(tmp_path: Path) -> None:
    allow_descriptors()
    options = ["--command-timeout=1s", "--magic-timeout=1s"]
    with EngineProcess(tmp_path / "data", options=options) as server, stalled(server, CONNECTIONS) as peers:
        assert len(publish_ms(server, 100)) == 100
        peers.wait(PATIENCE_S)
        assert len(publish_ms(server, 10)) == 10
        assert server.topic_stats("orders")["message_count"] == 110
        assert server.http("GET", "/ping") == b"OK"
