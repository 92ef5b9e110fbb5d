"""Load over TCP V2 from a raw socket: whole commands are made beforehand, a message costs a slice.

python -m tests.benchmarks.load.nsq_load publish PORT TOPIC BODY_BYTES BATCH COUNT
python -m tests.benchmarks.load.nsq_load consume PORT TOPIC CHANNEL BODY_BYTES RDY
python -m tests.benchmarks.load.nsq_load consume_as_pynsq PORT TOPIC CHANNEL BODY_BYTES MAX_IN_FLIGHT
python -m tests.benchmarks.load.nsq_load single  PORT TOPIC BODY_BYTES CONNECTIONS SECONDS [TOPICS [BATCH]]
python -m tests.benchmarks.load.nsq_load paced   PORT TOPIC BODY_BYTES RATE SECONDS
python -m tests.benchmarks.load.nsq_load latency PORT TOPIC CHANNEL BODY_BYTES RATE SECONDS

With NSQ_LOAD_CA in the environment, the file of a certificate's authority, all of them speak TLS.
"""

import itertools
import json
import os
import select
import socket
import ssl
import struct
import sys
import time

from tests.benchmarks.load.gate import report, told_to_end, wait_for_go

OK = struct.pack(">ii", 6, 0) + b"OK"
HEARTBEAT = struct.pack(">ii", 15, 0) + b"_heartbeat_"
# What pynsq 0.9 sends when nobody told it otherwise: output buffering as every client library asks for it.
PYNSQ_IDENTIFY: dict[str, object] = {
    "short_id": "load",
    "long_id": "load.example",
    "client_id": "load",
    "hostname": "load.example",
    "heartbeat_interval": 30_000,
    "feature_negotiation": True,
    "tls_v1": False,
    "snappy": False,
    "deflate": False,
    "deflate_level": 6,
    "output_buffer_timeout": 250,
    "output_buffer_size": 16_384,
    "sample_rate": 0,
    "user_agent": "pynsq/0.9.1",
}
RARE_HEARTBEATS: dict[str, object] = {"heartbeat_interval": 60_000}
FRAME_HEADER_BYTES = 34
RECEIVE_BYTES = 1 << 18
IDLE_MS = 100  # a consumer to whom nothing came for so long asks whether that was all
LATENCIES_MIN = 2  # of two there is a percentile


