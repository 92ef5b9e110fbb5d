"""Clients that mean harm or are broken: they are told or closed, and everybody else is served."""

import os
import struct
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from tests.support.nsq_socket import FRAME_ERROR, NsqSocket, mpub_body, sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

StartEngine = Callable[..., RunningEngine]


def test_who_sends_no_magic_is_closed(start_engine: StartEngine) -> None:
    engine = start_engine(magic_timeout_ms=200)

    def is_closed_early() -> bool:
        """On a machine that stalls not at each try."""
        began_s = time.monotonic()
        engine.client(magic=b"  V").expect_closed()
        return time.monotonic() - began_s < 4.5  # by itself the server waits for 5 s

    wait_for("an early end", is_closed_early)


@pytest.mark.slow(reason="waits for the better part of a second")
def test_who_starts_a_command_and_never_ends_it_is_closed(start_engine: StartEngine) -> None:
    engine = start_engine(command_timeout_ms=100)
    for begun in (b"PUB t", b"PUB t\n\x00", b"PUB t\n" + struct.pack(">i", 100) + b"x" * 10):
        client = engine.client()
        client.send(begun)
        [(kind, told)] = client.read_until_closed(timeout_s=8)  # by itself the server waits for 10 s
        assert kind == FRAME_ERROR
        assert b"command not complete" in told
    engine.client().expect_open()


def test_who_sends_a_command_drop_by_drop_is_closed(start_engine: StartEngine) -> None:
    """Slow loris: every byte is in time, the command never is."""
    engine = start_engine(command_timeout_ms=400)
    client = engine.client()
    client.send(b"PUB t\n" + struct.pack(">i", 1_000_000))

    def dripped_until_closed() -> bool:
        try:
            client.send(b"x")
            client.read_frame(timeout_s=0.05)
        except TimeoutError:
            return False
        except (OSError, EOFError):
            return True
        return False

    wait_for("the end of a dripping client", dripped_until_closed, timeout_s=8)
    engine.client().expect_open()


def test_a_line_without_end_is_refused(engine: RunningEngine) -> None:
    client = engine.client()
    client.send(b"PUB " + b"t" * 20_000)
    client.read_until_closed()
    engine.client().expect_open()


def test_a_huge_length_is_refused_before_anything_is_read(engine: RunningEngine) -> None:
    lines = (b"PUB t\n", b"MPUB t\n", b"DPUB t 1\n", b"IDENTIFY\n")
    for line, size in product(lines, (0x7FFFFFFF, -0x80000000, 6 << 20)):
        client = engine.client()
        client.send(line + struct.pack(">i", size))
        assert client.read_error().startswith(("E_BAD_MESSAGE", "E_BAD_BODY")), (line, size)
        client.expect_closed()


def test_noise_of_every_length_closes_only_itself(engine: RunningEngine) -> None:
    for length in (1, 4, 17, 1_000, 50_000):
        client = engine.client()
        client.send(b"\xff" + os.urandom(length) + b"\n")
        client.read_until_closed()
    engine.client().expect_open()


def test_a_consumer_that_never_reads_costs_its_buffer_and_others_are_served(engine: RunningEngine) -> None:
    stuck, publisher = engine.client(), engine.client()
    stuck.identify(output_buffer_size=4_096)
    stuck.subscribe("t", "stuck", rdy=2_500)
    other = engine.client()
    other.subscribe("t", "moving", rdy=2_500)
    body = b"x" * 10_000
    for _ in range(20):  # 40 MB: far more than the kernel buffers
        publisher.send(b"MPUB t\n" + sized(mpub_body([body] * 200)))
        publisher.expect_ok()
        for _ in range(200):
            other.finish(other.read_message())
    found = engine.channel_stats("t", "stuck")
    assert found["depth"] + found["in_flight_count"] == 4_000
    # What was handed over lies in the two kernel buffers and one output buffer; the rest waits in the queue. Of the
    # kernel buffers the server limits its own.
    assert found["in_flight_count"] * len(body) < 1 << 20
    publisher.expect_open()


@pytest.mark.slow(reason="waits for the better part of a second")
def test_a_publisher_that_never_reads_its_answers_stops_being_read(engine: RunningEngine) -> None:
    """Its OKs fill its own buffers; what it may cost is bounded, and others are served."""
    deaf = engine.client()
    command = b"PUB t\n" + sized(b"x")
    for _ in range(200):
        deaf.send(command * 50)
    engine.client().expect_open()


def test_connections_beyond_the_cap_are_closed_and_room_is_made_again(start_engine: StartEngine) -> None:
    engine = start_engine(max_connections=3)
    kept = [engine.client() for _ in range(3)]
    for client in kept:
        client.expect_open()
    with NsqSocket(engine.tcp_port) as refused:
        refused.read_until_closed()
    kept.pop().close()

    def served() -> bool:
        with NsqSocket(engine.tcp_port) as again:
            try:
                again.expect_open()
            except (EOFError, ConnectionError, AssertionError):
                return False
            return True

    wait_for("room for another", served)


def test_a_client_that_goes_in_the_middle_of_a_body_leaves_nothing(engine: RunningEngine) -> None:
    client = engine.client()
    client.publish("t", b"whole")
    client.send(b"PUB t\n" + struct.pack(">i", 100) + b"half")
    client.close()
    engine.client().expect_open()
    assert engine.topic_stats("t")["message_count"] == 1


def test_memory_does_not_grow_with_a_body_that_is_only_announced(engine: RunningEngine) -> None:
    def resident_kib() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    before = resident_kib()
    for _ in range(50):
        engine.client().send(b"MPUB t\n" + struct.pack(">i", 5 << 20))
    engine.client().expect_open()
    assert resident_kib() - before < 50 * 1024  # 250 MiB were announced
