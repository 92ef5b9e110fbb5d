"""A client that shuts its writing side down gets all its answers, and an error for a command that is cut off."""

import struct

import pytest

from tests.conformance.server import NsqServer
from tests.support.nsq_socket import FRAME_ERROR, FRAME_MESSAGE, FRAME_RESPONSE, HEARTBEAT, mpub_body, sized
from tests.support.waiting import wait_for

OK = (FRAME_RESPONSE, b"OK")


def test_every_publish_is_answered_before_the_close(nsq: NsqServer, topic: str) -> None:
    commands = (
        b"PUB %s\n" % topic.encode() + sized(b"single"),
        b"MPUB %s\n" % topic.encode() + sized(mpub_body([b"two", b"three"])),
        b"DPUB %s 60000\n" % topic.encode() + sized(b"later"),
    )
    clients = [nsq.client() for _ in range(50)]
    for number, client in enumerate(clients):
        client.send(b"".join(commands[: 1 + number % 3]))
        client.end()
    for number, client in enumerate(clients):
        assert client.read_until_closed() == [OK] * (1 + number % 3)
    assert nsq.topic(topic)["message_count"] == 50 + 2 * 33 + 16


def test_a_consumer_gets_its_answers_and_finishes_count(nsq: NsqServer, topic: str) -> None:
    consumer = nsq.client()
    consumer.subscribe(topic, "c", rdy=1)
    nsq.client().publish(topic, b"first", b"second")
    message = consumer.read_message()
    consumer.send(b"RDY 0\nFIN %b\nFIN %b\nPUB %s\n" % (message.id, message.id, topic.encode()) + sized(b"third"))
    consumer.send(b"NOP\nCLS\n")
    consumer.end()
    answers = [data for kind, data in consumer.read_until_closed() if kind != FRAME_MESSAGE and data != HEARTBEAT]
    assert answers == [b"E_FIN_FAILED FIN %b failed ID not in flight" % message.id, b"OK", b"CLOSE_WAIT"]

    def are_two_left() -> bool:
        found = nsq.channel(topic, "c")
        return bool(found["in_flight_count"] + found["depth"] == 2)

    wait_for("the second and the third message", are_two_left)


def test_a_subscription_is_answered_though_the_client_has_ended(nsq: NsqServer, topic: str) -> None:
    client = nsq.client()
    client.send(b"SUB %s c\n" % topic.encode())
    client.end()
    assert client.read_until_closed() == [OK]
    assert nsq.channel(topic, "c")["depth"] == 0


def _size(number: int) -> bytes:
    return struct.pack(">i", number)


# What is cut off → the error. nsqd passes over a line without its end.
CUT = [
    (b"PUB t\n", "E_BAD_MESSAGE PUB failed to read message body size"),
    (b"PUB t\n\0\0\0", "E_BAD_MESSAGE PUB failed to read message body size"),
    (b"PUB t\n" + _size(9), "E_BAD_MESSAGE PUB failed to read message body"),
    (b"PUB t\n" + _size(9) + b"12345678", "E_BAD_MESSAGE PUB failed to read message body"),
    (b"DPUB t 5\n\0", "E_BAD_MESSAGE DPUB failed to read message body size"),
    (b"DPUB t 5\n" + _size(9) + b"1", "E_BAD_MESSAGE DPUB failed to read message body"),
    (b"MPUB t\n", "E_BAD_BODY MPUB failed to read body size"),
    (b"MPUB t\n" + _size(90), "E_BAD_BODY MPUB failed to read message count"),
    (b"MPUB t\n" + _size(90) + b"\0\0", "E_BAD_BODY MPUB failed to read message count"),
    (b"MPUB t\n" + _size(90) + _size(2), "E_BAD_MESSAGE MPUB failed to read message(0) body size"),
    (
        b"MPUB t\n" + _size(90) + _size(2) + sized(b"a") + b"\0",
        "E_BAD_MESSAGE MPUB failed to read message(1) body size",
    ),
    (b"MPUB t\n" + _size(90) + _size(2) + sized(b"a") + _size(5), "E_BAD_MESSAGE MPUB failed to read message body"),
    (b"MPUB t\n" + _size(90) + _size(2) + _size(0), "E_BAD_MESSAGE MPUB invalid message(0) body size 0"),
    (b"IDENTIFY\n\0\0", "E_BAD_BODY IDENTIFY failed to read body size"),
    (b"IDENTIFY\n" + _size(9) + b"{}", "E_BAD_BODY IDENTIFY failed to read body"),
    (b"AUTH\n", "E_BAD_BODY AUTH failed to read body size"),
    (b"AUTH\n" + _size(9) + b"secret", "E_BAD_BODY AUTH failed to read body"),
    (b"PUB t", ""),
    (b"NOP\nFIN 0123", ""),
]


@pytest.mark.parametrize(("sent", "error"), CUT, ids=str)
def test_a_command_that_is_cut_off_gets_its_error(nsq: NsqServer, sent: bytes, error: str) -> None:
    client = nsq.client()
    client.send(b"PUB whole\n" + sized(b"x") + sent)
    client.end()
    frames = client.read_until_closed()
    assert frames == [OK, *([(FRAME_ERROR, error.encode())] if error else [])]


def test_a_cut_magic_is_no_error(nsq: NsqServer) -> None:
    client = nsq.client(magic=b"  V")
    client.end()
    assert client.read_until_closed() == []
