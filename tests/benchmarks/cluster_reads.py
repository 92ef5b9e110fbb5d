"""The reading of a cluster of 50 nodes with 200 topics, 5 channels each, and 20,000 clients beside an engine.

    python -m tests.benchmarks.cluster_reads [--nodes 50] [--topics 200] [--channels 5] [--clients 20000]
        [--seconds 60] [--rounds 5]

The nodes are one process beside this one (load/node_fakes.py); all their counters grow from one reading to the next,
which is the most that there is to merge. What is measured: the share of a core that the cluster's thread takes, without
a page, with a topic's page and with the page of all clients; how long a change at a node takes until the snapshot has
it, while its topic's page is open; the oldest figures elsewhere; the memory of this process. Then publishing into a
server alone and into one that reads such a cluster with a topic's page open, in alternating rounds.
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import Addresses, ClusterOptions
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.merging.merged import ClusterSnapshot
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.service.runner import EngineRunner
from tests.benchmarks.load.gate import LoadProgram
from tests.benchmarks.many_channels import processor_seconds
from tests.benchmarks.scenarios import publish_rate, topic_with
from tests.support.processes.server import ServerProcess
from tests.support.storage_kinds import engine_options
from tests.support.waiting import wait_for

SHARE_MAX = 0.10
SHOWN_S_MAX = 2.0
PUBLISH_SHARE_MIN = 0.9
PUBLISHED = 500_000  # in a round: some seconds
BODY_BYTES = 200
TOPIC, CHANNEL = "t0", "c0"


class Nodes:
    """The simulated nodes."""

    def __init__(self, *counts: int) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.load.node_fakes", *map(str, counts)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addresses = [f"127.0.0.1:{port}" for port in self._line().split()]

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def set_depth(self, depth: int) -> float:
        """Of the first channel at the first node; the Unix time when it was so."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{depth}\n")
        self._process.stdin.flush()
        return int(self._line()) / 1e9

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait()


@dataclass(slots=True)
class Part:
    """share: of a core, of the cluster's thread. period_s: between two readings of a node, as it was at the end.
    oldest_s: the greatest age of figures of all topics. rss_mb: of this process, more than before it read anything."""

    share: float
    oldest_s: float
    rss_mb: float
    readings: float

    def line(self, name: str) -> str:
        return (
            f"{name:22} {self.share:6.1%} of a core (target {SHARE_MAX:.0%}); a node read every {self.readings:.1f} s, "
            f"oldest figures {self.oldest_s:.1f} s; memory +{self.rss_mb:.0f} MB"
        )


@dataclass(slots=True)
class Found:
    parts: dict[str, Part] = field(default_factory=dict)
    shown_s: list[float] = field(default_factory=list)
    clients_s: float = 0.0
    alone: list["Published"] = field(default_factory=list)
    beside: list["Published"] = field(default_factory=list)

    def lines(self) -> list[str]:
        found = [part.line(name) for name, part in self.parts.items()]
        if self.shown_s:
            found.append(
                f"a change on the open page is in the snapshot after {statistics.median(self.shown_s):.2f} s, at most "
                f"{max(self.shown_s):.2f} s (target {SHOWN_S_MAX:g})"
            )
        if self.clients_s:
            found.append(f"all clients are there {self.clients_s:.1f} s after their page opened")
        if self.alone:
            alone, beside = (max(one.per_s for one in ones) for ones in (self.alone, self.beside))
            found.append(
                f"publishing alone {alone:,.0f} messages/s, beside the cluster {beside:,.0f}: {beside / alone:.2f} "
                f"(target {PUBLISH_SHARE_MIN:g}), each the best of {len(self.alone)}"
            )
            for name, ones in (("alone", self.alone), ("beside", self.beside)):
                engine_us, others = min(one.engine_us for one in ones), min(one.others_share for one in ones)
                found.append(
                    f"  {name}: engine {engine_us:.2f} us a message, the server's others {others:.1%} of a core"
                )
        return found


@dataclass(frozen=True, slots=True)
class Published:
    """A round. engine_us: processor time of the engine for a message. others_share: of a core, of all other threads of
    the server."""

    per_s: float
    engine_us: float
    others_share: float


