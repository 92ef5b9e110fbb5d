"""Measures what memory, disk and descriptors a server takes, by topics, by clients and by messages.

    python -m tests.benchmarks.sizing [--rounds 3] [--topics 1000] [--clients 10000] [--messages 10000000 20000000]

Each round starts a server without its worker for each of three loads: topics with a channel each, one message in each
of them; clients that subscribe to one channel and hold one message each; and a backlog in one channel, of bodies of 16
bytes in MPUBs of 200. Of the backlog two sizes are measured: what lies between them is the price of a message, and
larger backlogs follow from it. Memory is PSS of the server's process, some seconds after the load; `restart` is the
memory after a stop and a start. Disk is the blocks of the data directory. None of the figures depends on how busy
the machine is; the worker's are measured by `tests/benchmarks/worker_memory.py`.
"""

import argparse
import contextlib
import json
import resource
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.many_topics import create
from tests.support.nsq_socket import NsqSocket, mpub_body
from tests.support.processes.memory import descriptor_count, directory_bytes, pss_bytes
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

MIB = 1 << 20
BODY = b"sixteen bytes of"
BATCH = 200
WINDOW = 50  # MPUBs that are sent before their OKs are read
SETTLE_S = 5.0  # snapshots are taken each second, journals are merged after two seconds of quiet
OPTIONS = ("--storage=log", "--no-pipeline", "--client-timeout=30m")

Figures = dict[str, float]


def main() -> None:
    """Print a line of JSON for each round, then the medians and the price of one message."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--messages", type=int, nargs=2, default=(10_000_000, 20_000_000))
    given = parser.parse_args()
    rounds: list[Figures] = []
    for number in range(given.rounds):
        found = of_topics(given.topics) | of_clients(given.clients)
        for name, count in zip(("fewer", "more"), given.messages, strict=True):
            found |= {f"{name}_{key}": value for key, value in of_messages(count).items()}
        rounds.append(found)
        print(f"round {number + 1}: {json.dumps(found)}", flush=True)
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    print(json.dumps(medians))
    more = given.messages[1] - given.messages[0]
    for what in ("memory", "disk", "restart"):
        grown = (medians[f"more_messages_{what}_mib"] - medians[f"fewer_messages_{what}_mib"]) * MIB
        print(f"{what}: {grown / more:.1f} bytes for each further message of {len(BODY)} bytes")


def of_topics(count: int) -> Figures:
    """Figures of an empty server, and of the same one with topics, a channel and a message in each."""
    with _server(f"--max-topics={max(count, 10_000)}") as server:
        found = _figures("empty", server)
        create(server, count)
        with NsqSocket(server.tcp_port) as publisher:
            for number in range(count):
                publisher.send(b"PUB t%d\n" % number + len(BODY).to_bytes(4, "big") + BODY)
                publisher.expect_ok()
        _wait_for(server, lambda: sum(one["channels"][0]["depth"] for one in server.stats()["topics"]), count)
        found |= _figures("topics", server)
        server.restart()
        found |= {"topics_restart_mib": _figures("", server)["_memory_mib"]}
    return found


def of_clients(count: int) -> Figures:
    """Figures of a server with clients on one channel, each of which holds a message."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # All come from one address: as one of a proxy's, it has no share.
    options = [f"--max-connections={count + 10}", "--trusted-proxy=127.0.0.1"]
    with _server(*options) as server, contextlib.ExitStack() as clients:
        _make_channel(server)
        found = _figures("clientless", server)
        for _ in range(count):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", server.tcp_port), 60))
            settings = b'{"heartbeat_interval":60000}'  # which ends a silent client after two minutes
            client.sendall(b"  V2IDENTIFY\n" + len(settings).to_bytes(4, "big") + settings + b"SUB t c\nRDY 1\n")
        _wait_for(server, lambda: len(server.channel_stats("t", "c")["clients"]), count)
        publish(server, "t", count)
        _wait_for(server, lambda: server.channel_stats("t", "c")["in_flight_count"], count)
        found |= _figures("clients", server)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return found


def of_messages(count: int) -> Figures:
    """Figures of a server with a backlog."""
    with _server("--sync=interval") as server:
        _make_channel(server)
        publish(server, "t", count)
        _wait_for(server, lambda: server.channel_stats("t", "c")["depth"], count)
        found = _figures("messages", server)
        server.restart()
        _wait_for(server, lambda: server.channel_stats("t", "c")["depth"], count)
        found |= {"messages_restart_mib": _figures("", server)["_memory_mib"]}
    return found


def publish(server: ServerProcess, topic: str, count: int) -> None:
    """Publish messages of BODY in MPUBs of BATCH, many of them in flight at once."""
    bodies = mpub_body([BODY] * BATCH)
    command = b"MPUB %s\n" % topic.encode() + len(bodies).to_bytes(4, "big") + bodies
    with NsqSocket(server.tcp_port) as publisher:
        left = -(-count // BATCH)
        while left:
            now = min(left, WINDOW)
            publisher.send(command * now)
            for _ in range(now):
                publisher.expect_ok()
            left -= now


def _make_channel(server: ServerProcess) -> None:
    for path in ("/topic/create?topic=t", "/channel/create?topic=t&channel=c"):
        server.http("POST", path)


def _figures(name: str, server: ServerProcess) -> Figures:
    time.sleep(SETTLE_S)
    return {
        f"{name}_memory_mib": round(pss_bytes(server.pid) / MIB, 1),
        f"{name}_disk_mib": round(directory_bytes(server.data_path) / MIB, 1),
        f"{name}_descriptors": _descriptors(server),
    }


def _descriptors(server: ServerProcess) -> int:
    """What stays open: the least of some looks, since a snapshot's file is open while it is written."""
    looks = []
    for _ in range(10):
        looks.append(descriptor_count(server.pid))
        time.sleep(0.02)
    return min(looks)


def _wait_for(server: ServerProcess, look: Callable[[], int], count: int) -> None:
    wait_for(f"{count} of them", lambda: look() >= count, timeout_s=600, every_s=0.5)


@contextlib.contextmanager
def _server(*options: str) -> Iterator[ServerProcess]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-sizing-") as directory,
        ServerProcess(Path(directory) / "data", options=[*OPTIONS, *options]) as server,
    ):
        yield server


if __name__ == "__main__":
    main()
