"""PUB, MPUB, DPUB: what is taken, in which order, and what a refused one leaves. The texts are in conformance/."""

import struct
import time
from collections.abc import Callable

import pytest

from tests.support.nsq_socket import FRAME_RESPONSE, mpub_body, sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

StartEngine = Callable[..., RunningEngine]


@pytest.fixture
def small(start_engine: StartEngine) -> RunningEngine:
    """Limits of nsqd's own test: messages to 100 bytes, bodies to 1000."""
    return start_engine(max_msg_size=100, max_body_size=1000)


@pytest.mark.parametrize(
    "body_bytes", [pytest.param(1, marks=pytest.mark.slow(reason="publishes 7,800 messages")), 100, 4_000]
)
def test_many_pubs_at_once_fit_the_smallest_file_of_the_log(start_engine: StartEngine, body_bytes: int) -> None:
    engine = start_engine(log_segment_bytes=64 << 10, max_body_size=4_096, max_msg_size=4_096)
    client = engine.client()
    count = 20_000 // (body_bytes + 50) * 20
    client.send((b"PUB events\n" + sized(b"x" * body_bytes)) * count)
    for _ in range(count):
        # The first OK comes when many are on the disk, which takes a busy machine longer than one does.
        assert client.read_beyond_heartbeats(timeout_s=60) == (FRAME_RESPONSE, b"OK")
    assert engine.topic_stats("events")["depth"] == count


@pytest.mark.parametrize("verb", ["PUB", "MPUB", "DPUB"])
def test_what_is_sent_at_once_to_a_new_topic_keeps_its_order(engine: RunningEngine, verb: str) -> None:
    client = engine.client()
    numbers = [b"%d" % number for number in range(6)]
    first = {
        "PUB": b"PUB events\n" + sized(numbers[0]),
        "MPUB": b"MPUB events\n" + sized(mpub_body(numbers[:1])),
        "DPUB": b"DPUB events 1\n" + sized(numbers[0]),
    }
    client.send(first[verb] + b"".join(b"PUB events\n" + sized(one) for one in numbers[1:]))
    for _ in numbers:
        client.expect_ok()
    consumer = engine.client()
    consumer.subscribe("events", "billing", rdy=10)
    messages = [consumer.read_message() for _ in numbers]
    by_id = [message.body for message in sorted(messages, key=lambda one: one.id)]
    assert by_id == numbers


def test_mpub_delivers_each_message_once_with_its_own_id(engine: RunningEngine) -> None:
    client = engine.client()
    bodies = [b"a" * size for size in range(1, 50)]
    client.send(b"MPUB events\n" + sized(mpub_body(bodies)))
    client.expect_ok()
    client.subscribe("events", "c", rdy=100)
    messages = [client.read_message() for _ in bodies]
    assert [message.body for message in messages] == bodies
    assert len({message.id for message in messages}) == len(bodies)


def test_bodies_are_carried_byte_for_byte(engine: RunningEngine) -> None:
    hostile = [bytes(range(256)), b"\n", b"FIN 0123456789abcdef\n", b"  V2", struct.pack(">i", 1 << 30)]
    client = engine.client()
    client.publish("raw", *hostile)
    client.subscribe("raw", "c", rdy=10)
    assert [client.read_message().body for _ in hostile] == hostile


def test_dpub_waits_as_deferred_then_arrives(engine: RunningEngine) -> None:
    """One message is deferred for an hour, one for a moment: no pause of the machine is longer than both."""
    client = engine.client()
    client.subscribe("later", "c", rdy=1)
    client.send(b"DPUB later 3600000\n" + sized(b"in an hour"))
    client.expect_ok()
    found = engine.channel_stats("later", "c")
    assert (found["deferred_count"], found["depth"], found["message_count"]) == (1, 0, 1)
    published_at_s = time.monotonic()
    client.send(b"DPUB later 200\n" + sized(b"soon"))
    client.expect_ok()
    message = client.read_message()
    assert (message.body, message.attempts) == (b"soon", 1)
    assert time.monotonic() - published_at_s >= 0.2
    client.finish(message)
    wait_for("nothing left", lambda: engine.channel_stats("later", "c")["in_flight_count"] == 0)


def test_a_refused_mpub_publishes_nothing(small: RunningEngine) -> None:
    client = small.client()
    client.publish("t", b"before")
    client.send(b"MPUB t\n" + sized(mpub_body([b"fine", b"also fine", b"y" * 101])))
    assert client.read_error() == "E_BAD_MESSAGE MPUB message too big 101 > 100"
    assert small.topic_stats("t")["message_count"] == 1


def test_largest_message_and_body_are_taken(small: RunningEngine) -> None:
    client = small.client()
    client.publish("t", b"x" * 100)
    fitting = mpub_body([b"x" * 100] * 9)
    client.send(b"MPUB t\n" + sized(fitting))
    client.expect_ok()
    assert small.topic_stats("t")["message_count"] == 10


def test_answers_come_in_the_order_of_the_commands(small: RunningEngine) -> None:
    client = small.client()
    client.send((b"PUB t\n" + sized(b"x")) * 100 + b"NOP\n" + b"PUB t\n" + sized(b"x" * 101))
    for _ in range(100):
        client.expect_ok()
    assert client.read_error() == "E_BAD_MESSAGE PUB message too big 101 > 100"
    client.expect_closed()
    assert small.topic_stats("t")["message_count"] == 100


def test_commands_may_arrive_byte_by_byte(engine: RunningEngine) -> None:
    client = engine.client(magic=b"")
    for byte in b"  V2PUB t\n" + sized(b"slow") + b"NOP\nPUB t\n" + sized(b"steady"):
        client.send(bytes([byte]))
    client.expect_ok()
    client.expect_ok()
    assert engine.topic_stats("t")["message_bytes"] == len(b"slowsteady")