class Reading:
    """A cluster beside an engine in this process, and its newest snapshot."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.newest: ClusterSnapshot | None = None
        self.came_s = 0.0
        self.seen = threading.Condition()
        self.rss_before = _rss()
        cluster.on_snapshot.append(self._take)

    def _take(self, snapshot: EngineSnapshot | ClusterSnapshot) -> None:
        if isinstance(snapshot, ClusterSnapshot):
            with self.seen:
                self.newest, self.came_s = snapshot, time.time()
                self.seen.notify_all()

    def is_whole(self) -> bool:
        nodes = self.cluster.state.nodes
        return bool(nodes) and all(node.stats is not None for node in nodes) and self.newest is not None

    def clients(self) -> int:
        """Of all nodes that have been read with them."""
        all_stats = [node.stats for node in self.cluster.state.nodes if node.stats is not None]
        channels = (one for stats in all_stats for topic in stats.topics.values() for one in topic.channels.values())
        return sum(len(one.clients or ()) for one in channels)

    def part(self, seconds: float, show: Callable[[], None]) -> Part:
        """Measure for so long; show: as a page does with each update."""
        thread = next(one for one in threading.enumerate() if one.name == "penstock-cluster")
        assert thread.ident is not None
        clock = time.pthread_getcpuclockid(thread.ident)
        began_s, cpu_s = time.monotonic(), time.clock_gettime(clock)
        ages: list[float] = []
        read: dict[str, set[int]] = {}
        while time.monotonic() - began_s < seconds:
            show()
            time.sleep(0.5)
            now_ms = time.time_ns() // 1_000_000
            for node in self.cluster.state.nodes:
                if node.stats is not None:
                    ages.append((now_ms - node.stats.read_at_ms) / 1000)
                    read.setdefault(node.name, set()).add(node.stats.read_at_ms)
        took_s = time.monotonic() - began_s
        share = (time.clock_gettime(clock) - cpu_s) / took_s
        gc.collect()
        every_s = took_s / max(1, statistics.mean(len(times) - 1 for times in read.values()))
        return Part(share, max(ages), (_rss() - self.rss_before) / 1e6, every_s)

    def shown_after(self, nodes: Nodes, depth: int) -> float:
        """Change a depth at a node; seconds until the merged snapshot has it, while a page shows its topic."""
        before = _depth(self.newest)
        changed_s = nodes.set_depth(depth)

        def is_there() -> bool:
            self.cluster.watch(TOPIC)
            return _depth(self.newest) != before

        with self.seen:
            while not is_there():
                assert self.seen.wait(30), "no snapshot came"
            return self.came_s - changed_s


def _depth(snapshot: ClusterSnapshot | None) -> int:
    assert snapshot is not None
    (topic,) = [one for one in snapshot.merged.topics if one.topic_name == TOPIC]
    return next(one.depth for one in topic.channels if one.channel_name == CHANNEL)


def _rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def reading(directory: Path, nodes: Nodes) -> Iterator[Reading]:
    options = engine_options(tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", data_path=str(directory))
    addresses = Addresses.parse([], nodes.addresses)
    runner = EngineRunner(options)
    cluster = Cluster(ClusterOptions(addresses), ChosenAddresses(directory, addresses), lambda: None)
    runner.on_snapshot.append(cluster.take)
    runner.start()
    found = Reading(cluster)
    cluster.start()
    try:
        yield found
    finally:
        cluster.stop()
        runner.stop()


def cluster_reads(directory: Path, nodes: Nodes, clients: int, *, seconds: float, changes: int = 20) -> Found:
    """seconds: of each part."""
    found = Found()
    with reading(directory, nodes) as read:
        wait_for("all nodes", read.is_whole, timeout_s=120)
        read.part(seconds / 2, lambda: None)  # the period settles
        found.parts["without a page"] = read.part(seconds, lambda: None)
        found.parts["a topic's page"] = read.part(seconds, lambda: read.cluster.watch(TOPIC, clients=True))
        # Not in step with the readings, which come every second.
        for number in range(changes):
            until_s = time.monotonic() + 0.37
            wait_for("a moment", lambda until=until_s: time.monotonic() > until)
            found.shown_s.append(read.shown_after(nodes, 1_000 + number))
        began_s = time.monotonic()

        def are_there() -> bool:
            read.cluster.watch_clients()
            return all(node.stats is not None and node.stats.has_clients for node in read.cluster.state.nodes)

        wait_for("all clients", are_there, timeout_s=120, every_s=0.1)
        found.clients_s = time.monotonic() - began_s
        assert read.clients() == clients
        found.parts["the page of clients"] = read.part(seconds, read.cluster.watch_clients)
    return found


def publishing(directory: Path, addresses: Sequence[str], rounds: int, published: int = PUBLISHED) -> Found:
    """Three rounds a start, since other work of the machine disturbs some."""
    found = Found()
    flags = [f"--nsqd-http-address={one}" for one in addresses]
    own = ["--no-pipeline", "--trash-age=0ms"]
    for number in range(rounds):
        kinds = [(found.alone, own), (found.beside, own + flags)]
        for taken, options in kinds[:: 1 if number % 2 else -1]:
            with ServerProcess(directory / f"{number}-{len(options)}", options=options) as server, ExitStack() as stack:
                server.http("POST", f"/topic/create?topic={TOPIC}")
                page = stack.enter_context(
                    LoadProgram("console_load", "watch", server.console_port, f"/topics/{TOPIC}/", 1)
                )
                page.wait_until_ready()
                page.go()
                for _ in range(3):
                    taken.append(_published(server, published))
                page.go()
                assert page.result()["count"] > 0, "no frame came"
    return found


def _published(server: ServerProcess, count: int) -> Published:
    with topic_with(server, "log", "c0") as topic:
        before, began_s = processor_seconds(server), time.monotonic()
        per_s = publish_rate(server, topic, BODY_BYTES, count)
        took_s = time.monotonic() - began_s
        engine_s, others_s = (now - then for now, then in zip(processor_seconds(server), before, strict=True))
    return Published(per_s, 1e6 * engine_s / count, others_s / took_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--channels", type=int, default=5, help="of each topic")
    parser.add_argument("--clients", type=int, default=20_000, help="of all nodes")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        Nodes(given.nodes, given.topics, given.channels, given.clients) as nodes,
    ):
        found = cluster_reads(Path(directory), nodes, given.clients, seconds=given.seconds)
        print("\n".join(found.lines()), flush=True)
        if given.rounds:
            print("\n".join(publishing(Path(directory), nodes.addresses, given.rounds).lines()))


if __name__ == "__main__":
    main()
