"""The real server on a full disk: killed there, it starts, can be drained, and takes messages again. What consumers
finish without any room comes again after the kill: the server says so before, and nothing else does.

    python -m tests.faults.full_disks [MIB]      on a tmpfs of that size, 40 by default; needs root and mount

`tests/clients/test_full_disk.py` runs the same on a data directory that is small for the server alone.
"""

import os
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from queue_engine.wire.error_answers import read_error_answer
from tests.support.nsq_socket import NsqSocket, mpub_body
from tests.support.processes.daemon_process import DaemonProcess
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

OPTIONS = ("--log-segment-bytes=2097152", "--max-body-size=100000", "--max-msg-size=60000")
LEFT_BYTES = (None, 944 << 10, 0)  # that somebody else's file leaves free; None: there is no such file
BODY = b"x" * 50_000
ROOM_TIMEOUT_S = 60.0
FINISH_COUNT = 1_000  # that are in flight, half of which are finished
COME_AGAIN = "messages that they finish now come again if the server is killed"


def answer(server: ServerProcess, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}{path}", data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as exc:
        refused = read_error_answer(exc.read(), exc.headers)
        return exc.code, refused.detail or refused.message


def publish(server: ServerProcess) -> tuple[int, str]:
    return answer(server, "POST", "/pub?topic=orders", BODY)


def segments(server: ServerProcess) -> list[str]:
    return sorted(path.name for path in (server.data_path / "log" / "segments").iterdir())


def fill_up(server: ServerProcess) -> int:
    """Publish until it is refused; returns how many were taken."""
    for path in ("/topic/create?topic=orders", "/channel/create?topic=orders&channel=billing"):
        server.http("POST", path)
    count = 0
    while publish(server)[0] == 200:
        count += 1
    reserve = server.data_path / "log" / "progress" / "reserve"
    wait_for("what was kept in reserve to be given up", lambda: not reserve.exists())
    return count


def kill_and_drain(server: ServerProcess, count: int, *, is_reserve_gone: bool = False) -> None:
    """With `count` messages on a full disk: kill it, start it, and make room. is_reserve_gone: others have taken the
    room that the server gave up for acts; then emptying is refused, and finished messages make room."""
    server.kill9()
    server.start()
    there = segments(server)
    # A start that comes to nothing leaves no segment behind.
    server.kill9()
    server.start()
    assert segments(server) == there
    assert "Traceback" not in server.log
    status, text = publish(server)
    assert status != 200
    assert "topic orders: publish refused, the disk is full (" in text
    assert answer(server, "GET", "/livez")[0] == 200
    assert answer(server, "GET", "/readyz")[0] == 200
    assert answer(server, "GET", "/ping")[1].startswith("NOK - ")
    with NsqSocket(server.tcp_port) as client:
        client.subscribe("orders", "billing", rdy=5)
        for _ in range(5):
            client.finish(client.read_message())
    assert server.channel_stats("orders", "billing")["depth"] >= count - 20
    for act in ("/channel/pause", "/channel/unpause"):
        assert answer(server, "POST", f"{act}?topic=orders&channel=billing") == (200, "")
    emptied = answer(server, "POST", "/channel/empty?topic=orders&channel=billing")
    if is_reserve_gone:
        assert emptied[0] == 500
        assert "No space left on device" in emptied[1]
        finish_all(server)
    else:
        assert emptied == (200, "")
    assert server.channel_stats("orders", "billing")["depth"] == 0
    wait_for("room for a message", lambda: publish(server)[0] == 200, timeout_s=ROOM_TIMEOUT_S, every_s=0.2)
    _wait_until_well(server)
    assert answer(server, "POST", "/topic/delete?topic=orders") == (200, "")


def _wait_until_well(server: ServerProcess) -> None:
    """The log and the journal of progress try the disk again each second, each in its own."""
    is_well = lambda: answer(server, "GET", "/ping") == (200, "OK")  # noqa: E731
    wait_for("all to be well", is_well, timeout_s=ROOM_TIMEOUT_S, every_s=0.1)


def finish_all(server: ServerProcess) -> None:
    depth = server.channel_stats("orders", "billing")["depth"]
    with NsqSocket(server.tcp_port) as client:
        client.subscribe("orders", "billing", rdy=100)
        for _ in range(depth):
            client.finish(client.read_message())


