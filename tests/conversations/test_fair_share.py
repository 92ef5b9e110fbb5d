"""What one client may take of what all share, on real sockets: the others are served beside it."""

from collections.abc import Callable

import pytest

from tests.benchmarks.dripping_peers import OWN_ADDRESS, dripping
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

StartEngine = Callable[..., RunningEngine]

LARGE = b"x" * 1_000_000


def waiting_bodies(engine: RunningEngine) -> int:
    return engine.snapshot.bodies.waiting_count if engine.snapshot is not None else 0


def test_others_publish_while_two_hundred_bodies_of_one_address_drip(start_engine: StartEngine) -> None:
    engine = start_engine(command_timeout_ms=600_000)  # no deadline ends a body meanwhile
    publisher = engine.client()
    with dripping(engine.tcp_port, engine.http_port, 200):
        wait_for("bodies to wait for room", lambda: waiting_bodies(engine) > 150)
        for _ in range(20):
            publisher.publish("large", LARGE)
            assert engine.http("POST", "/pub?topic=large", LARGE) == b"OK"
        notice = wait_for("the line", lambda: engine.http("GET", "/readyz").decode().partition("OK\n")[2])
    assert notice.startswith("unfinished bodies wait for room: ")
    assert notice.endswith(" by address 127.0.0.2")
    metrics = engine.http("GET", "/metrics").decode()
    assert "\npenstock_pending_body_wait_seconds " in metrics
    assert engine.topic_stats("large")["message_count"] == 40


@pytest.mark.slow(reason="waits until the server has measured the bodies")
def test_bodies_of_the_same_address_that_drip_make_room_for_those_that_come(start_engine: StartEngine) -> None:
    engine = start_engine(command_timeout_ms=60_000)
    publisher = engine.client()
    with dripping(engine.tcp_port, engine.http_port, 14, address=OWN_ADDRESS) as peers:
        wait_for("bodies to wait for room", lambda: waiting_bodies(engine) > 5)
        publisher.publish("large", LARGE)
        wait_for("an end", lambda: peers.ended_count)
    assert wait_for("the count", lambda: engine.snapshot and engine.snapshot.bodies.ended_count)
