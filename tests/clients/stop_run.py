"""Many disk queues with messages in memory, a SIGTERM, more signals during the stop, and a start: all is there.

python -m tests.clients.stop_run [--topics 1500] [--messages 20]: the full size; prints how long each step took.
"""

import argparse
import signal
import tempfile
import time
from pathlib import Path

from tests.support.nsq_socket import NsqSocket, mpub_body, sized
from tests.support.processes.server import ServerProcess

OPTIONS = ["--storage=diskqueue", "--samples-interval=0ms"]


def fill(server: ServerProcess, topics: int, messages: int) -> int:
    """Publish so many messages to each topic, all to be in memory; how many they are."""
    with NsqSocket(server.tcp_port) as client:
        for number in range(topics):
            bodies = [b"%d.%d" % (number, at) for at in range(messages)]
            client.send(b"MPUB t%d\n" % number + sized(mpub_body(bodies)))
        for _ in range(topics):
            client.expect_ok()
    return topics * messages


def depth_of_all(server: ServerProcess) -> int:
    return sum(topic["depth"] for topic in server.stats()["topics"])


def run(path: Path, topics: int, messages: int) -> dict[str, float]:
    """The whole of it; raises AssertionError when a message is missing."""
    took: dict[str, float] = {}
    server = ServerProcess(path, options=OPTIONS)
    server.start()
    count = fill(server, topics, messages)
    began = time.monotonic()
    status = server.signalled(signal.SIGTERM, signal.SIGTERM, signal.SIGINT)
    took["stop"] = time.monotonic() - began
    assert status == 0, f"status {status}; it wrote:\n{server.log[-3_000:]}"
    began = time.monotonic()
    server.start()
    took["start"] = time.monotonic() - began
    found = depth_of_all(server)
    assert found == count, f"{count} messages were acknowledged, {found} are there after the stop"
    server.stop()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1_500)
    parser.add_argument("--messages", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        took = run(Path(directory) / "data", given.topics, given.messages)
    print(f"{given.topics} topics of {given.messages}: " + ", ".join(f"{name} {s:.1f} s" for name, s in took.items()))


if __name__ == "__main__":
    main()