def finish_in_memory(disk: Path, *, has_room_again: bool) -> str:
    """On a disk that another program keeps full, reserve included, finish messages until /ping says that they come
    again, and then more; then kill the server. Those finished before it said so never come again. has_room_again:
    before the kill; then none does. Returns the figures."""
    with DaemonProcess(disk / "data", options=[*OPTIONS, "--storage=log"]) as server:
        server.http("POST", "/topic/create?topic=orders")
        server.http("POST", "/channel/create?topic=orders&channel=billing")
        for first in range(0, FINISH_COUNT, 20):
            bodies = [b"%d %s" % (number, bytes(4_000)) for number in range(first, first + 20)]
            server.http("POST", "/mpub?topic=orders&binary=true", mpub_body(bodies))
        wait_for("the reserve", (server.data_path / "log" / "progress" / "reserve").exists)
        durable: list[bytes] = []
        in_memory: list[bytes] = []
        with NsqSocket(server.tcp_port) as client, Eater(disk / "eaten"):
            client.subscribe("orders", "billing", rdy=FINISH_COUNT)
            messages = [client.read_message() for _ in range(FINISH_COUNT)]
            # Each second one, so that neighbours do not share an entry of the journal.
            for upto in range(25, FINISH_COUNT // 2 + 1, 25):
                batch = messages[2 * (upto - 25) : 2 * upto : 2]
                for message in batch:
                    client.finish(message)
                wait_for("them to be finished", partial(_has_left, server, FINISH_COUNT - upto))
                (in_memory if _says_in_memory(server) else durable).extend(one.body for one in batch)
            assert len(in_memory) >= FINISH_COUNT // 4, "consumers went on for too short a time"
        if has_room_again:
            (disk / "eaten").unlink()
            _wait_until_well(server)
        server.kill9()
        (disk / "eaten").unlink(missing_ok=True)
        server.start()
        assert not _says_in_memory(server)
        depth = _depth(server)
        with NsqSocket(server.tcp_port) as client:
            client.subscribe("orders", "billing", rdy=100)
            came = set()
            for _ in range(depth):
                message = client.read_message()
                client.finish(message)
                came.add(message.body)
        assert came >= {message.body for message in messages[1::2]}
        assert not came.intersection(durable), "finished while /ping was OK, and came again"
        again = len(came.intersection(in_memory))
        assert (again == 0) if has_room_again else (again > 0)
    where = "with room again" if has_room_again else "on the full disk"
    return (
        f"{len(durable)} finished while /ping was OK: none came again; {len(in_memory)} while it said that they come "
        f"again: {again} did, killed {where}"
    )


def _depth(server: ServerProcess) -> int:
    return int(server.channel_stats("orders", "billing")["depth"])


def _has_left(server: ServerProcess, count: int) -> bool:
    channel = server.channel_stats("orders", "billing")
    return int(channel["depth"]) + int(channel["in_flight_count"]) == count


def _says_in_memory(server: ServerProcess) -> bool:
    """Whether the server says that finishes are in memory alone; at each place or at none."""
    said = [COME_AGAIN in _whole_answer(server, path) for path in ("/ping", "/readyz")]
    said.append("\npenstock_progress_out_of_room 1\n" in _whole_answer(server, "/metrics"))
    assert len(set(said)) == 1, said
    return said[0]


def _whole_answer(server: ServerProcess, path: str) -> str:
    try:
        return server.http("GET", path).decode()
    except urllib.error.HTTPError as exc:
        return exc.read().decode()


class Eater:
    """Another program, which takes all room as soon as there is any, until the end of the block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._eat)

    def _eat(self) -> None:
        with self._path.open("wb", buffering=0) as file:
            while not self._is_over.is_set():
                try:
                    file.write(bytes(1 << 16))
                except OSError:
                    self._is_over.wait(0.001)

    def __enter__(self) -> None:
        self._thread.start()
        free = lambda: os.statvfs(self._path.parent).f_bavail  # noqa: E731
        wait_for("the disk to be full", lambda: free() == 0)

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def _fill(path: Path, left_bytes: int) -> None:
    """Somebody else's file, of all that is free but for so much."""
    free: Callable[[], int] = lambda: os.statvfs(path).f_bavail * os.statvfs(path).f_frsize  # noqa: E731
    with (path / "filler").open("wb", buffering=0) as file:
        while free() > left_bytes:
            file.write(bytes(min(1 << 16, free() - left_bytes)))


@contextmanager
def _disk(mib: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", directory], check=True)
        try:
            yield Path(directory)
        finally:
            subprocess.run(["umount", directory], check=True)


def main() -> None:
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for has_room_again in (False, True):
        with _disk(mib) as disk:
            print(f"{mib} MiB, eaten by others: {finish_in_memory(disk, has_room_again=has_room_again)}")
    for left_bytes in LEFT_BYTES:
        with _disk(mib) as disk, ServerProcess(disk / "data", options=[*OPTIONS, "--storage=log"]) as server:
            count = fill_up(server)
            if left_bytes is not None:
                _fill(disk, left_bytes)
            kill_and_drain(server, count, is_reserve_gone=left_bytes == 0)
        print(f"{mib} MiB, filled with {count} messages, {left_bytes} bytes left by others: started and drained")


if __name__ == "__main__":
    main()
