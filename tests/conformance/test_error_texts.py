"""Every error text of the protocol, word for word, and whether the connection goes on."""

import struct

import pytest

from tests.conformance.conftest import StartNsq
from tests.conformance.server import NsqServer
from tests.support.nsq_socket import FRAME_ERROR, NsqSocket, mpub_body, sized

ID = b"0123456789abcdef"
LONG_NAME = b"t" * 65
SUB = b"SUB %s c\n"


def _size(number: int) -> bytes:
    return struct.pack(">i", number)


# Sent on a new connection → the error, which ends it.
FATAL = [
    (b"ASDF\n", "E_INVALID invalid command ASDF"),
    (b"pub t\n", "E_INVALID invalid command pub"),
    (b" PUB t\n", "E_INVALID invalid command "),
    (b"\n\n", "E_INVALID invalid command "),
    (b"RDY 1\n", "E_INVALID cannot RDY in current state"),
    (b"FIN " + ID + b"\n", "E_INVALID cannot FIN in current state"),
    (b"REQ " + ID + b" 0\n", "E_INVALID cannot REQ in current state"),
    (b"TOUCH " + ID + b"\n", "E_INVALID cannot TOUCH in current state"),
    (b"CLS\n", "E_INVALID cannot CLS in current state"),
    (b"SUB t\n", "E_INVALID SUB insufficient number of parameters"),
    (b"PUB\n", "E_INVALID PUB insufficient number of parameters"),
    (b"MPUB\n", "E_INVALID MPUB insufficient number of parameters"),
    (b"DPUB t\n", "E_INVALID DPUB insufficient number of parameters"),
    (b"AUTH x\n", "E_INVALID AUTH invalid number of parameters"),
    (b"AUTH\n" + sized(b"secret"), "E_AUTH_DISABLED AUTH disabled"),
    (b"AUTH\n" + _size(0), "E_BAD_BODY AUTH invalid body size 0"),
    (b"AUTH\n" + _size(6 << 20), "E_BAD_BODY AUTH body too big 6291456 > 5242880"),
    (b"SUB $ c\n", 'E_BAD_TOPIC SUB topic name "$" is not valid'),
    (b"SUB t $\n", 'E_BAD_CHANNEL SUB channel name "$" is not valid'),
    (b"PUB t\xff\n", 'E_BAD_TOPIC PUB topic name "t\\xff" is not valid'),
    (b"PUB \n", 'E_BAD_TOPIC PUB topic name "" is not valid'),
    (b"PUB " + LONG_NAME + b"\n", f'E_BAD_TOPIC PUB topic name "{LONG_NAME.decode()}" is not valid'),
    (b"DPUB a*b 1\n", 'E_BAD_TOPIC DPUB topic name "a*b" is not valid'),
    (b"MPUB a*b\n", 'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "a*b" is not valid'),
    (b"DPUB t x\n", "E_INVALID DPUB could not parse timeout x"),
    (b"DPUB t -1\n", "E_INVALID DPUB could not parse timeout -1"),
    (b"DPUB t +1\n", "E_INVALID DPUB could not parse timeout +1"),
    (b"DPUB t 1_0\n", "E_INVALID DPUB could not parse timeout 1_0"),
    (b"DPUB t \xd9\xa1\n", "E_INVALID DPUB could not parse timeout \u0661"),
    (b"DPUB t 3600100\n", "E_INVALID DPUB timeout 3600100 out of range 0-3600000"),
    (b"PUB t\n" + _size(0), "E_BAD_MESSAGE PUB invalid message body size 0"),
    (b"PUB t\n" + _size(-1), "E_BAD_MESSAGE PUB invalid message body size -1"),
    (b"PUB t\n" + _size(1 << 21), "E_BAD_MESSAGE PUB message too big 2097152 > 1048576"),
    (b"DPUB t 1\n" + _size(0), "E_BAD_MESSAGE DPUB invalid message body size 0"),
    (b"DPUB t 1\n" + _size(1 << 21), "E_BAD_MESSAGE DPUB message too big 2097152 > 1048576"),
    (b"MPUB t\n" + _size(0), "E_BAD_BODY MPUB invalid body size 0"),
    (b"MPUB t\n" + _size(-5), "E_BAD_BODY MPUB invalid body size -5"),
    (b"MPUB t\n" + _size(6 << 20), "E_BAD_BODY MPUB body too big 6291456 > 5242880"),
    (b"MPUB t\n" + _size(8) + _size(0), "E_BAD_BODY MPUB invalid message count 0"),
    (b"MPUB t\n" + _size(8) + _size(-1), "E_BAD_BODY MPUB invalid message count -1"),
    (b"MPUB t\n" + _size(8) + _size(1048576), "E_BAD_BODY MPUB invalid message count 1048576"),
    (b"MPUB t\n" + sized(mpub_body([b"a", b"", b"b"])), "E_BAD_MESSAGE MPUB invalid message(1) body size 0"),
    (b"IDENTIFY\n" + _size(0), "E_BAD_BODY IDENTIFY invalid body size 0"),
    (b"IDENTIFY\n" + _size(6 << 20), "E_BAD_BODY IDENTIFY body too big 6291456 > 5242880"),
    (b"IDENTIFY\n" + sized(b"x"), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
    (
        b"IDENTIFY\n" + sized(b'{"heartbeat_interval":300001}'),
        "E_BAD_BODY IDENTIFY heartbeat interval (300001) is invalid",
    ),
    (
        b"IDENTIFY\n" + sized(b'{"output_buffer_size":524289}'),
        "E_BAD_BODY IDENTIFY output buffer size (524289) is invalid",
    ),
    (
        b"IDENTIFY\n" + sized(b'{"output_buffer_timeout":30001}'),
        "E_BAD_BODY IDENTIFY output buffer timeout (30001) is invalid",
    ),
    (b"IDENTIFY\n" + sized(b'{"msg_timeout":999}'), "E_BAD_BODY IDENTIFY msg timeout (999) is invalid"),
    (b"IDENTIFY\n" + sized(b'{"sample_rate":100}'), "E_BAD_BODY IDENTIFY sample rate (100) is invalid"),
    (
        b"IDENTIFY\n" + sized(b'{"feature_negotiation":true,"snappy":true,"deflate":true}'),
        "E_IDENTIFY_FAILED cannot enable both deflate and snappy compression",
    ),
]


def ends_with(client: NsqSocket, error: str) -> bool:
    """The last frame is this error. Behind an error the server may leave bytes unread, so that the end is a reset."""
    frames = client.read_until_closed()
    return bool(frames) and frames[-1] == (FRAME_ERROR, error.encode())


@pytest.mark.parametrize(("sent", "error"), FATAL, ids=lambda value: str(value)[:60])
def test_a_wrong_command_ends_the_connection_with_nsqds_words(nsq: NsqServer, sent: bytes, error: str) -> None:
    client = nsq.client()
    client.send(sent)
    assert ends_with(client, error)


# Sent by a subscribed client → the error, which ends the connection.
SUBSCRIBED = [
    (b"SUB t c\n", "E_INVALID cannot SUB in current state"),
    (b"IDENTIFY\n" + sized(b"{}"), "E_INVALID cannot IDENTIFY in current state"),
    (b"AUTH\n" + sized(b"x"), "E_INVALID cannot AUTH in current state"),
    (b"FIN\n", "E_INVALID FIN insufficient number of params"),
    (b"REQ " + ID + b"\n", "E_INVALID REQ insufficient number of params"),
    (b"TOUCH\n", "E_INVALID TOUCH insufficient number of params"),
    (b"FIN short\n", "E_INVALID invalid message ID"),
    (b"REQ short 0\n", "E_INVALID invalid message ID"),
    (b"TOUCH " + ID + b"0\n", "E_INVALID invalid message ID"),
    (b"REQ " + ID + b" -1\n", "E_INVALID REQ could not parse timeout -1"),
    (b"REQ " + ID + b" 1.5\n", "E_INVALID REQ could not parse timeout 1.5"),
    (b"RDY x\n", "E_INVALID RDY could not parse count x"),
    (b"RDY -1\n", "E_INVALID RDY could not parse count -1"),
    (b"RDY  7\n", None),
    (b"RDY 2501\n", "E_INVALID RDY count 2501 out of range 0-2500"),
]


@pytest.mark.parametrize(("sent", "error"), SUBSCRIBED, ids=lambda value: str(value)[:60])
def test_a_wrong_command_of_a_consumer(nsq: NsqServer, topic: str, sent: bytes, error: str | None) -> None:
    client = nsq.client()
    client.subscribe(topic, "c")
    client.send(sent)
    if error is None:
        client.expect_open()  # an empty word is the number 0
    else:
        assert ends_with(client, error)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"FIN " + ID + b"\n", f"E_FIN_FAILED FIN {ID.decode()} failed ID not in flight"),
        (b"REQ " + ID + b" 0\n", f"E_REQ_FAILED REQ {ID.decode()} failed ID not in flight"),
        (b"TOUCH " + ID + b"\n", f"E_TOUCH_FAILED TOUCH {ID.decode()} failed ID not in flight"),
        (b"REQ " + ID + b" \n", f"E_REQ_FAILED REQ {ID.decode()} failed ID not in flight"),
    ],
    ids=str,
)
def test_what_can_t_be_settled_is_told_and_the_connection_goes_on(
    nsq: NsqServer, topic: str, sent: bytes, error: str
) -> None:
    client = nsq.client()
    client.subscribe(topic, "c")
    client.send(sent)
    assert client.read_error() == error
    client.expect_open()


