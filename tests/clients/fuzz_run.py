"""Malformed input on all three doors of a real server: it lives, tells no traceback, and its descriptors come back.

python -m tests.clients.fuzz_run [--rounds 14400] [--seed 1]: three inputs a round; waits for idle files, too.
"""

import argparse
import collections
import os
import random
import re
import socket
import struct
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

CLIENTS = 8  # at once
TOPICS = 60
VERBS = [b"MPUB t\n", b"SUB t c\n", b"FIN xxxx\n", b"REQ 1\n", b"IDENTIFY\n", b"RDY -1\n", b"CLS\n", b"TOUCH a\n"]
BODIES = [b"\0\0\0\5hello", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"]
METHODS = [b"GET", b"POST", b"PUT", b"HEAD", b"XX\0", b"OPTIONS"]
PATHS = [b"/ping", b"/stats", b"/pub?topic=a", b"/%ff%00", b"/login/", b"/static/penstock.css", b"/\xff", b"/ws/live/"]
HEADERS = [
    b"Host: 127.0.0.1",
    b"Content-Length: 5",
    b"Content-Length: 1000000000",
    b"Transfer-Encoding: chunked",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\nSec-WebSocket-Version: 13",
    b"Cookie: a=\xff",
    b"No colon",
    b"Expect: 100-continue",
    b"Content-Type: multipart/form-data; boundary=x",
    b"Range: bytes=0-5",
]


def tcp_input(chance: random.Random) -> bytes:
    data = b"  V2" if chance.random() < 0.8 else chance.randbytes(4)
    for _ in range(chance.randrange(4)):
        data += chance.choice([*VERBS, b"PUB t%d\n" % chance.randrange(TOPICS)])
        if chance.random() < 0.6:
            data += chance.choice([*BODIES, chance.randbytes(4)])
    return data + (chance.randbytes(chance.randrange(200)) if chance.random() < 0.3 else b"")


def http_input(chance: random.Random) -> bytes:
    head = chance.choice(METHODS) + b" " + chance.choice(PATHS) + b" HTTP/1.1\r\n"
    data = head + b"\r\n".join(chance.sample(HEADERS, chance.randrange(1, 5))) + b"\r\n\r\n"
    if chance.random() < 0.4:
        data += chance.randbytes(chance.randrange(300))
    return data[: chance.randrange(len(data))] if chance.random() < 0.2 else data


def send(port: int, data: bytes, way: float) -> None:
    """Send it, and end the connection: after an answer, with a reset, or just so."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(data)
            if way < 0.5:
                client.settimeout(0.05)
                client.recv(1 << 16)
            elif way < 0.7:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass  # it was refused, which is its right


def descriptors(server: ServerProcess) -> "collections.Counter[str]":
    """What the server has open: "socket", or the file's path."""
    found: collections.Counter[str] = collections.Counter()
    directory = f"/proc/{server.pid}/fd"
    for name in os.listdir(directory):
        try:
            found[re.sub(r":\[[0-9]+\]$", "", os.readlink(f"{directory}/{name}"))] += 1
        except FileNotFoundError:
            pass  # closed meanwhile
    return found


def run(path: Path, *, rounds: int, seed: int, waits_for_files: bool) -> None:
    """Raises AssertionError when something does not come back, or the server told a traceback."""
    chance = random.Random(seed)
    with ServerProcess(path) as server:
        before = descriptors(server)
        with ThreadPoolExecutor(CLIENTS) as clients:
            for _ in range(rounds):
                clients.submit(send, server.tcp_port, tcp_input(chance), chance.random())
                clients.submit(send, server.http_port, http_input(chance), chance.random())
                clients.submit(send, server.console_port, http_input(chance), chance.random())
        wait_for("the sockets", lambda: descriptors(server)["socket"] <= before["socket"], timeout_s=60)
        if waits_for_files:
            # The log's newest file and its journal stay open, and what was read last.
            most = before.total() + 8
            wait_for("the files", lambda: descriptors(server).total() <= most, timeout_s=120, every_s=1)
        print(f"descriptors: {before.total()} before, {descriptors(server).total()} after {3 * rounds} inputs")
        assert server.http("GET", "/ping") == b"OK"
    assert "Traceback" not in server.log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=14_400)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        run(Path(directory) / "data", rounds=given.rounds, seed=given.seed, waits_for_files=True)


if __name__ == "__main__":
    main()
