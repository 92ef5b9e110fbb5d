"""The parser: every command, every refusal to the letter, and the same result however the input is cut."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.wire.protocol import parser as parser_module
from queue_engine.wire.protocol.commands import (
    Auth,
    Cls,
    Command,
    Dpub,
    Fin,
    Identify,
    Mpub,
    Nop,
    Pub,
    Rdy,
    Req,
    Sub,
    Touch,
)
from queue_engine.wire.protocol.parser import LINE_BYTES_MAX, Parser
from tests.protocol.reference_parser import Limits, one_at_a_time, parse_all

LIMITS = Limits()
ID = b"0123456789abcdef"


def new_parser(limits: Limits = LIMITS) -> Parser:
    return Parser(
        max_msg_size=limits.max_msg_size,
        max_body_size=limits.max_body_size,
        max_mpub_messages=limits.max_mpub_messages,
        max_req_timeout_ms=limits.max_req_timeout_ms,
        max_rdy_count=limits.max_rdy_count,
    )


def drain(parser: Parser) -> list[Command]:
    return list(iter(parser.next, None))


def parse(*pieces: bytes, limits: Limits = LIMITS) -> list[Command]:
    parser = new_parser(limits)
    found: list[Command] = []
    for piece in pieces:
        parser.feed(piece)
        found += drain(parser)
    return found


def outcome(pieces: list[bytes], limits: Limits = LIMITS) -> tuple[list[Command], str, int]:
    """The commands one at a time, the error's text, and how many bytes are left over."""
    parser = new_parser(limits)
    found: list[Command] = []
    errors: list[ProtocolError] = []
    for piece in pieces:
        whole = parser.whole_pub(piece)  # asked first, as the session does
        if whole is not None:
            found.append(Pub(*whole))
            continue
        parser.feed(piece)
        try:
            while (command := parser.next()) is not None:
                found.append(command)
        except ProtocolError as error:
            errors.append(error)
    assert len(errors) <= 1, "a parser fails once"
    assert all(error.fatal for error in errors)
    return one_at_a_time(found), "".join(map(str, errors)), parser.buffered_bytes


