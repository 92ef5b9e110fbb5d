"""The console beside 500 topics with 5,000 channels and one with a million messages: pages, frames, publishing.

    python -m tests.benchmarks.many_channels [--topics 500] [--channels 10] [--waiting 1000000] [--rounds 5]

A real server; every channel has a message that waits, and one has a million. Pages are asked for one after the other by
one session; `first` is the first answer to each, when nothing is cached. Chromium measures the first paint and how busy
its main thread is (browsing.py). Publishing is measured in alternating rounds: alone; beside open overviews and a
session that reloads every 2 s, as people do; and beside the same with a session that reloads without pause. Each round
publishes for some seconds: the engine and the hub make their snapshot once a second, which a shorter one meets by
chance. The load programs share the processors with the server, so what those of the pages take is told as well.
Wall-clock times: other work of the machine disturbs them. The server's processor time, which is told beside them, is
disturbed little.
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
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import websockets

from tests.benchmarks.browsing import Browsed, browse
from tests.benchmarks.load.gate import LoadProgram
from tests.benchmarks.scenarios import publish_rate, topic_with
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess

CREATORS = 8  # connections that create topics and channels: acts of several topics share a line of topology.changes
DEEP = "/topics/deep/waiting/"
DEEP_MESSAGES = f"{DEEP}~messages/"
PAGES = ("/", "/topics/", "/topics/t1/", "/topics/t1/c1/", DEEP, DEEP_MESSAGES)
PAGE_MS_P95 = 300.0
FIRST_PAINT_MS_MAX = 1_000.0
BUSY_SHARE_MAX = 0.20
FRAME_BYTES_MAX = 50_000
PUBLISH_SHARE_MIN = 0.9
OPEN_PAGES = 4
PUBLISHED = 2_000_000  # in a round: some seconds
BODY_BYTES = 200

ALONE, PAGES_OPEN, RELOADING = "alone", "open pages", "open pages and a reload without pause"
_LOADS: dict[str, tuple[tuple[str, int], ...]] = {
    ALONE: (),
    PAGES_OPEN: (("watch", OPEN_PAGES), ("visit", 1)),
    RELOADING: (("watch", OPEN_PAGES), ("reload", 1)),
}


@dataclass(frozen=True, slots=True)
class Round:
    """A round of publishing.

    per_s: messages. engine_share, others_share: of one processor, what the engine's thread took and all others of the
    server, which are the console's and those that sync. load_share: the load programs that stand for the pages.
    """

    per_s: float
    engine_share: float
    others_share: float
    load_share: float


@dataclass(slots=True)
class Found:
    """first_ms, p95_ms: by page. frames: sizes in bytes. rounds: of publishing, by what was beside it."""

    first_ms: dict[str, float] = field(default_factory=dict)
    p95_ms: dict[str, float] = field(default_factory=dict)
    frames: list[int] = field(default_factory=list)
    browsed: list[Browsed] = field(default_factory=list)
    rounds: dict[str, list[Round]] = field(default_factory=lambda: {kind: [] for kind in _LOADS})

    def share(self, kind: str) -> float:
        """Of the rate alone: the median of the rounds' own ratios."""
        pairs = zip(self.rounds[kind], self.rounds[ALONE], strict=True)
        return statistics.median(one.per_s / alone.per_s for one, alone in pairs)

    def lines(self) -> list[str]:
        found = [
            f"{page:34} first {self.first_ms[page]:6.0f} ms   p95 {self.p95_ms[page]:6.0f} ms (target {PAGE_MS_P95:g})"
            for page in self.p95_ms
        ]
        found += [
            f"{one.path:34} first paint {one.first_paint_ms:5.0f} ms (target {FIRST_PAINT_MS_MAX:g}), main thread "
            f"{one.busy_share:6.1%} busy (target {BUSY_SHARE_MAX:.0%}), {one.updates} updates"
            for one in self.browsed
        ]
        found.append(
            f"overview's frame {max(self.frames) / 1e3:.1f} KB at most, one a second (target {FRAME_BYTES_MAX / 1e3:g})"
        )
        for kind, rounds in self.rounds.items():
            if rounds:
                per_s, others, engine, load = (
                    statistics.median(getattr(one, name) for one in rounds)
                    for name in ("per_s", "others_share", "engine_share", "load_share")
                )
                target = f" (target {PUBLISH_SHARE_MIN:g})" if kind == PAGES_OPEN else ""
                share = "" if kind == ALONE else f", {self.share(kind):.2f} of that alone{target}"
                found.append(
                    f"publishing, {kind}: {per_s:,.0f} messages/s{share}; of a processor: engine {engine:.1%}, "
                    f"the server's others {others:.1%}, load programs of the pages {load:.1%}"
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


def many_channels(
    directory: Path,
    topics: int,
    channels: int,
    waiting: int,
    *,
    seconds: float,
    rounds: int = 0,
    published: int = PUBLISHED,
    browsed: Sequence[str] = ("/", "/topics/", DEEP, DEEP_MESSAGES),
) -> Found:
    """waiting: messages of one channel. rounds: of publishing so many messages each, with and without pages."""
    # Without a trash the rounds' topics leave the disk at once.
    options = ["--max-topics=10000", "--no-pipeline", "--trash-age=0ms"]
    with ServerProcess(directory, options=options) as server:
        fill(server, topics, channels)
        server.http("POST", "/topic/create?topic=deep&storage=log")
        server.http("POST", "/channel/create?topic=deep&channel=waiting")
        publish_rate(server, "deep", BODY_BYTES, waiting)
        client = ConsoleClient(server.console_port)
        client.log_in()
        found = Found()
        found.first_ms, found.p95_ms = pages(client, seconds)
        found.frames = asyncio.run(frames(client, server.console_port, max(3, round(seconds))))
        found.browsed = browse(client, browsed, seconds)
        for number in range(rounds):
            # Each kind is first in turn.
            kinds = list(_LOADS)[number % len(_LOADS) :] + list(_LOADS)[: number % len(_LOADS)]
            for kind in kinds:
                found.rounds[kind].append(publish_beside(server, _LOADS[kind], published))
        client.close()
        return found


def publish_beside(server: ServerProcess, loads: Sequence[tuple[str, int]], published: int) -> Round:
    with ExitStack() as stack:
        programs = [
            stack.enter_context(LoadProgram("console_load", kind, server.console_port, "/", count))
            for kind, count in loads
        ]
        for program in programs:
            program.wait_until_ready()
        topic = stack.enter_context(topic_with(server, "log", "c0"))
        for program in programs:
            program.go()
        before, began_s = processor_seconds(server), time.monotonic()
        per_s = publish_rate(server, topic, BODY_BYTES, published)
        took_s = time.monotonic() - began_s
        engine_s, others_s = (now - then for now, then in zip(processor_seconds(server), before, strict=True))
        for program in programs:
            program.go()
        reports = [program.result() for program in programs]
        assert all(one["count"] > 0 for one in reports), "no frame and no page came"
    load_s = sum(one["cpu_s"] for one in reports)
    return Round(per_s, engine_s / took_s, others_s / took_s, load_s / took_s)


def processor_seconds(server: ServerProcess) -> tuple[float, float]:
    """What the engine's thread has taken so far, and all others of the server."""
    lines = server.http("GET", "/metrics").decode().splitlines()
    taken = {name: float(value) for name, _, value in (line.partition(" ") for line in lines) if "cpu_seconds" in name}
    engine_s = taken["penstock_engine_cpu_seconds_total"]
    return engine_s, taken["process_cpu_seconds_total"] - engine_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--channels", type=int, default=10, help="of each topic")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="messages of one channel")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="for the data; a temporary one without it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        found = many_channels(
            Path(directory) / "data",
            given.topics,
            given.channels,
            given.waiting,
            seconds=given.seconds,
            rounds=given.rounds,
        )
    print("\n".join(found.lines()))


if __name__ == "__main__":
    main()
