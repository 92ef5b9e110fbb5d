"""The real server on a full disk: killed there, it starts, can be drained, and takes messages again.

    python -m tests.faults.full_disks [MIB]      on a tmpfs of that size, 40 by default; needs root and mount

`tests/clients/test_full_disk.py` runs the same on a data directory that is small for the server alone.
"""

import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from queue_engine.wire.error_answers import read_error_answer
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

OPTIONS = ("--log-segment-bytes=2097152", "--max-body-size=100000", "--max-msg-size=60000")
LEFT_BYTES = (None, 944 << 10, 0)  # that somebody else's file leaves free; None: there is no such file
BODY = b"x" * 50_000
ROOM_TIMEOUT_S = 60.0


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
    assert answer(server, "GET", "/ping") == (200, "OK")
    assert answer(server, "POST", "/topic/delete?topic=orders") == (200, "")


def finish_all(server: ServerProcess) -> None:
    depth = server.channel_stats("orders", "billing")["depth"]
    with NsqSocket(server.tcp_port) as client:
        client.subscribe("orders", "billing", rdy=100)
        for _ in range(depth):
            client.finish(client.read_message())


def _fill(path: Path, left_bytes: int) -> None:
    """Somebody else's file, of all that is free but for so much."""
    free: Callable[[], int] = lambda: os.statvfs(path).f_bavail * os.statvfs(path).f_frsize  # noqa: E731
    with (path / "filler").open("wb", buffering=0) as file:
        while free() > left_bytes:
            file.write(bytes(min(1 << 16, free() - left_bytes)))


def main() -> None:
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for left_bytes in LEFT_BYTES:
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", directory], check=True)
            try:
                with ServerProcess(Path(directory) / "data", options=[*OPTIONS, "--storage=log"]) as server:
                    count = fill_up(server)
                    if left_bytes is not None:
                        _fill(Path(directory), left_bytes)
                    kill_and_drain(server, count, is_reserve_gone=left_bytes == 0)
            finally:
                subprocess.run(["umount", directory], check=True)
        print(f"{mib} MiB, filled with {count} messages, {left_bytes} bytes left by others: started and drained")


if __name__ == "__main__":
    main()
