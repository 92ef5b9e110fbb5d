"""`penstock topology`, as a process beside a real server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.server import ROOT, ServerProcess

pytestmark = pytest.mark.slow(reason="starts real servers")


def topology(directory: Path, verb: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run(
        [sys.executable, "manage.py", "topology", verb, f"--data-path={directory}"],
        cwd=ROOT,
        env=environment | {"PENSTOCK_DATA_PATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def start_error(server: ServerProcess) -> str:
    try:
        server.start()
    except RuntimeError as exc:
        return str(exc)
    raise AssertionError("it started")


def test_a_server_that_stops_on_an_altered_file_starts_again_once_it_is_accepted(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    with server:
        server.http("POST", "/topic/create?topic=orders")
        server.http("POST", "/channel/create?topic=orders&channel=billing")
        running = topology(server.data_path, "check")
        assert running.returncode != 0
        assert "in use by another instance" in running.stderr
    assert topology(server.data_path, "check").returncode == 0
    assert "billing" in topology(server.data_path, "show").stdout
    path = server.data_path / "topology.json"
    path.write_bytes(path.read_bytes().replace(b'"billing"', b'"mailing"'))
    told = start_error(server)
    assert "does not match its checksum" in told
    assert "Traceback" not in told
    checked = topology(server.data_path, "check")
    assert checked.returncode != 0
    assert "penstock topology accept" in checked.stderr
    assert topology(server.data_path, "accept").returncode == 0
    with server:
        assert [one["channel_name"] for one in server.topic_stats("orders")["channels"]] == ["mailing"]
