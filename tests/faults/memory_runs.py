"""Measures the real server's anonymous memory under clients that fill it: its growth, and how much is given back.

python -m tests.faults.memory_runs [SHARE] [NAME …]: every scenario, or those named, at so much of its full size (1
unless told; CI runs a tenth), on a fresh server each; one line of figures for each, in MB. Exits with 1 when one grew
beyond its limit or kept what it should have given back.
"""

import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.nsq_socket import NsqSocket, mpub_body, sized
from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

MB = 1_000_000
# What the server may hold beside its budgets.
ABOVE_BUDGETS_BYTES = 64 * MB
NEXT_TO_NOTHING_BYTES = 32 * MB
# How long it may take to give back what nobody needs any more.
GIVEN_BACK_S = 30.0
# On a machine that stalls for seconds, everything takes longer.
SETTLED_S = 60.0


def anonymous_bytes(pid: int) -> int:
    """RssAnon of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise LookupError(f"no RssAnon in /proc/{pid}/status")


@dataclass(frozen=True)
class Growth:
    """Anonymous memory in bytes: before, at its most, and after the clients are gone."""

    idle: int
    most: int
    after: int

    def __str__(self) -> str:
        idle, most, after = self.idle / MB, self.most / MB, self.after / MB
        return f"idle {idle:.0f} MB, most {most:.0f} (+{most - idle:.0f}), after {after:.0f} (+{after - idle:.0f})"


class Watch:
    """Watches one server's memory. Entered when it is idle."""

    def __init__(self, server: EngineProcess) -> None:
        self._server = server
        self._pid = server.pid
        server.http("GET", "/stats")
        self.idle = self.most = anonymous_bytes(self._pid)

    def look(self) -> int:
        now = anonymous_bytes(self._pid)
        self.most = max(self.most, now)
        return now

    def watch(self, seconds: float) -> None:
        """Look for so long."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.look()
            time.sleep(0.05)

    def until(self, what: str, look: Callable[[], object]) -> None:
        """Look until something is true."""

        def looked() -> object:
            self.look()
            return look()

        wait_for(what, looked, timeout_s=SETTLED_S, every_s=0.05)

    def growth(self) -> Growth:
        """The clients are gone: what it holds after GIVEN_BACK_S, or as soon as that is next to nothing."""
        self.until("the clients to be gone", lambda: self._server.stats()["connection_count"] == 0)
        ends = time.monotonic() + GIVEN_BACK_S
        while (now := self.look()) > self.idle + NEXT_TO_NOTHING_BYTES and time.monotonic() < ends:
            time.sleep(0.1)
        return Growth(self.idle, self.most, now)


def _producer(server: EngineProcess) -> NsqSocket:
    """Without heartbeats: on a slow disk it publishes for longer than their interval."""
    producer = NsqSocket(server.tcp_port)
    producer.identify(heartbeat_interval=-1)
    return producer


def _publish_large(server: EngineProcess, topic: str, count: int, body_bytes: int, watch: Watch) -> None:
    with _producer(server) as producer:
        body = sized(b"x" * body_bytes)
        for _ in range(count):
            producer.send(f"PUB {topic}\n".encode() + body)
            assert producer.read_response(SETTLED_S) == b"OK"
            watch.look()


def stalled_consumers(server: EngineProcess, share: float, *, channels: int = 0, messages: int = 320) -> Growth:
    """200 consumers that stop reading, and 160 MB of messages of 500 KB, for one channel or `channels`."""
    consumers = round(200 * share)
    watch = Watch(server)
    with ExitStack() as stack:
        server.http("POST", "/topic/create?topic=t")
        for index in range(consumers):
            consumer = stack.enter_context(NsqSocket(server.tcp_port))
            consumer.subscribe("t", f"c{index % (channels or 1)}", rdy=2_500)
        _publish_large(server, "t", round(messages * share), 500_000, watch)
        watch.watch(2)
    return watch.growth()


def stalled_channels(server: EngineProcess, share: float) -> Growth:
    """The same, a channel each."""
    return stalled_consumers(server, share, channels=round(200 * share))


def stalled_copies(server: EngineProcess, share: float) -> Growth:
    """The same with fewer messages: on `diskqueue` each channel has a copy of each."""
    return stalled_consumers(server, share, channels=round(200 * share), messages=round(20 / share))


def large_mpubs(server: EngineProcess, share: float) -> Growth:
    """20 MPUBs of 50 MB one after the other; a channel holds one small message of each."""
    watch = Watch(server)
    server.http("POST", "/topic/create?topic=t")
    server.http("POST", "/channel/create?topic=t&channel=c")
    count = round(50 * MB * share / 100_000)
    body = mpub_body([b"x" * 99_996] * count)
    with _producer(server) as producer:
        for _ in range(20):
            producer.send(b"MPUB t\n" + sized(body))
            assert producer.read_response(SETTLED_S) == b"OK"
            watch.look()
    return watch.growth()


def half_bodies_tcp(server: EngineProcess, share: float) -> Growth:
    """60 clients that send 4.5 MB of a body of 5 MB, and then nothing."""
    return _half_bodies(server, share, _mpub_head, "tcp")


def half_bodies_http(server: EngineProcess, share: float) -> Growth:
    """The same over HTTP."""
    head = "POST /mpub?topic=t HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n"
    return _half_bodies(server, share, lambda size: head.format(size).encode(), "http")


# When nothing more was taken for so long, nothing more is.
_STALLED_S = 1.0


def many_half_bodies(server: EngineProcess, share: float) -> Growth:
    """2,000 clients, each with 200 KB of such a body."""
    return _half_bodies(server, share, _mpub_head, "tcp", clients=2_000, sent_bytes=200_000)


def stalled_server(server: EngineProcess, share: float) -> Growth:
    """The same clients, which connect and send while the server stands still: it finds all of that at once."""
    watch = Watch(server)
    with ExitStack() as stack:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            sockets = []
            # More would not fit into the queue of connections that wait for the server.
            for _ in range(round(1_000 * share)):
                one = stack.enter_context(socket.socket())
                one.setblocking(False)
                with suppress(BlockingIOError):
                    one.connect(("127.0.0.1", server.tcp_port))
                sockets.append((one, bytearray(_mpub_head(5 * MB) + bytes(200_000))))
            for _ in range(3):
                for one, left in sockets:
                    with suppress(BlockingIOError, ConnectionError):
                        del left[: one.send(left)]
        finally:
            os.kill(server.pid, signal.SIGCONT)
        watch.watch(3)
    return watch.growth()


def _mpub_head(size: int) -> bytes:
    return b"  V2MPUB t\n" + size.to_bytes(4, "big") + (1).to_bytes(4, "big")


def _half_bodies(
    server: EngineProcess,
    share: float,
    head: Callable[[int], bytes],
    door: str,
    *,
    clients: int = 60,
    sent_bytes: int = 4_500_000,
) -> Growth:
    watch = Watch(server)
    with ExitStack() as stack:
        sockets = []
        for _ in range(round(clients * share)):
            port = server.tcp_port if door == "tcp" else server.http_port
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            one.setblocking(False)
            sockets.append((one, bytearray(head(5 * MB) + bytes(sent_bytes))))
        ends = time.monotonic() + _STALLED_S
        while any(left for _, left in sockets) and time.monotonic() < ends:
            for one, left in sockets:
                with suppress(BlockingIOError, ConnectionError):
                    if sent := one.send(left[: 1 << 20]) if left else 0:
                        del left[:sent]
                        ends = time.monotonic() + _STALLED_S
            watch.look()
    return watch.growth()


def ephemeral_topic(server: EngineProcess, share: float) -> Growth:
    """1,227 messages of 1 MB for an ephemeral topic without a consumer."""
    watch = Watch(server)
    with NsqSocket(server.tcp_port) as consumer:
        consumer.subscribe("t#ephemeral", "c#ephemeral")
        _publish_large(server, "t#ephemeral", round(1_227 * share), MB, watch)
    return watch.growth()


def deferred(server: EngineProcess, share: float) -> Growth:
    """Deferred messages of 1 MB on `diskqueue`, 200 of them, or as many as are taken."""
    watch = Watch(server)
    server.http("POST", "/topic/create?topic=t&storage=diskqueue")
    server.http("POST", "/channel/create?topic=t&channel=c")
    body = sized(b"x" * MB)
    for _ in range(round(200 * share)):
        with NsqSocket(server.tcp_port) as producer:
            producer.send(b"DPUB t 600000\n" + body)
            producer.read_frame(SETTLED_S)
            watch.look()
    return watch.growth()


@dataclass(frozen=True)
class Scenario:
    """One way to fill memory.

    budgets: bytes at full size by the option that says so; a smaller share gets as much less. options: further ones.
    kept: the part of the budgets that may be in use when the clients are gone. held_bytes: what the server is told to
    hold beside, at full size.
    """

    run: Callable[[EngineProcess, float], Growth]
    budgets: Mapping[str, int] = field(default_factory=dict)
    options: Sequence[str] = ()
    kept: Sequence[str] = ()
    held_bytes: int = 0


_DISK_QUEUE = "--storage=diskqueue"
_QUEUES = {"--mem-queue-total-bytes": 64 * MB}
_DEFERRED = {"--max-deferred-bytes": 64 * MB}
_IN_FLIGHT = {"--max-in-flight-bytes": 64 * MB}
_BODIES = {"--max-pending-body-bytes": 64 * MB}
_CACHE = {"--log-cache-bytes": 32 * MB}
# What 200 output buffers and a message of 500 KB each take.
_OUTPUT_BYTES = 200 * (516 << 10)

SCENARIOS = {
    "stalled_consumers": Scenario(stalled_consumers, _CACHE, held_bytes=_OUTPUT_BYTES),
    "stalled_channels": Scenario(stalled_channels, _CACHE, held_bytes=_OUTPUT_BYTES),
    "stalled_consumers_diskqueue": Scenario(
        stalled_consumers, _QUEUES | _IN_FLIGHT, options=(_DISK_QUEUE,), kept=tuple(_QUEUES), held_bytes=_OUTPUT_BYTES
    ),
    "stalled_copies": Scenario(
        stalled_copies, _QUEUES | _IN_FLIGHT, options=(_DISK_QUEUE,), kept=tuple(_QUEUES), held_bytes=_OUTPUT_BYTES
    ),
    "large_mpubs": Scenario(
        large_mpubs,
        _CACHE,
        options=("--max-body-size=60000000", "--log-segment-bytes=1000000000"),
        held_bytes=150 * MB,  # the body as it came, as messages and as frames
    ),
    "half_bodies_tcp": Scenario(half_bodies_tcp, _BODIES),
    "half_bodies_http": Scenario(half_bodies_http, _BODIES),
    "many_half_bodies": Scenario(many_half_bodies, _BODIES),
    "stalled_server": Scenario(stalled_server, _BODIES),
    "ephemeral_topic": Scenario(ephemeral_topic, _QUEUES, kept=tuple(_QUEUES)),
    "deferred": Scenario(deferred, _DEFERRED, kept=tuple(_DEFERRED)),
}


def run(data_path: Path, name: str, share: float, *, above_bytes: int = ABOVE_BUDGETS_BYTES) -> Growth:
    """One scenario on a server of its own. Raises AssertionError when it took more than its budgets and `above_bytes`
    beside, or kept more."""
    scenario = SCENARIOS[name]
    budgets = {option: round(size * share) for option, size in scenario.budgets.items()}
    given = [f"{option}={size}" for option, size in budgets.items()]
    with EngineProcess(data_path, options=[*given, *scenario.options]) as server:
        growth = scenario.run(server, share)
        server.kill9()  # what it took so much of need not be put on the disk
    most = sum(budgets.values()) + round(scenario.held_bytes * share) + above_bytes
    assert growth.most - growth.idle <= most, f"{name} grew by more than {most / MB:.0f} MB: {growth}"
    kept = sum(budgets[option] for option in scenario.kept) + above_bytes
    assert growth.after - growth.idle <= kept, f"{name} kept more than {kept / MB:.0f} MB: {growth}"
    return growth


def main(arguments: list[str]) -> None:
    share = float(arguments[0]) if arguments else 1.0
    failures = 0
    for name in arguments[1:] or SCENARIOS:
        with tempfile.TemporaryDirectory() as directory:
            try:
                print(f"{name}: {run(Path(directory), name, share)}", flush=True)
            except AssertionError as exc:
                print(exc, flush=True)
                failures += 1
    sys.exit(failures > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
