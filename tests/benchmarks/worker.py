"""Measures the pipeline's worker: the time from its start to its first batch, and its CPU while all jobs wait.

    python -m tests.benchmarks.worker [--idle-s 120] [--starts 2]

A server with an archived topic; its worker is started by hand, so that nothing else is in the figures. The first start
is that of a data directory without anything of Spark's in it, the later ones find what the first one left. Idle is the
CPU time, of the worker and every process it started, while a sample every ten seconds is all that comes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from queue_engine.lake.job.state import read_states
from tests.support.processes.server import ROOT, ServerProcess
from tests.support.waiting import wait_for

TICKS_S = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_S = 300.0
LOOK_EVERY_S = 0.5
SETTLE_S = 90.0  # compilation and the first minute's batch are not idling


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--idle-s", type=float, default=120.0)
    parser.add_argument("--starts", type=int, default=2)
    given = parser.parse_args()
    starts_s: list[float] = []
    idle = 0.0
    with tempfile.TemporaryDirectory() as directory:
        data_path = Path(directory) / "data"
        with ServerProcess(data_path, options=["--storage=log", "--no-pipeline"]) as server:
            server.http("POST", "/topic/create?topic=orders")
            server.http("POST", "/cursor/create?topic=orders&cursor=archive")
            for number in range(given.starts):
                server.http("POST", "/pub?topic=orders", b"%d" % number)
                with running(server, data_path) as worker:
                    starts_s.append(seconds_to_first_batch(server, data_path))
                    if number == given.starts - 1:
                        time.sleep(SETTLE_S)
                        idle = idle_share(worker.pid, given.idle_s)
    print(
        json.dumps(
            {
                "start_to_first_batch_s": [round(seconds, 1) for seconds in starts_s],
                "idle_share_of_a_core": round(idle, 4),
            }
        )
    )


@contextmanager
def running(server: ServerProcess, data_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker on `server`, just started as `serve` does it, with its lake in `data_path`; ended at the end."""
    worker = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "queue_engine.lake.worker.worker",
            f"--engine-url=http://127.0.0.1:{server.http_port}",
            f"--data-path={data_path}",
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait(10)


def seconds_to_first_batch(server: ServerProcess, data_path: Path) -> float:
    """From now, when the worker was just started, until a message of `orders` that waits is in the archive, and its
    cursor has passed it."""
    began_s = time.monotonic()

    def is_archived() -> bool:
        answer = json.loads(server.http("GET", "/cursor/list?topic=orders"))
        return all(cursor["depth"] == 0 for cursor in answer["cursors"])

    assert not is_archived(), "no message waits"
    wait_for("the first batch", is_archived, timeout_s=START_TIMEOUT_S, every_s=0.1)
    elapsed_s = time.monotonic() - began_s
    failed = [state for state in read_states(data_path / "pipeline").by_name.values() if state.state == "failed"]
    assert not failed, failed
    return elapsed_s


def idle_share(leader_pid: int, span_s: float) -> float:
    """CPU seconds of the processes of a session by a second, those included that begin and end meanwhile."""
    used_s: dict[tuple[str, str], float] = {}
    note_cpu(leader_pid, used_s)
    before_s, began_s = sum(used_s.values()), time.monotonic()
    while (elapsed_s := time.monotonic() - began_s) < span_s:
        time.sleep(LOOK_EVERY_S)
        note_cpu(leader_pid, used_s)
    return (sum(used_s.values()) - before_s) / elapsed_s


def note_cpu(leader_pid: int, used_s: dict[tuple[str, str], float]) -> None:
    """Note in `used_s` the seconds of a core that each process of a session has used, by its number and start.

    What ended processes used stays there: the system forgets it, since Spark's daemons do not wait for theirs. By
    session, not by group: Spark's Python processes make groups of their own."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == leader_pid:
            user, system, started = fields[11], fields[12], fields[19]
            used_s[entry, started] = (int(user) + int(system)) / TICKS_S


if __name__ == "__main__":
    main()
