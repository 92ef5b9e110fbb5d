"""Measures the memory of a server and of its pipeline's worker: Java, and the worker's Python processes.

    python -m tests.benchmarks.worker_memory [--rounds 3] [--messages 400000] [--against ../before] [-- OPTION …]

A server as a user starts it, with the options behind `--`. It is measured alone; then, with one topic archived, once
its first message is in the archive; at the most, while `--messages` of 200 bytes are archived; and a while later, when
all jobs wait. Memory is PSS: a page that several processes share is divided by their number, so figures add up to what
the machine gives away. Beside it stand the seconds from a publish to the archive, the worker's start included; how fast
the archive is, `run.py` measures. With --against another checkout is measured in turn.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from queue_engine.lake.directory.lake_lock import holder_of
from tests.benchmarks.spark_topics import publish_rows
from tests.support.processes.memory import is_java, pss_bytes, session_pids
from tests.support.processes.server import ROOT, ServerProcess
from tests.support.waiting import wait_for

MIB = 1 << 20
TIMEOUT_S = 400.0
SAMPLE_EVERY_S = 0.5
ARCHIVED_SETTLE_S = 5.0  # the step that wrote the message ends, and gives back what it took
SETTLE_S = 75.0  # Spark ends a Python process that had no task for a minute
TOPIC = "spark_0"

Figures = dict[str, float]


def main() -> None:
    """Print a line of JSON for each checkout: medians, memory in MiB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--settle-s", type=float, default=SETTLE_S)
    parser.add_argument("--against", type=Path, help="another checkout, measured in alternating rounds")
    parser.add_argument("options", nargs="*", help="options of serve, behind --; the other checkout gets none")
    given = parser.parse_args()
    found: dict[Path, list[Figures]] = {root.absolute(): [] for root in (ROOT, given.against) if root is not None}
    for number in range(given.rounds):
        for root, rounds in found.items():
            options = given.options if root == ROOT else []
            rounds.append(measure(root, options, messages=given.messages, settle_s=given.settle_s))
            print(f"round {number + 1} of {root.name}: {json.dumps(rounds[-1])}", flush=True)
    for root, rounds in found.items():
        medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        print(f"{root.name}: {json.dumps(medians)}")


def measure(root: Path, options: Sequence[str], *, messages: int, settle_s: float) -> Figures:
    """One round on a new server."""
    with tempfile.TemporaryDirectory() as directory:
        data_path = Path(directory) / "data"
        given = ["--storage=log", f"--max-body-size={1 << 20}", f"--log-segment-bytes={16 << 20}", *options]
        with ServerProcess(data_path, options=given, root=root) as server, Watch(server.pid, data_path) as watch:
            found = watch.now("server_alone")
            server.http("POST", f"/topic/create?topic={TOPIC}")
            server.http("POST", f"/cursor/create?topic={TOPIC}&cursor=archive")
            began_s = time.monotonic()
            server.http("POST", f"/pub?topic={TOPIC}", b"first")
            wait_for("the first message", lambda: not _depth(server), timeout_s=TIMEOUT_S, every_s=0.05)
            found["first_archived_s"] = round(time.monotonic() - began_s, 1)
            time.sleep(ARCHIVED_SETTLE_S)
            found |= watch.now("one_message")
            watch.peak()
            publish_rows(server.http_port, [TOPIC], messages)
            wait_for("all in the archive", lambda: not _depth(server), timeout_s=TIMEOUT_S)
            found |= {f"peak_{name}": value for name, value in watch.peak().items()}
            time.sleep(settle_s)
            found |= watch.now("waiting")
    return found


def _depth(server: ServerProcess) -> int:
    answer = json.loads(server.http("GET", f"/cursor/list?topic={TOPIC}"))
    return sum(cursor["depth"] for cursor in answer["cursors"])


class Watch:
    """Looks at a server and its worker again and again, and keeps the most memory of each part."""

    def __init__(self, server_pid: int, data_path: Path) -> None:
        self._server_pid = server_pid
        self._lake_path = data_path / "pipeline"
        self._most: Figures = {}
        self._end = threading.Event()
        self._mutex = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def now(self, name: str) -> Figures:
        """Memory of each part in MiB, each figure's name begun with `name`."""
        return {f"{name}_{part}": value for part, value in self._parts().items()}

    def peak(self) -> Figures:
        """The most of each part since the last call."""
        with self._mutex:
            most, self._most = self._most, {}
        return most

    def _run(self) -> None:
        while not self._end.wait(SAMPLE_EVERY_S):
            parts = self._parts()
            with self._mutex:
                self._most = {name: max(value, self._most.get(name, 0)) for name, value in parts.items()}

    def _parts(self) -> Figures:
        holder = holder_of(str(self._lake_path))
        pids = session_pids(holder.pid) if holder else []
        java = [pid for pid in pids if is_java(pid)]
        python = [pid for pid in pids if pid not in java]
        parts = {
            "server": pss_bytes(self._server_pid) / MIB,
            # A Java that starts a program is two for a moment, which have the same memory.
            "java": max(map(pss_bytes, java), default=0) / MIB,
            "python": sum(map(pss_bytes, python)) / MIB,
            "python_processes": len(python),
        }
        parts["all"] = parts["server"] + parts["java"] + parts["python"]
        return {name: round(value) for name, value in parts.items()}


if __name__ == "__main__":
    main()
