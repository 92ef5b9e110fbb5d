"""Programs of several test processes never get the same port."""

import subprocess
import sys

from tests.support.processes.ports import free_ports
from tests.support.processes.server import ROOT

PROCESSES = 6
ASK = "from tests.support.processes.ports import free_ports; print(*free_ports(60), flush=True); input()"


def test_processes_that_run_at_once_get_different_ports() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ASK], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(PROCESSES)
    ]
    try:
        found = free_ports(60)
        for one in running:
            assert one.stdout is not None
            found += map(int, one.stdout.readline().split())
    finally:
        for one in running:
            one.communicate("\n")
    assert len(found) == len(set(found)) == 60 * (PROCESSES + 1)
