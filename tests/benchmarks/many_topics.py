"""Many topics and many deferred messages: how long creating, figures, a restart after kill -9 and a stop take.

    python -m tests.benchmarks.many_topics --topics 10000 --deferred 1000000

A real server. Topics, with a channel each, are created one after the other over HTTP on one connection, each answered
when it is on the disk; then /stats is read, the server is killed, started again, and stopped. Deferred messages are
published to one topic of the log, and the server is started again. Times are wall-clock times; beside them stands the
CPU time of the server's process, which depends less on other work of the machine.
"""

import argparse
import http.client
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.server import ServerProcess

DEFER_MS = 3_600_000
BATCH = 100
TARGETS_S = {"create": 60.0, "stats": 1.0, "restart": 5.0, "stop": 5.0, "start with deferred": 8.0}


@dataclass(frozen=True, slots=True)
class Step:
    """wall_s, cpu_s: of the server's process; cpu_s of a start is what it used until it listened."""

    name: str
    wall_s: float
    cpu_s: float

    def line(self) -> str:
        return (
            f"{self.name:24} {self.wall_s:8.2f} s   processor {self.cpu_s:8.2f} s   target {TARGETS_S[self.name]:g} s"
        )


def cpu_s_of(pid: int) -> float:
    """The CPU time of a process; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / 100


def timed(name: str, server: ServerProcess, do: Callable[[], object]) -> Step:
    before = cpu_s_of(server.pid) if server.is_running else 0.0
    began = time.monotonic()
    do()
    wall_s = time.monotonic() - began
    return Step(name, wall_s, cpu_s_of(server.pid) - before if server.is_running else 0.0)


def many_topics(directory: Path, topics: int, *, storage: str = "log") -> list[Step]:
    """Create, ask, kill, start and stop. Raises AssertionError when something is not there."""
    server = ServerProcess(directory, options=[f"--storage={storage}", f"--max-topics={max(topics, 10_000)}"])
    server.start()
    try:
        steps = [timed("create", server, lambda: create(server, topics))]
        steps.append(timed("stats", server, lambda: check_stats(server, topics)))
        server.kill9()
        steps.append(timed("restart", server, server.start))
        check_stats(server, topics)
        steps.append(timed("stop", server, server.stop))
    finally:
        if server.is_running:
            server.kill9()
    return steps


def create(server: ServerProcess, topics: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=120)
    for number in range(topics):
        for path in (f"/topic/create?topic=t{number}", f"/channel/create?topic=t{number}&channel=c"):
            connection.request("POST", path)
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, (path, response.status, body)
    connection.close()


def check_stats(server: ServerProcess, topics: int) -> None:
    found = server.stats()["topics"]
    assert len(found) == topics
    assert all(len(topic["channels"]) == 1 for topic in found)


def many_deferred(directory: Path, messages: int) -> list[Step]:
    """Publish them to a topic with one channel, stop, and start again."""
    server = ServerProcess(directory, options=["--storage=log", "--sync=os"])
    server.start()
    try:
        for path in ("/topic/create?topic=later", "/channel/create?topic=later&channel=c"):
            server.http("POST", path)
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=120)
        for number in range(messages):
            connection.request("POST", f"/pub?topic=later&defer={DEFER_MS}", body=b"%d" % number)
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, (response.status, body)
        connection.close()
        assert server.channel_stats("later", "c")["deferred_count"] == messages
        server.stop()
        step = timed("start with deferred", server, server.start)
        assert server.channel_stats("later", "c")["deferred_count"] == messages
        server.stop()
    finally:
        if server.is_running:
            server.kill9()
    return [step]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--deferred", type=int, default=1_000_000)
    parser.add_argument("--storage", default="log")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for step in many_topics(Path(directory) / "topics", arguments.topics, storage=arguments.storage):
            print(step.line(), flush=True)
        if arguments.deferred:
            for step in many_deferred(Path(directory) / "deferred", arguments.deferred):
                print(step.line(), flush=True)


if __name__ == "__main__":
    main()
