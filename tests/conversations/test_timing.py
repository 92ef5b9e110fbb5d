"""Heartbeats, silence, and output buffering: when things are sent, and when a connection is given up."""

import time
from collections.abc import Callable

import pytest

from tests.support.nsq_socket import FRAME_RESPONSE, HEARTBEAT
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="waits for real timeouts")

StartEngine = Callable[..., RunningEngine]

LONGEST_MS = 30_000  # that a client may have its output held
LONG_BEFORE_S = 20.0


def test_heartbeats_come_and_nop_keeps_the_connection(engine: RunningEngine) -> None:
    client = engine.client()
    client.identify(heartbeat_interval=2_000)  # who is silent for two is closed: more than a machine's pause
    client.subscribe("t", "c", rdy=1)
    for _ in range(3):
        assert client.read_response() == HEARTBEAT
        client.send(b"NOP\n")
    client.expect_open()


def test_who_does_not_answer_heartbeats_is_closed_after_two(engine: RunningEngine) -> None:
    def is_closed_after_two_heartbeats() -> bool:
        """An engine that stalls for the time of two sends only the one that comes with the end."""
        client = engine.client()
        started = time.monotonic()
        client.identify(heartbeat_interval=1_000)
        frames = client.read_until_closed()
        assert time.monotonic() - started > 1.8
        assert frames[-1] == (FRAME_RESPONSE, HEARTBEAT)
        return len(frames) == 2

    wait_for("two heartbeats and then the end", is_closed_after_two_heartbeats)


def test_heartbeats_can_be_off_for_publishers_but_not_for_consumers(engine: RunningEngine) -> None:
    client = engine.client()
    client.identify(heartbeat_interval=-1)
    client.expect_silence(0.3)
    client.expect_open()
    client.send(b"SUB t c\n")
    assert client.read_error() == "E_INVALID cannot SUB with heartbeats disabled"
    client.expect_closed()


def test_a_client_without_identify_is_closed_after_its_silence(start_engine: StartEngine) -> None:
    engine = start_engine(client_timeout_ms=1_000)
    started = time.monotonic()
    client = engine.client()
    client.send(b"NOP\n")
    client.read_until_closed()
    assert time.monotonic() - started > 0.8


def test_output_is_held_until_its_timeout(engine: RunningEngine) -> None:
    client = engine.client()
    client.identify(output_buffer_size=60_000, output_buffer_timeout=400)
    client.subscribe("t", "c", rdy=10)
    publisher = engine.client()
    started = time.monotonic()
    publisher.publish("t", b"held")
    assert client.read_message().body == b"held"
    assert time.monotonic() - started > 0.3


def test_output_is_sent_before_its_timeout_when_the_buffer_is_full(engine: RunningEngine) -> None:
    client = engine.client()
    client.identify(output_buffer_size=1_000, output_buffer_timeout=LONGEST_MS)
    client.subscribe("t", "c", rdy=10)
    engine.client().publish("t", *[b"x" * 600] * 2)
    assert client.read_message(LONG_BEFORE_S).body == b"x" * 600


@pytest.mark.parametrize("timeout_ms", [-1, LONGEST_MS])
def test_output_is_sent_before_its_timeout_when_as_much_is_in_flight_as_rdy_allows(
    engine: RunningEngine, timeout_ms: int
) -> None:
    client = engine.client()
    client.identify(output_buffer_timeout=timeout_ms)
    client.subscribe("t", "c", rdy=2)
    publisher = engine.client()
    publisher.publish("t", b"1")
    client.expect_silence(0.2)
    publisher.publish("t", b"2")
    assert [client.read_message(LONG_BEFORE_S).body for _ in range(2)] == [b"1", b"2"]


@pytest.mark.parametrize(
    "fields",
    [
        {"output_buffer_size": 16_384, "output_buffer_timeout": 250},  # what client libraries ask for by default
        {"output_buffer_size": -1},
        {},
    ],
    ids=str,
)
def test_output_is_not_held_by_default_nor_without_a_buffer(engine: RunningEngine, fields: dict[str, int]) -> None:
    client = engine.client()
    client.identify(**fields)
    client.subscribe("t", "c", rdy=10)
    publisher = engine.client()
    waits_s = []
    for number in range(20):
        publisher.publish("t", b"%d" % number)
        started = time.monotonic()
        message = client.read_message()
        waits_s.append(time.monotonic() - started)
        client.finish(message)
    # Held, each would wait for its timeout; on a busy machine some wait for the machine.
    assert sorted(waits_s)[4] < 0.1
