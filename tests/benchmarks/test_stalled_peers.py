"""Stalled connections are ended, and others are served beside them: a tenth of the benchmark, with short timeouts."""

from pathlib import Path

import pytest

from tests.benchmarks.stalled_peers import PATIENCE_S, STALLED, allow_descriptors, publish_ms, stalled
from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

CONNECTIONS = 12 * len(STALLED)

pytestmark = pytest.mark.slow(reason="starts a server and waits for its timeouts")


def test_stalled_connections_go_and_others_are_served(tmp_path: Path) -> None:
    allow_descriptors()
    options = ["--command-timeout=1s", "--magic-timeout=1s"]
    with EngineProcess(tmp_path / "data", options=options) as server:

        def is_served() -> bool:
            """On a machine that stalls a client may be too slow itself, with such timeouts."""
            try:
                return len(publish_ms(server, 50)) == 50
            except (EOFError, OSError):
                return False

        with stalled(server, CONNECTIONS) as peers:
            wait_for("a client to be served beside them", is_served)
            peers.wait(PATIENCE_S)
        wait_for("a client to be served", is_served)
        assert server.topic_stats("orders")["message_count"] >= 100
        assert server.http("GET", "/ping") == b"OK"