def test_a_message_of_another_client_is_not_settled(nsq: NsqServer, topic: str) -> None:
    owner, other = nsq.client(), nsq.client()
    owner.subscribe(topic, "c", rdy=1)
    other.subscribe(topic, "c")
    nsq.client().publish(topic, b"x")
    message = owner.read_message()
    for verb, argument in ((b"FIN", b""), (b"REQ", b" 0"), (b"TOUCH", b"")):
        other.send(verb + b" " + message.id + argument + b"\n")
        text = f"{verb.decode()} {message.id.decode()} failed client does not own message"
        assert other.read_error() == f"E_{verb.decode()}_FAILED {text}"
    owner.finish(message)
    owner.expect_open()


def test_bad_magic(nsq: NsqServer) -> None:
    for magic in (b"  V1", b"  V3", b"GET ", b"\0\0\0\0"):
        client = nsq.client(magic=magic)
        client.send(b"NOP\n")
        assert ends_with(client, "E_BAD_PROTOCOL"), magic


def test_a_consumer_without_heartbeats(nsq: NsqServer, topic: str) -> None:
    client = nsq.client()
    client.identify(heartbeat_interval=-1)
    client.send(SUB % topic.encode())
    assert ends_with(client, "E_INVALID cannot SUB with heartbeats disabled")


