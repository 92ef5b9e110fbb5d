"""Load on Redis Streams over RESP from a raw socket, made as nsq_load's is.

python -m tests.benchmarks.load.redis_load publish PORT STREAM BODY_BYTES BATCH COUNT
python -m tests.benchmarks.load.redis_load consume PORT STREAM GROUP BODY_BYTES BATCH DELETE
python -m tests.benchmarks.load.redis_load single  PORT STREAM BODY_BYTES CONNECTIONS SECONDS
"""

import os
import re
import select
import socket
import sys
import time

from tests.benchmarks.load.gate import report, wait_for_go

RECEIVE_BYTES = 1 << 18
_ENTRIES = re.compile(rb"\*1\r\n\*2\r\n\$[0-9]+\r\n[^\r]*\r\n\*([0-9]+)\r\n")  # one stream, its name, how many
# An entry's id, still in the form in which XACK and XDEL want it back.
_ENTRY_ID = re.compile(rb"\*2\r\n(\$[0-9]+\r\n[0-9]+-[0-9]+\r\n)")


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def words(*texts: bytes) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)


def command(*texts: bytes) -> bytes:
    return b"*%d\r\n" % len(texts) + words(*texts)


def body_of(body_bytes: int) -> bytes:
    return b"x" * (body_bytes - 1) + b"."


def receive_ids(connection: socket.socket, count: int) -> None:
    """The answers of `count` XADDs: a bulk string each, two line ends."""
    wanted = 2 * count
    while wanted > 0:
        data = connection.recv(RECEIVE_BYTES)
        if not data or data.startswith(b"-"):
            sys.exit(f"refused: {data[:200]!r}")
        wanted -= data.count(b"\n")


def publish(port: int, stream: str, body_bytes: int, batch: int, count: int) -> None:
    """`count` entries in pipelines of `batch` XADDs, each pipeline waiting for its answers."""
    pipeline = command(b"XADD", stream.encode(), b"*", b"b", body_of(body_bytes)) * batch
    connection = connect(port)
    wait_for_go()
    for _ in range(count // batch):
        connection.sendall(pipeline)
        receive_ids(connection, batch)
    report(count=count // batch * batch, end_ns=time.monotonic_ns())


def consume(port: int, stream: str, group: str, body_bytes: int, batch: int, delete: bool) -> None:
    """XREADGROUP COUNT batch, then XACK and XDEL sent together with the next XREADGROUP, until nothing is left."""
    name, group_name = stream.encode(), group.encode()
    read = command(
        b"XREADGROUP", b"GROUP", group_name, b"c%d" % os.getpid(), b"COUNT", b"%d" % batch, b"STREAMS", name, b">"
    )
    acknowledge, remove = words(b"XACK", name, group_name), words(b"XDEL", name)
    connection = connect(port)
    tail = body_of(body_bytes)[-1:] + b"\r\n"
    wait_for_go()
    connection.sendall(read)
    count, end_ns = 0, time.monotonic_ns()
    while True:
        reply = receive_entries(connection, tail)
        ids = _ENTRY_ID.findall(reply)
        if not ids:
            break
        end_ns = time.monotonic_ns()
        count += len(ids)
        id_words = b"".join(ids)
        settle = b"*%d\r\n%b%b" % (len(ids) + 3, acknowledge, id_words)
        if delete:
            settle += b"*%d\r\n%b%b" % (len(ids) + 2, remove, id_words)
        connection.sendall(settle + read)
    report(count=count, end_ns=end_ns)


def receive_entries(connection: socket.socket, tail: bytes) -> bytes:
    """Read one answer of XREADGROUP and the answers before it; complete when all bodies of its header have ended."""
    reply = bytearray()
    found, looked_at, expected = 0, 0, -1
    while True:
        data = connection.recv(RECEIVE_BYTES)
        reply += data
        # Within an answer, a piece of it may begin anywhere, with the "-" of an id, too.
        if not data or reply.startswith(b"-"):
            sys.exit(f"refused: {bytes(reply[:200])!r}")
        if reply.endswith(b"*-1\r\n"):
            return b""
        found += reply.count(tail, looked_at)
        looked_at = max(len(reply) - len(tail) + 1, 0)
        if expected < 0 and (header := _ENTRIES.search(reply)):
            expected = int(header[1])
        if found == expected:
            return bytes(reply)


def single(port: int, stream: str, body_bytes: int, connections: int, seconds: float) -> None:
    """One XADD at a time on each connection; latencies in ns of every 16th."""
    add = command(b"XADD", stream.encode(), b"*", b"b", body_of(body_bytes))
    sockets = [connect(port) for _ in range(connections)]
    start_ns = wait_for_go()
    until_ns = start_ns + int(seconds * 1e9)
    count = 0
    latencies: list[int] = []
    if connections == 1:
        connection = sockets[0]
        while (now := time.monotonic_ns()) < until_ns:
            connection.sendall(add)
            receive_ids(connection, 1)
            count += 1
            if not count & 15:
                latencies.append(time.monotonic_ns() - now)
    else:
        poller = select.epoll()
        by_number = {connection.fileno(): connection for connection in sockets}
        for number, connection in by_number.items():
            poller.register(number, select.EPOLLIN)
            connection.sendall(add)
        while time.monotonic_ns() < until_ns:
            for number, _ in poller.poll(1):
                connection = by_number[number]
                if not connection.recv(64).startswith(b"$"):
                    sys.exit("refused or torn")
                connection.send(add)
                count += 1
    report(count=count, end_ns=time.monotonic_ns(), latencies_ns=latencies)


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "publish":
        publish(int(rest[0]), rest[1], int(rest[2]), int(rest[3]), int(rest[4]))
    elif kind == "consume":
        consume(int(rest[0]), rest[1], rest[2], int(rest[3]), int(rest[4]), rest[5] == "1")
    elif kind == "single":
        single(int(rest[0]), rest[1], int(rest[2]), int(rest[3]), float(rest[4]))
    else:
        sys.exit(__doc__)
