"""The console beside 500 topics with 5,000 channels: its pages, the overview's frames, and publishing meanwhile.

    python -m tests.benchmarks.many_channels [--topics 500] [--channels 10] [--seconds 20]

A real server; every channel has a message that waits. Pages are asked for one after the other by one session; `first`
is the first answer to each, when nothing is cached. Publishing is measured alone and beside open overviews and a
session that reloads, in alternating rounds. Wall-clock times: other work of the machine disturbs them.
"""

import argparse
import asyncio
import http.client
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import websockets

from tests.benchmarks.scenarios import LoadProgram, publish_rate, topic_with
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess

CREATORS = 8  # connections that create topics and channels: acts of several topics share a line of topology.changes
PAGES = ("/", "/topics/", "/topics/t1/", "/topics/t1/c1/")
PAGE_MS_P95 = 300.0
FRAME_BYTES_MAX = 50_000
PUBLISH_SHARE_MIN = 0.9
OPEN_PAGES = 4
PUBLISHED = 120_000


@dataclass(slots=True)
class Found:
    """first_ms, p95_ms: by page. frames: sizes in bytes. alone, watched: messages a second, a figure for each round."""

    first_ms: dict[str, float] = field(default_factory=dict)
    p95_ms: dict[str, float] = field(default_factory=dict)
    frames: list[int] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)

    def lines(self) -> list[str]:
        found = [
            f"{page:16} first {self.first_ms[page]:7.1f} ms   p95 {self.p95_ms[page]:7.1f} ms (target {PAGE_MS_P95:g})"
            for page in self.p95_ms
        ]
        found.append(
            f"overview's frame {max(self.frames) / 1e3:.1f} KB at most, one a second (target {FRAME_BYTES_MAX / 1e3:g})"
        )
        if self.alone:
            share = statistics.median(self.watched) / statistics.median(self.alone)
            found.append(
                f"publishing beside {OPEN_PAGES} open overviews {statistics.median(self.watched):,.0f} messages/s, "
                f"{share:.2f} of that alone (target {PUBLISH_SHARE_MIN:g})"
            )
        return found


def fill(server: ServerProcess, topics: int, channels: int) -> None:
    """Create them, and publish a message to each topic."""
    failed: list[BaseException] = []

    def create(numbers: Sequence[int]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=120)
        try:
            for number in numbers:
                paths = [f"/topic/create?topic=t{number}"]
                paths += [f"/channel/create?topic=t{number}&channel=c{one}" for one in range(channels)]
                for path in (*paths, f"/pub?topic=t{number}"):
                    connection.request("POST", path, body=b"waits")
                    response = connection.getresponse()
                    body = response.read()
                    assert response.status == 200, (path, response.status, body)
        except BaseException as exc:
            failed.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=create, args=(range(first, topics, CREATORS),)) for first in range(CREATORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def pages(client: ConsoleClient, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """The first answer to each page, and the 95th percentile of those that follow, in ms."""
    took: dict[str, list[float]] = {page: [] for page in PAGES}
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s or not all(len(times) > 1 for times in took.values()):
        for page, times in took.items():
            began_s = time.perf_counter()
            answer = client.get(page)
            times.append(1e3 * (time.perf_counter() - began_s))
            assert answer.status == 200, (page, answer.status)
    p95 = {page: sorted(times[1:])[int(0.95 * (len(times) - 1))] for page, times in took.items()}
    return {page: times[0] for page, times in took.items()}, p95


async def frames(client: ConsoleClient, port: int, count: int) -> list[int]:
    """The sizes of so many live updates of the overview."""
    subscription = client.subscription("/")
    sizes = []
    async with websockets.connect(
        f"ws://127.0.0.1:{port}/ws/live/",
        additional_headers={"Cookie": client.cookie},
        origin=websockets.Origin(client.origin),
        max_size=None,
    ) as socket:
        await socket.send(f'{{"subscribe":{subscription}}}')
        for _ in range(count):
            text = await asyncio.wait_for(socket.recv(decode=False), 60)
            sizes.append(len(text))
            await socket.send(f'{{"ack":{json.loads(text)["seq"]}}}')
    return sizes


def many_channels(directory: Path, topics: int, channels: int, *, seconds: float, rounds: int = 0) -> Found:
    """rounds: of publishing, alone and watched."""
    with ServerProcess(directory, options=["--max-topics=10000"]) as server:
        fill(server, topics, channels)
        client = ConsoleClient(server.console_port)
        client.log_in()
        found = Found()
        found.first_ms, found.p95_ms = pages(client, seconds)
        found.frames = asyncio.run(frames(client, server.console_port, max(3, round(seconds))))
        for _ in range(rounds):
            found.alone.append(published(server))
            with LoadProgram("console_load", "watch", server.console_port, "/", OPEN_PAGES) as watch:
                watch.wait_until_ready()
                watch.go()
                found.watched.append(published(server))
                watch.go()
                assert watch.result()["count"] > 0, "no frame came to any page"
        client.close()
        return found


def published(server: ServerProcess) -> float:
    with topic_with(server, "log", "c0") as topic:
        return publish_rate(server, topic, 200, PUBLISHED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--channels", type=int, default=10, help="of each topic")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = many_channels(
            Path(directory) / "data", given.topics, given.channels, seconds=given.seconds, rounds=given.rounds
        )
    print("\n".join(found.lines()))


if __name__ == "__main__":
    main()