def connect(port: int, identify: dict[str, object] | None = None) -> socket.socket:
    """A connection past its IDENTIFY; without one given, heartbeats are so rare that a measurement sees none."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wanted = {"client_id": "load"} | RARE_HEARTBEATS if identify is None else identify
    authority = os.environ.get("NSQ_LOAD_CA")
    if authority:
        wanted = wanted | {"feature_negotiation": True, "tls_v1": True}
    body = json.dumps(wanted).encode()
    connection.sendall(b"  V2IDENTIFY\n" + struct.pack(">i", len(body)) + body)
    answer = connection.recv(RECEIVE_BYTES)
    if answer[4:8] != bytes(4):
        sys.exit(f"IDENTIFY was refused: {answer!r}")
    if authority:
        context = ssl.create_default_context(cafile=authority)
        connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
        expect_ok(connection)
    return connection


def expect_ok(connection: socket.socket) -> None:
    answer = connection.recv(len(OK))
    while len(answer) < len(OK):
        more = connection.recv(len(OK) - len(answer))
        if not more:
            sys.exit(f"closed after {answer!r}")
        answer += more
    if answer != OK:
        sys.exit(f"refused: {answer + connection.recv(1000)!r}")


def receive_plain(connection: socket.socket) -> bytes:
    return connection.recv(RECEIVE_BYTES)


def receive_tls(connection: socket.socket) -> bytes:
    """OpenSSL begins anew after a timeout that the kernel keeps, so Python keeps it."""
    connection.settimeout(IDLE_MS / 1000)
    try:
        return connection.recv(RECEIVE_BYTES)
    finally:
        connection.settimeout(None)


def mpub(topic: str, body_bytes: int, batch: int) -> bytes:
    message = struct.pack(">i", body_bytes) + b"x" * (body_bytes - 1) + b"."
    inner = struct.pack(">i", batch) + message * batch
    return f"MPUB {topic}\n".encode() + struct.pack(">i", len(inner)) + inner


def publish(port: int, topic: str, body_bytes: int, batch: int, count: int) -> None:
    """`count` messages in batches, each batch waiting for its OK."""
    command = mpub(topic, body_bytes, batch)
    connection = connect(port)
    wait_for_go()
    for _ in range(count // batch):
        connection.sendall(command)
        expect_ok(connection)
    report(count=count // batch * batch, end_ns=time.monotonic_ns())


def consume(port: int, topic: str, channel: str, body_bytes: int, rdy: int, *, is_pynsq: bool = False) -> None:
    """FIN every message until the run says that none is left; the end is the last arrival.

    is_pynsq: speak as that client does: RDY 1 until the first message has come, and a write of its own for each FIN.
    """
    # Heartbeats as rare as for the others.
    connection = connect(port, PYNSQ_IDENTIFY | RARE_HEARTBEATS if is_pynsq else None)
    frame_bytes = FRAME_HEADER_BYTES + body_bytes
    header = struct.pack(">ii", frame_bytes - 4, 2)
    wait_for_go()
    is_over = told_to_end()
    connection.sendall(f"SUB {topic} {channel}\n".encode())
    expect_ok(connection)  # for as long as a machine may stall
    receive = receive_tls if isinstance(connection, ssl.SSLSocket) else receive_plain
    # A timeout kept by the kernel costs no extra call per receive.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, IDLE_MS * 1000))
    connection.sendall(b"RDY %d\n" % (1 if is_pynsq else rdy))
    count, end_ns, rest = 0, time.monotonic_ns(), b""
    while True:
        try:
            data = receive(connection)
        except (BlockingIOError, TimeoutError):
            if is_over.is_set():
                break
            continue
        if not data:
            sys.exit("the server closed the connection")
        data = rest + data
        whole = len(data) // frame_bytes
        cut = whole * frame_bytes
        for at in range(8):  # every frame's header, checked by column
            if data[at:cut:frame_bytes] != header[at : at + 1] * whole:
                sys.exit(f"not the message frames that were expected: {data[:200]!r}")
        rest = data[cut:]
        if whole:
            end_ns = time.monotonic_ns()
            ids = [data[at : at + 16] for at in range(18, cut, frame_bytes)]
            if is_pynsq:
                if not count:
                    connection.sendall(b"RDY %d\n" % rdy)
                for message_id in ids:
                    connection.sendall(b"FIN " + message_id + b"\n")
            else:
                connection.sendall(b"FIN " + b"\nFIN ".join(ids) + b"\n")
            count += whole
    report(count=count, end_ns=end_ns)


def single(
    port: int, topic: str, body_bytes: int, connections: int, seconds: float, topics: int = 1, batch: int = 1
) -> None:
    """One PUB at a time on each connection, each waiting for its OK; latencies in ns of every 16th, or of one
    connection of several. On a machine that stalls it goes on for longer, until there is something to report.

    topics: more than one are TOPIC_0, TOPIC_1 … in turn. batch: more than one message is an MPUB.
    """
    names = [topic] if topics == 1 else [f"{topic}_{number}" for number in range(topics)]
    body = struct.pack(">i", body_bytes) + b"x" * body_bytes
    made = [f"PUB {name}\n".encode() + body if batch == 1 else mpub(name, body_bytes, batch) for name in names]
    commands = itertools.cycle(made)
    command = next(commands)
    sockets = [connect(port) for _ in range(connections)]
    start_ns = wait_for_go()
    until_ns = start_ns + int(seconds * 1e9)
    count = 0
    latencies: list[int] = []
    if connections == 1:
        connection = sockets[0]
        while (now := time.monotonic_ns()) < until_ns or not count:
            connection.sendall(command)
            expect_ok(connection)
            count += 1
            if not count & 15:
                latencies.append(time.monotonic_ns() - now)
    else:
        poller = select.epoll()
        by_number = {connection.fileno(): connection for connection in sockets}
        for number, connection in by_number.items():
            poller.register(number, select.EPOLLIN)
            connection.sendall(next(commands))
        timed, sent_ns = next(iter(by_number)), time.monotonic_ns()
        while time.monotonic_ns() < until_ns or len(latencies) < LATENCIES_MIN:
            for number, _ in poller.poll(1):
                connection = by_number[number]
                if connection.recv(len(OK)) != OK:
                    sys.exit("refused or torn")
                if number == timed:
                    now = time.monotonic_ns()
                    latencies.append(now - sent_ns)
                    sent_ns = now
                connection.sendall(next(commands))
                count += 1
    report(count=count * batch, end_ns=time.monotonic_ns(), latencies_ns=latencies)


def paced(port: int, topic: str, body_bytes: int, rate: float, seconds: float) -> None:
    """PUBs at a steady rate on one connection, each waiting for its OK; the latency in ns of every one.

    A late answer delays the next PUB, whose latency still counts from when it was due.
    """
    command = f"PUB {topic}\n".encode() + struct.pack(">i", body_bytes) + b"x" * body_bytes
    connection = connect(port)
    start_ns = wait_for_go()
    latencies: list[int] = []
    for number in range(int(rate * seconds)):
        due_ns = start_ns + int(number / rate * 1e9)
        early_ns = due_ns - time.monotonic_ns()
        if early_ns > 0:
            time.sleep(early_ns / 1e9)
            due_ns = time.monotonic_ns()  # waking up late is this machine's doing, not the server's
        connection.sendall(command)
        expect_ok(connection)
        latencies.append(time.monotonic_ns() - due_ns)
    report(count=len(latencies), end_ns=time.monotonic_ns(), latencies_ns=latencies)


def latency(port: int, topic: str, channel: str, body_bytes: int, rate: float, seconds: float) -> None:
    """PUB at a steady rate and consume with RDY 2500; latencies in ns from before the PUB to the message's arrival."""
    publisher, consumer = connect(port), connect(port, PYNSQ_IDENTIFY)
    consumer.sendall(f"SUB {topic} {channel}\n".encode())
    expect_ok(consumer)
    consumer.sendall(b"RDY 2500\n")
    frame_bytes = FRAME_HEADER_BYTES + body_bytes
    padding = b"x" * (body_bytes - 8)
    prefix = f"PUB {topic}\n".encode() + struct.pack(">i", body_bytes)
    start_ns = wait_for_go()
    wanted = int(rate * seconds)
    sent = 0
    latencies: list[int] = []
    rest = b""
    while len(latencies) < wanted:
        now = time.monotonic_ns()
        due_ns = start_ns + int(sent / rate * 1e9)
        if sent < wanted and now >= due_ns:
            publisher.sendall(prefix + struct.pack(">q", now) + padding)
            sent += 1
            continue
        wait_s = (due_ns - now) / 1e9 if sent < wanted else 5.0
        readable, _, _ = select.select([publisher, consumer], [], [], wait_s)
        if publisher in readable:
            publisher.recv(RECEIVE_BYTES)
        if consumer in readable:
            now = time.monotonic_ns()
            rest += consumer.recv(RECEIVE_BYTES)
            if rest.startswith(HEARTBEAT):
                rest = rest[len(HEARTBEAT) :]
                consumer.sendall(b"NOP\n")
            while len(rest) >= frame_bytes:
                latencies.append(now - struct.unpack_from(">q", rest, FRAME_HEADER_BYTES)[0])
                consumer.sendall(b"FIN " + rest[18:34] + b"\n")
                rest = rest[frame_bytes:]
        elif not readable and sent == wanted:
            sys.exit(f"{len(latencies)} of {wanted} messages came")
    report(count=len(latencies), end_ns=time.monotonic_ns(), latencies_ns=latencies)


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "publish":
        publish(int(rest[0]), rest[1], int(rest[2]), int(rest[3]), int(rest[4]))
    elif kind in ("consume", "consume_as_pynsq"):
        consume(int(rest[0]), rest[1], rest[2], int(rest[3]), int(rest[4]), is_pynsq=kind == "consume_as_pynsq")
    elif kind == "single":
        single(int(rest[0]), rest[1], int(rest[2]), int(rest[3]), float(rest[4]), *map(int, rest[5:]))
    elif kind == "paced":
        paced(int(rest[0]), rest[1], int(rest[2]), float(rest[3]), float(rest[4]))
    elif kind == "latency":
        latency(int(rest[0]), rest[1], rest[2], int(rest[3]), float(rest[4]), float(rest[5]))
    else:
        sys.exit(__doc__)