def size(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def sized(body: bytes) -> bytes:
    return size(len(body)) + body


def mpub_body(*bodies: bytes) -> bytes:
    return size(len(bodies)) + b"".join(map(sized, bodies))


def test_a_whole_pub_with_a_known_line_is_known_at_a_glance_and_nothing_else_is() -> None:
    parser = new_parser()
    pub = b"PUB a-glance\n" + sized(b"body")
    assert parser.whole_pub(pub) is None  # nobody has said so before
    parser.feed(pub)
    assert drain(parser) == [Pub("a-glance", b"body")]
    assert parser.whole_pub(pub) == ("a-glance", b"body")
    parser.feed(b"PUB t\n" + sized(b"body"))
    assert drain(parser) == [Pub("t", b"body")]
    assert parser.whole_pub(pub) == ("a-glance", b"body")  # and it stays known
    for other in (
        pub[:-1],
        pub + b"N",
        b"PUB never-seen\n" + sized(b"body"),
        b"PUB t\n",
        b"PUB t\r\n" + sized(b"body"),
        b"PUB t \n" + sized(b"body"),
        b"PUB t\n" + size(0),
        b"PUB t\n" + size(-1) + b"body",
        b"PUB t\n" + sized(b"x" * (LIMITS.max_msg_size + 1)),
        b"",
    ):
        assert parser.whole_pub(other) is None, other
    parser.feed(b"MPUB t\n" + size(100))
    assert parser.whole_pub(pub) is None  # it is the body of what was begun


def test_a_line_that_another_connection_sent_is_known_once_this_one_was_asked_about_a_pub() -> None:
    asked: list[bytes] = []

    def admit(verb: bytes, params: list[bytes]) -> bool:
        asked.append(verb)
        return False

    first, second = b"PUB one-line\n" + sized(b"1"), b"PUB another-line\n" + sized(b"2")
    parser = new_parser()
    parser.feed(first + second)
    assert len(drain(parser)) == 2
    other = new_parser()
    other.admit = admit
    assert other.whole_pub(first) is None
    other.feed(first + second)
    assert drain(other) == [Pub("one-line", b"1"), Pub("another-line", b"2")]
    assert asked == [b"PUB"]
    assert other.whole_pub(second) == ("another-line", b"2")


def test_a_parser_that_has_ended_knows_no_pub_any_more() -> None:
    pub = b"PUB t\n" + sized(b"body")
    parser = new_parser()
    parser.feed(pub)
    assert drain(parser) == [Pub("t", b"body")]
    parser.feed(b"NONSENSE\n")
    with pytest.raises(ProtocolError):
        parser.next()
    assert parser.whole_pub(pub) is None


SCRIPT = b"".join(
    [
        b"IDENTIFY\n" + sized(b'{"client_id":"x"}\n'),
        b"AUTH\n" + sized(b"FIN " + ID + b"\n"),
        b"SUB orders billing#ephemeral\r\n",
        b"RDY 5\nRDY\nRDY \n",
        b"PUB orders\n" + sized(b"FIN " + ID + b"\nFIN 0000000000000000\n"),
        b"MPUB orders\r\n" + sized(mpub_body(b"\n", b"MPUB x\n\0\0\0\1", b"FIN " + ID + b"\n", b"ab")),
        b"MPUB orders\n" + sized(mpub_body(b"same", b"size", b"four")),
        b"FIN 0000000000000001\nFIN 0000000000000002\nFIN 0000000000000003\n",
        b"FIN 0000000000000004\r\nFIN 00000000000\x00\xff\t05\nFIN 0000000000000006 more\nFIN 0000000000000007\n",
        b"DPUB orders 1500\n" + sized(b"later"),
        b"REQ " + ID + b" 100\nREQ " + ID + b" 3600001\nTOUCH " + ID + b"\n",
        b"NOP\nCLS\nNOP\n",
    ]
)


def test_every_command_is_read() -> None:
    assert parse(SCRIPT) == [
        Identify(b'{"client_id":"x"}\n'),
        Auth(b"FIN 0123456789abcdef\n"),
        Sub("orders", "billing#ephemeral"),
        Rdy(5),
        Rdy(1),
        Rdy(0),
        Pub("orders", b"FIN 0123456789abcdef\nFIN 0000000000000000\n"),
        Mpub("orders", [b"\n", b"MPUB x\n\0\0\0\1", b"FIN 0123456789abcdef\n", b"ab"]),
        Mpub("orders", [b"same", b"size", b"four"]),
        Fin([b"0000000000000001", b"0000000000000002", b"0000000000000003"]),
        Fin([b"0000000000000004"]),
        Fin([b"00000000000\x00\xff\t05"]),
        Fin([b"0000000000000006"]),
        Fin([b"0000000000000007"]),
        Dpub("orders", 1500, b"later"),
        Req(ID, 100),
        Req(ID, 3_600_000),
        Touch(ID),
        Nop(),
        Cls(),
        Nop(),
    ]


def test_the_result_is_the_same_at_every_split() -> None:
    whole, error, left = outcome([SCRIPT])
    assert (error, left) == ("", 0)
    assert whole == parse_all(SCRIPT, LIMITS)[0]
    for cut in range(len(SCRIPT) + 1):
        assert outcome([SCRIPT[:cut], SCRIPT[cut:]]) == (whole, "", 0), cut
    assert outcome([SCRIPT[at : at + 1] for at in range(len(SCRIPT))]) == (whole, "", 0)


def test_the_same_when_fed_ahead_of_being_asked() -> None:
    for cut in range(0, len(SCRIPT), 7):
        parser = new_parser()
        parser.feed(SCRIPT[:cut])
        first = parser.next()
        parser.feed(SCRIPT[cut : cut + 9])
        parser.feed(SCRIPT[cut + 9 :])
        found = ([first] if first is not None else []) + drain(parser)
        assert one_at_a_time(found) == one_at_a_time(parse(SCRIPT)), cut


def test_a_series_of_fins_is_one_command_in_order() -> None:
    ids = [b"%016x" % number for number in range(1000)]
    assert parse(b"".join(b"FIN " + one + b"\n" for one in ids)) == [Fin(ids)]


def message_line(verb: bytes) -> bytes:
    return verb + b" t" + (b" 0" if verb == b"DPUB" else b"") + b"\n"


REFUSALS: list[tuple[bytes, str]] = [
    (b"ASDF\n", "E_INVALID invalid command ASDF"),
    (b"asdf x y\r\n", "E_INVALID invalid command asdf"),
    (b"\n", "E_INVALID invalid command "),
    (b"\n\n", "E_INVALID invalid command "),
    (b" NOP\n", "E_INVALID invalid command "),
    (b"fin 0123456789abcdef\n", "E_INVALID invalid command fin"),
    (b"NOP\r\r\n", "E_INVALID invalid command NOP\r"),
    (b"\xff\xfe\n", "E_INVALID invalid command \ufffd\ufffd"),
    (b"x" * (LINE_BYTES_MAX - 1) + b"\n", "E_INVALID invalid command " + "x" * (LINE_BYTES_MAX - 1)),
    (b"x" * LINE_BYTES_MAX, "E_INVALID command line longer than 16384 bytes"),
    (b"x" * LINE_BYTES_MAX + b"\n", "E_INVALID command line longer than 16384 bytes"),
    (b"SUB\n", "E_INVALID SUB insufficient number of parameters"),
    (b"SUB t\n", "E_INVALID SUB insufficient number of parameters"),
    (b"SUB t$ c\n", 'E_BAD_TOPIC SUB topic name "t$" is not valid'),
    (b"SUB  c\n", 'E_BAD_TOPIC SUB topic name "" is not valid'),
    (b"SUB . c\n", 'E_BAD_TOPIC SUB topic name "." is not valid'),
    (b"SUB t c\xff\n", r'E_BAD_CHANNEL SUB channel name "c\xff" is not valid'),
    (b"SUB t " + b"c" * 65 + b"\n", f'E_BAD_CHANNEL SUB channel name "{"c" * 65}" is not valid'),
    (b"RDY x\n", "E_INVALID RDY could not parse count x"),
    (b"RDY -1\n", "E_INVALID RDY could not parse count -1"),
    (b"RDY 1_0\n", "E_INVALID RDY could not parse count 1_0"),
    (b"RDY 2501\n", "E_INVALID RDY count 2501 out of range 0-2500"),
    (b"FIN\n", "E_INVALID FIN insufficient number of params"),
    (b"FIN x\n", "E_INVALID invalid message ID"),
    (b"FIN 0123456789abcde\r\n", "E_INVALID invalid message ID"),
    (b"FIN 0123456 89abcdef\n", "E_INVALID invalid message ID"),
    (b"FIN 0123456789abcdef0\n", "E_INVALID invalid message ID"),
    (b"TOUCH\n", "E_INVALID TOUCH insufficient number of params"),
    (b"TOUCH x\n", "E_INVALID invalid message ID"),
    (b"REQ\n", "E_INVALID REQ insufficient number of params"),
    (b"REQ 0123456789abcdef\n", "E_INVALID REQ insufficient number of params"),
    (b"REQ x y\n", "E_INVALID invalid message ID"),
    (b"REQ 0123456789abcdef -1\n", "E_INVALID REQ could not parse timeout -1"),
    (b"PUB\n", "E_INVALID PUB insufficient number of parameters"),
    (b"PUB a$b\n", 'E_BAD_TOPIC PUB topic name "a$b" is not valid'),
    (b"PUB test:ephemeral\n", 'E_BAD_TOPIC PUB topic name "test:ephemeral" is not valid'),
    (b"DPUB\n", "E_INVALID DPUB insufficient number of parameters"),
    (b"DPUB t\n", "E_INVALID DPUB insufficient number of parameters"),
    (b"DPUB .. x\n", 'E_BAD_TOPIC DPUB topic name ".." is not valid'),
    (b"DPUB t x\n", "E_INVALID DPUB could not parse timeout x"),
    (b"DPUB t 3600100\n", "E_INVALID DPUB timeout 3600100 out of range 0-3600000"),
    (b"MPUB\n", "E_INVALID MPUB insufficient number of parameters"),
    (b"MPUB a$b\n", 'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "a$b" is not valid'),
    (b"MPUB t\n" + size(5001), "E_BAD_BODY MPUB body too big 5001 > 5000"),
    (b"MPUB t\n" + size(0), "E_BAD_BODY MPUB invalid body size 0"),
    (b"MPUB t\n" + size(-2), "E_BAD_BODY MPUB invalid body size -2"),
    (b"MPUB t\n" + size(3), "E_BAD_BODY MPUB failed to read message count"),
    (b"MPUB t\n" + size(40) + size(0), "E_BAD_BODY MPUB invalid message count 0"),
    (b"MPUB t\n" + size(40) + size(-1), "E_BAD_BODY MPUB invalid message count -1"),
    (b"MPUB t\n" + size(40) + size(501), "E_BAD_BODY MPUB has 501 messages and the most is 500 (--max-mpub-messages)"),
    (b"MPUB t\n" + size(40) + size(1000), "E_BAD_BODY MPUB invalid message count 1000"),
    (
        b"MPUB t\n" + sized(mpub_body(*[b"x"] * 5, b"", b"y")),
        "E_BAD_MESSAGE MPUB invalid message(5) body size 0",
    ),
    (b"MPUB t\n" + sized(size(1) + size(-7) + b"x"), "E_BAD_MESSAGE MPUB invalid message(0) body size -7"),
    (b"MPUB t\n" + sized(mpub_body(b"x", b"y" * 1001)), "E_BAD_MESSAGE MPUB message too big 1001 > 1000"),
    (b"MPUB t\n" + sized(mpub_body(*[b"y" * 1001] * 2)), "E_BAD_MESSAGE MPUB message too big 1001 > 1000"),
    (b"MPUB t\n" + sized(size(2) + sized(b"x")), "E_BAD_MESSAGE MPUB failed to read message(1) body size"),
    (b"MPUB t\n" + sized(size(1)), "E_BAD_MESSAGE MPUB failed to read message(0) body size"),
    (b"MPUB t\n" + sized(size(1) + b"\0\0"), "E_BAD_MESSAGE MPUB failed to read message(0) body size"),
    (b"MPUB t\n" + sized(size(1) + size(9) + b"short"), "E_BAD_MESSAGE MPUB failed to read message body"),
    (
        b"MPUB t\n" + sized(size(2) + sized(b"x") + size(9) + b"short") + b"NOP\nNOP\nNOP\n",
        "E_BAD_MESSAGE MPUB failed to read message body",
    ),
    (b"MPUB t\n" + sized(mpub_body(b"x") + b"rest"), "E_BAD_BODY MPUB body has 4 bytes behind its 1 messages"),
    (b"IDENTIFY\n" + size(5001), "E_BAD_BODY IDENTIFY body too big 5001 > 5000"),
    (b"IDENTIFY\n" + size(0), "E_BAD_BODY IDENTIFY invalid body size 0"),
    (b"AUTH x\n", "E_INVALID AUTH invalid number of parameters"),
    (b"AUTH\n" + size(0x7FFFFFFF), "E_BAD_BODY AUTH body too big 2147483647 > 5000"),
    (b"AUTH\n" + size(-0x80000000), "E_BAD_BODY AUTH invalid body size -2147483648"),
]
for _verb in (b"PUB", b"DPUB"):
    REFUSALS += [
        (message_line(_verb) + size(1001), f"E_BAD_MESSAGE {_verb.decode()} message too big 1001 > 1000"),
        (message_line(_verb) + size(0), f"E_BAD_MESSAGE {_verb.decode()} invalid message body size 0"),
        (message_line(_verb) + size(-1), f"E_BAD_MESSAGE {_verb.decode()} invalid message body size -1"),
    ]


def test_a_refusal_has_nsqd_s_words_however_it_arrives() -> None:
    for sent, text in REFUSALS:
        for pieces in ([sent], [sent[at : at + 1] for at in range(len(sent))], [b"NOP\n" + sent[:3], sent[3:]]):
            found, error, left = outcome(pieces)
            assert error == text
            assert all(command == Nop() for command in found), sent
            assert left == 0, sent
        assert parse_all(sent, LIMITS)[1] == text


def test_nsqd_s_own_size_examples() -> None:
    small = Limits(max_msg_size=100, max_body_size=1000)
    assert outcome([b"PUB t\n" + size(105)], small)[1] == "E_BAD_MESSAGE PUB message too big 105 > 100"
    assert outcome([b"MPUB t\n" + size(1148)], small)[1] == "E_BAD_BODY MPUB body too big 1148 > 1000"
    body = mpub_body(*[b"x" * 101] * 5)
    assert outcome([b"MPUB t\n" + sized(body)], small)[1] == "E_BAD_MESSAGE MPUB message too big 101 > 100"
    assert outcome([b"RDY 51\n"], Limits(max_rdy_count=50))[1] == "E_INVALID RDY count 51 out of range 0-50"


def test_a_refused_length_needs_no_byte_of_the_body() -> None:
    # The bytes that carry the bad length are the last ones sent: nothing behind them is waited for.
    for sent, text in REFUSALS:
        parser = new_parser()
        parser.feed(sent)
        with pytest.raises(ProtocolError) as caught:
            drain(parser)
        assert str(caught.value) == text


def test_after_its_error_a_parser_takes_nothing_and_yields_nothing() -> None:
    parser = new_parser()
    parser.feed(b"NOP\nASDF\nNOP\n")
    assert parser.next() == Nop()
    with pytest.raises(ProtocolError):
        parser.next()
    parser.feed(b"NOP\n")
    assert parser.next() is None
    assert (parser.buffered_bytes, parser.in_progress) == (0, False)


def test_the_state_is_asked_before_parameters_and_body() -> None:
    asked: list[tuple[bytes, list[bytes]]] = []

    def admit(verb: bytes, params: list[bytes]) -> None:
        asked.append((verb, params))
        raise ProtocolError("E_INVALID", f"cannot {verb.decode()} in current state")

    for verb in (b"IDENTIFY", b"AUTH", b"SUB", b"RDY", b"FIN", b"REQ", b"TOUCH", b"CLS", b"PUB", b"MPUB", b"DPUB"):
        parser = new_parser()
        parser.admit = admit
        parser.feed(verb + b" $$\n")
        with pytest.raises(ProtocolError) as caught:
            parser.next()
        assert str(caught.value) == f"E_INVALID cannot {verb.decode()} in current state"
        assert asked.pop() == (verb, [verb, b"$$"])
        assert parser.next() is None
    # Where TLS is required, what is no command is refused for that, too.
    parser = new_parser()
    parser.admit = admit
    parser.feed(b"ASDF\n")
    with pytest.raises(ProtocolError, match="cannot ASDF in current state"):
        parser.next()
    parser = new_parser()
    parser.admit = lambda verb, params: False
    parser.feed(b"ASDF\n")
    with pytest.raises(ProtocolError, match="invalid command ASDF"):
        parser.next()


def test_the_state_is_asked_once_a_command_and_once_a_series_of_fins() -> None:
    asked: list[bytes] = []
    parser = new_parser()
    parser.admit = lambda verb, params: asked.append(b" ".join(params))
    for at in range(len(SCRIPT)):
        parser.feed(SCRIPT[at : at + 1])
        drain(parser)
    assert len(asked) == len(one_at_a_time(parse(SCRIPT)))
    asked.clear()
    parser.feed(b"FIN 0000000000000001\nFIN 0000000000000002\n")
    assert parser.next() == Fin([b"0000000000000001", b"0000000000000002"])
    assert asked == [b"FIN 0000000000000001"]


def test_a_line_may_be_passed_over_unread() -> None:
    # RDY after CLS is ignored by nsqd before its count is parsed.
    parser = new_parser()
    parser.admit = lambda verb, params: verb == b"RDY"
    parser.feed(b"RDY nonsense\nTOUCH " + ID + b"\n")
    assert drain(parser) == [Nop(), Touch(ID)]


def test_what_is_buffered_and_in_progress_is_visible() -> None:
    parser = new_parser()
    assert (parser.buffered_bytes, parser.in_progress) == (0, False)
    seen = []
    for piece in (b"NOP\n", b"PU", b"B t\n", size(5), b"hel", b"lo", b"NOP\nFIN 01"):
        parser.feed(piece)
        drain(parser)
        seen.append((parser.buffered_bytes, parser.in_progress))
    assert seen == [(0, False), (2, True), (0, True), (4, True), (7, True), (0, False), (6, True)]


def test_a_huge_body_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # 5 MB in 64 KiB reads: asking after each read must not touch what is already there.
    limits = Limits(max_msg_size=1 << 20, max_body_size=5 << 20, max_mpub_messages=10_000)
    sent = b"MPUB t\n" + sized(mpub_body(*[b"x" * 1000] * 5000))
    parser = new_parser(limits)
    steps = 0
    real_body_size = parser._body_size

    def counting_body_size(verb: str, *, count_too: bool = False) -> int | None:
        nonlocal steps
        steps += 1
        return real_body_size(verb, count_too=count_too)

    monkeypatch.setattr(parser, "_body_size", counting_body_size)
    found: list[Command] = []
    for at in range(0, len(sent), 65536):
        parser.feed(sent[at : at + 65536])
        found += drain(parser)
    assert steps == 2  # when the line was read, and when all was there
    assert found == [Mpub("t", [b"x" * 1000] * 5000)]


@pytest.mark.parametrize("read_bytes", [1, 3, 100, 5000])
def test_small_reads_of_a_body_are_gathered(read_bytes: int) -> None:
    # A body in tiny pieces must cost about its bytes, not an object a piece.
    sent = b"PUB t\n" + sized(b"y" * 200_000)
    parser = new_parser(Limits(max_msg_size=1 << 20))
    for at in range(0, len(sent) - 1, read_bytes):
        parser.feed(sent[at : min(at + read_bytes, len(sent) - 1)])
        assert parser.next() is None
    assert len(parser._chunks) < 50
    assert parser.buffered_bytes == len(sent) - 1 - len(b"PUB t\n")
    parser.feed(sent[-1:])
    assert parser.next() == Pub("t", b"y" * 200_000)
    assert parser.buffered_bytes == 0


def test_a_line_in_single_bytes_is_searched_once_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = new_parser()
    steps = 0
    real_line = parser._line

    def counting_line() -> Command | None:
        nonlocal steps
        steps += 1
        return real_line()

    monkeypatch.setattr(parser, "_line", counting_line)
    line = b"SUB t " + b"c" * 60 + b" " + b"z" * 16000
    for at in range(len(line)):
        parser.feed(line[at : at + 1])
        assert parser.next() is None
    parser.feed(b"\n")
    assert parser.next() == Sub("t", "c" * 60)
    assert steps == 2


names = st.sampled_from([b"t", b"orders", b"a.b-c_9#ephemeral", b"t$", b"", b".", b"n" * 64, b"n" * 65, b"\xff"])
ids = st.one_of(
    st.integers(0, 2**64 - 1).map(lambda value: b"%016x" % value),
    st.binary(min_size=15, max_size=17),
    st.just(ID),
)
numbers = st.sampled_from([b"0", b"1", b"2500", b"2501", b"3600000", b"3600001", b"-1", b"", b"x", b"1" * 20])
bodies = st.one_of(st.binary(min_size=0, max_size=40), st.just(b"FIN " + ID + b"\n" + b"NOP\n"), st.just(b"b" * 1001))
ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"])
scripts = st.lists(
    st.one_of(
        st.builds(lambda one, end: b"FIN " + one + end, ids, ends),
        st.integers(1, 70).map(lambda count: b"".join(b"FIN %016x\n" % number for number in range(count))),
        st.builds(lambda one, time, end: b"REQ " + one + b" " + time + end, ids, numbers, ends),
        st.builds(lambda one, end: b"TOUCH " + one + end, ids, ends),
        st.builds(lambda count, end: b"RDY " + count + end, numbers, ends),
        st.builds(lambda topic, channel, end: b"SUB " + topic + b" " + channel + end, names, names, ends),
        st.builds(lambda topic, body, end: b"PUB " + topic + end + sized(body), names, bodies, ends),
        st.builds(
            lambda topic, time, body: b"DPUB " + topic + b" " + time + b"\n" + sized(body), names, numbers, bodies
        ),
        st.builds(
            lambda topic, many, more: b"MPUB " + topic + b"\n" + sized(mpub_body(*many) + more),
            names,
            st.lists(bodies, max_size=8),
            st.sampled_from([b"", b"", b"", b"x"]),
        ),
        st.builds(lambda body: b"IDENTIFY\n" + sized(body), bodies),
        st.builds(lambda body: b"AUTH\n" + sized(body), bodies),
        st.sampled_from([b"NOP\n", b"CLS\n", b"NOP\r\n", b"\n", b"ASDF\n", b"FIN\n"]),
        st.binary(max_size=30),
    ),
    max_size=12,
).map(b"".join)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


@settings(max_examples=600)
@given(scripts, st.lists(st.integers(0, 10**6), max_size=12))
@pytest.mark.slow(reason="reads random scripts at many splits")
def test_any_script_at_any_splits_reads_as_the_plain_parser_reads_it(script: bytes, cuts: list[int]) -> None:
    expected, error, left = parse_all(script, LIMITS)
    found, found_error, found_left = outcome(pieces_of(script, cuts))
    assert found == expected
    assert found_error == error
    # A command whose line was taken already holds only its body back.
    assert found_left <= len(left)
    assert (found_left > 0) <= (len(left) > 0)


@settings(max_examples=300)
@given(st.binary(max_size=400), st.lists(st.integers(0, 10**6), max_size=5))
def test_random_bytes_raise_nothing_but_protocol_errors(data: bytes, cuts: list[int]) -> None:
    found, error, _ = outcome(pieces_of(data, cuts))
    assert (found, error) == parse_all(data, LIMITS)[:2]


def test_damaged_scripts_raise_nothing_but_protocol_errors() -> None:
    chance = random.Random(20)
    for _ in range(3000):
        damaged = bytearray(SCRIPT)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        data = bytes(damaged)
        cut = chance.randrange(len(data))
        found, error, _ = outcome([data[:cut], data[cut:]])
        assert (found, error) == parse_all(data, LIMITS)[:2]


def test_messages_of_one_size_and_of_many_are_cut_alike() -> None:
    chance = random.Random(7)
    for count in (1, 2, 63, 64, 200):
        same = [chance.randbytes(200) for _ in range(count)]
        mixed = [chance.randbytes(chance.randint(1, 300)) for _ in range(count)]
        swapped = [b"x" * 4, b"y" * 6, b"z" * 5] * count  # the total of one size, but not the sizes
        for many in (same, mixed, swapped):
            body = mpub_body(*many)
            around = b"before" + body + b"behind"
            assert parser_module.split_messages(around, 6, 6 + len(body), 300) == many