def test_one_consumer_too_many(start_nsq: StartNsq, topic: str) -> None:
    nsq = start_nsq(max_channel_consumers="1")
    nsq.client().subscribe(topic, "c")
    second = nsq.client()
    second.send(SUB % topic.encode())
    assert ends_with(second, f"E_SUB_FAILED SUB failed consumers for {topic}:c exceeds limit of 1")


def test_nsqds_own_examples_of_sizes(start_nsq: StartNsq) -> None:
    nsq = start_nsq(max_msg_size="100", max_body_size="1000", max_rdy_count="50", max_output_buffer_timeout="1s")
    for sent, error in (
        (b"PUB t\n" + sized(b"x" * 105), "E_BAD_MESSAGE PUB message too big 105 > 100"),
        (b"MPUB t\n" + sized(mpub_body([b"x" * 100] * 11)), "E_BAD_BODY MPUB body too big 1148 > 1000"),
        (b"MPUB t\n" + sized(mpub_body([b"x"] * 5 + [b""])), "E_BAD_MESSAGE MPUB invalid message(5) body size 0"),
        (b"MPUB t\n" + sized(mpub_body([b"x", b"x" * 101])), "E_BAD_MESSAGE MPUB message too big 101 > 100"),
        (b"SUB t c\nRDY 51\n", "E_INVALID RDY count 51 out of range 0-50"),
        (
            b"IDENTIFY\n" + sized(b'{"output_buffer_timeout":1001}'),
            "E_BAD_BODY IDENTIFY output buffer timeout (1001) is invalid",
        ),
    ):
        client = nsq.client()
        client.send(sent)
        assert ends_with(client, error), sent
    assert nsq.client().identify(feature_negotiation=True)["max_rdy_count"] == 50
    nsq.client().publish("t", b"x" * 100)
