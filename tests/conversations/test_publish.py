"""PUB, MPUB, DPUB: what is taken, what is refused, in which words, and whether the connection closes."""

import struct
import time
from collections.abc import Callable

import pytest

from tests.support.nsq_socket import FRAME_RESPONSE, mpub_body, sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

StartEngine = Callable[..., RunningEngine]


def reserved(verb: str) -> str:
    """What is said about the server's own topic."""
    return f'E_BAD_TOPIC {verb} topic name "_penstock.samples" is reserved for the server\'s own samples'


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


def test_pub_creates_the_topic_and_waits_there_without_a_channel(engine: RunningEngine) -> None:
    client = engine.client()
    client.publish("events", b"one", b"two")
    found = engine.topic_stats("events")
    assert (found["depth"], found["message_count"], found["message_bytes"]) == (2, 2, 6)
    assert found["channels"] == []


def test_first_channel_gets_the_backlog_in_order(engine: RunningEngine) -> None:
    client = engine.client()
    client.publish("events", b"one", b"two", b"three")
    client.subscribe("events", "first", rdy=3)
    assert [client.read_message().body for _ in range(3)] == [b"one", b"two", b"three"]


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


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"PUB t\n" + sized(b"x" * 105), "E_BAD_MESSAGE PUB message too big 105 > 100"),
        (b"PUB t\n" + sized(b""), "E_BAD_MESSAGE PUB invalid message body size 0"),
        (b"PUB t\n\xff\xff\xff\xfe", "E_BAD_MESSAGE PUB invalid message body size -2"),
        (b"PUB t\n\x7f\xff\xff\xff", "E_BAD_MESSAGE PUB message too big 2147483647 > 100"),
        (b"PUB\n" + sized(b"x"), "E_INVALID PUB insufficient number of parameters"),
        (b"PUB a$b\n" + sized(b"x"), 'E_BAD_TOPIC PUB topic name "a$b" is not valid'),
        (b"PUB " + b"n" * 65 + b"\n" + sized(b"x"), f'E_BAD_TOPIC PUB topic name "{"n" * 65}" is not valid'),
        (b"MPUB\n" + sized(b"x"), "E_INVALID MPUB insufficient number of parameters"),
        (b"MPUB a$b\n" + sized(mpub_body([b"x"])), 'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "a$b" is not valid'),
        (b"MPUB t\n" + sized(mpub_body([b"x" * 100] * 11)), "E_BAD_BODY MPUB body too big 1148 > 1000"),
        (b"MPUB t\n" + sized(b""), "E_BAD_BODY MPUB invalid body size 0"),
        (
            b"MPUB t\n" + sized(mpub_body([b"x"] * 5 + [b""])),
            "E_BAD_MESSAGE MPUB invalid message(5) body size 0",
        ),
        (b"MPUB t\n" + sized(mpub_body([b"x", b"y" * 101])), "E_BAD_MESSAGE MPUB message too big 101 > 100"),
        (b"MPUB t\n" + sized(struct.pack(">i", 200) + b"x" * 10), "E_BAD_BODY MPUB invalid message count 200"),
        (b"MPUB t\n" + sized(struct.pack(">i", 0)), "E_BAD_BODY MPUB invalid message count 0"),
        (b"MPUB t\n" + sized(struct.pack(">i", -1)), "E_BAD_BODY MPUB invalid message count -1"),
        (b"DPUB t\n" + sized(b"x"), "E_INVALID DPUB insufficient number of parameters"),
        (b"PUB _penstock.samples\n" + sized(b"x"), reserved("PUB")),
        (b"MPUB _penstock.samples\n" + sized(mpub_body([b"x"])), reserved("MPUB")),
        (b"DPUB _penstock.samples 1\n" + sized(b"x"), reserved("DPUB")),
        (b"DPUB a$b 1\n" + sized(b"x"), 'E_BAD_TOPIC DPUB topic name "a$b" is not valid'),
        (b"DPUB t 3600100\n" + sized(b"x"), "E_INVALID DPUB timeout 3600100 out of range 0-3600000"),
        (b"DPUB t soon\n" + sized(b"x"), "E_INVALID DPUB could not parse timeout soon"),
        (b"DPUB t -1\n" + sized(b"x"), "E_INVALID DPUB could not parse timeout -1"),
        (b"DPUB t 1_0\n" + sized(b"x"), "E_INVALID DPUB could not parse timeout 1_0"),
        (b"DPUB t 1\n" + sized(b"x" * 101), "E_BAD_MESSAGE DPUB message too big 101 > 100"),
        (b"DPUB t 1\n" + sized(b""), "E_BAD_MESSAGE DPUB invalid message body size 0"),
        (b"ASDF\n", "E_INVALID invalid command ASDF"),
        (b"pub t\n" + sized(b"x"), "E_INVALID invalid command pub"),
        (b"\n\n", "E_INVALID invalid command "),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_refused_in_nsqds_words_and_closed(small: RunningEngine, sent: bytes, error: str) -> None:
    client = small.client()
    client.send(sent)
    assert client.read_error() == error
    client.expect_closed()
    small.client().expect_open()


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


def test_line_ends_with_carriage_return_are_accepted(engine: RunningEngine) -> None:
    client = engine.client()
    client.send(b"PUB t\r\n" + sized(b"x"))
    client.expect_ok()
    client.send(b"SUB t c\r\n")
    client.expect_ok()
    client.send(b"RDY 1\r\n")
    assert client.read_message().body == b"x"


def test_commands_may_arrive_byte_by_byte(engine: RunningEngine) -> None:
    client = engine.client(magic=b"")
    for byte in b"  V2PUB t\n" + sized(b"slow") + b"NOP\nPUB t\n" + sized(b"steady"):
        client.send(bytes([byte]))
    client.expect_ok()
    client.expect_ok()
    assert engine.topic_stats("t")["message_bytes"] == len(b"slowsteady")


@pytest.mark.parametrize("magic", [b"  V1", b"  V3", b"GET ", b"\x00\x00\x00\x00"], ids=repr)
def test_wrong_magic_is_told_and_closed(engine: RunningEngine, magic: bytes) -> None:
    client = engine.client(magic=magic)
    assert client.read_error() == "E_BAD_PROTOCOL"
    client.expect_closed()
