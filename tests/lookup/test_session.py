"""nsqlookupd's TCP V1: every reply and error, byte by byte, and its deadlines."""

import json

import pytest

from tests.support.lookup import IDENTITY, Lookup, LookupPeer, replies_of
from tests.support.nsq_socket import sized


@pytest.fixture
def lookup() -> Lookup:
    return Lookup()


def last_reply(peer: LookupPeer, data: bytes) -> str:
    """The reply that ends the conversation."""
    replies = peer.send(data)
    assert peer.session.is_over
    return replies[-1].decode()


def test_the_answer_to_identify_names_the_server(lookup: Lookup) -> None:
    peer = lookup.peer()
    (reply,) = peer.send(b"IDENTIFY\n" + sized(json.dumps(IDENTITY).encode()))
    assert set(json.loads(reply)) == {"tcp_port", "http_port", "version", "broadcast_address", "hostname"}


def test_a_peer_may_ping_before_it_identifies_itself(lookup: Lookup) -> None:
    assert lookup.peer().command("PING") == "OK"


def test_commands_may_come_at_once_and_in_pieces(lookup: Lookup) -> None:
    conversation = (
        b"PING\r\nIDENTIFY\n" + sized(json.dumps(IDENTITY).encode()) + b"REGISTER a b \nUNREGISTER a b\nREGISTER a\n"
    )
    whole = lookup.peer().send(conversation)
    assert [whole[0], *whole[2:]] == [b"OK"] * 4
    peer = lookup.peer()
    pieces = [reply for index in range(len(conversation)) for reply in peer.send(conversation[index : index + 1])]
    assert pieces == whole


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("", "E_INVALID invalid command "),
        ("HELLO", "E_INVALID invalid command HELLO"),
        ("ping", "E_INVALID invalid command ping"),
        ("REGISTER a", "E_INVALID client must IDENTIFY"),
        ("UNREGISTER a", "E_INVALID client must IDENTIFY"),
    ],
)
def test_errors_before_identify(lookup: Lookup, command: str, error: str) -> None:
    assert last_reply(lookup.peer(), command.encode() + b"\n") == error


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("IDENTIFY", "E_INVALID cannot IDENTIFY again"),
        ("REGISTER", "E_INVALID REGISTER insufficient number of params"),
        ("UNREGISTER", "E_INVALID UNREGISTER insufficient number of params"),
        ("REGISTER a$", "E_BAD_TOPIC REGISTER topic name 'a$' is not valid"),
        ("REGISTER  a", "E_BAD_TOPIC REGISTER topic name '' is not valid"),
        (f"REGISTER {'a' * 65}", f"E_BAD_TOPIC REGISTER topic name '{'a' * 65}' is not valid"),
        ("UNREGISTER a b$", "E_BAD_CHANNEL UNREGISTER channel name 'b$' is not valid"),
        ("REGISTER a b:ephemeral", "E_BAD_CHANNEL REGISTER channel name 'b:ephemeral' is not valid"),
        ("REGISTER ..", "E_BAD_TOPIC REGISTER topic name '..' is not valid"),
    ],
)
def test_errors_after_identify(lookup: Lookup, command: str, error: str) -> None:
    peer = lookup.peer().identify()
    assert last_reply(peer, command.encode() + b"\n") == error
    assert peer.send(b"PING\n") == []


def test_another_protocol_is_refused(lookup: Lookup) -> None:
    peer = lookup.peer()
    peer.session = type(peer.session)(lookup.registrations, lookup.clock, "x:1", dict, silence_ms=1)
    assert last_reply(peer, b"  V2PING\n") == "E_BAD_PROTOCOL"


def json_of(**fields: object) -> bytes:
    return json.dumps({**IDENTITY, **fields}).encode()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "failed to decode JSON body"),
        (b"{", "failed to decode JSON body"),
        (b"[]", "failed to decode JSON body"),
        (b"[" * 60_000, "failed to decode JSON body"),
        (b"\xef\xbb\xbf" + json_of(), "failed to decode JSON body"),
        (json_of(more=float("nan")), "failed to decode JSON body"),
        (json_of(tcp_port="4150"), "failed to decode JSON body"),
        (json_of(tcp_port=4150.0), "failed to decode JSON body"),
        (json_of(tcp_port=True), "failed to decode JSON body"),
        (json_of(tcp_port=1 << 63), "failed to decode JSON body"),
        (json_of(version=1), "failed to decode JSON body"),
        (b"null", "missing fields"),
        (b"{}", "missing fields"),
        *((json_of(**{name: None}), "missing fields") for name in IDENTITY if name != "hostname"),
        *((json_of(**{name: 0}), "missing fields") for name in ("tcp_port", "http_port")),
        (json_of(hostname="h" * 256), "hostname has 256 characters and the most is 255"),
    ],
)
def test_an_identify_that_can_not_be_used(lookup: Lookup, body: bytes, error: str) -> None:
    assert last_reply(lookup.peer(), b"IDENTIFY\n" + sized(body)) == f"E_BAD_BODY IDENTIFY {error}"
    assert lookup.registrations.peer_count == 0


def test_identify_is_read_as_go_reads_json(lookup: Lookup) -> None:
    body = b'{"Broadcast_Address":"n\xff","TCP_PORT":-1,"http_port":1,"VERSION":"v","hostname":null,"more":[1]}'
    peer = lookup.peer()
    (reply,) = peer.send(b"IDENTIFY\n" + sized(body))
    assert reply.startswith(b"{")
    peer.command("REGISTER a")
    (producer,) = lookup.get("/lookup?topic=a")["producers"]
    assert (producer["broadcast_address"], producer["tcp_port"], producer["hostname"]) == ("n�", -1, "")


@pytest.mark.parametrize(
    ("size", "error"),
    [(b"\xff\xff\xff\xff", "invalid body size -1"), (b"\x7f\xff\xff\xff", "body too big 2147483647 > 65536")],
)
def test_the_size_of_a_body_is_limited_before_it_is_read(lookup: Lookup, size: bytes, error: str) -> None:
    assert last_reply(lookup.peer(), b"IDENTIFY\n" + size) == f"E_BAD_BODY IDENTIFY {error}"


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"IDENTIFY\n\0\0", "E_BAD_BODY IDENTIFY failed to read body size"),
        (b"IDENTIFY\n\0\0\0\5{", "E_BAD_BODY IDENTIFY failed to read body"),
    ],
)
def test_a_command_that_is_cut_off_gets_its_error(lookup: Lookup, sent: bytes, error: str) -> None:
    peer = lookup.peer()
    assert peer.send(sent) == []
    assert [reply.decode() for reply in replies_of(peer.session.end_of_input())] == [error]


def test_a_peer_that_ends_between_commands_gets_nothing(lookup: Lookup) -> None:
    peer = lookup.peer().identify()
    assert (peer.session.end_of_input(), peer.session.is_over) == (b"", True)


def test_a_line_has_a_limit(lookup: Lookup) -> None:
    peer = lookup.peer()
    assert peer.send(b"x" * 16_384) == []
    assert last_reply(peer, b"x") == "E_INVALID a command's line has more than 16384 bytes"


def test_one_read_may_have_thousands_of_commands(lookup: Lookup) -> None:
    replies = lookup.peer().send(b"PING\n" * 50_000)
    assert replies == [b"OK"] * 50_000


def test_a_command_that_drips_is_cut_though_each_byte_is_news(lookup: Lookup) -> None:
    peer = lookup.peer()
    for _ in range(9):
        peer.send(b"P")
        lookup.clock.advance(ms=1_111)
    assert peer.session.overdue() == ""
    peer.send(b"P")
    lookup.clock.advance(ms=2)
    assert peer.session.overdue() == "a command was not complete after 10000 ms"


def test_a_connection_that_sends_no_magic_is_cut(lookup: Lookup) -> None:
    peer = lookup.peer()
    peer.session = type(peer.session)(lookup.registrations, lookup.clock, "x:1", dict, silence_ms=1)
    lookup.clock.advance(ms=10_000)
    assert peer.session.overdue() == ""
    lookup.clock.advance(ms=1)
    assert peer.session.overdue() == "a command was not complete after 10000 ms"


def test_a_peer_that_is_gone_without_a_word_is_cut(lookup: Lookup) -> None:
    stranger, peer = lookup.peer(), lookup.peer().identify()
    lookup.clock.advance(ms=60_001)
    assert stranger.session.overdue() == "no IDENTIFY came in 60000 ms"
    assert peer.session.overdue() == ""
    lookup.clock.advance(ms=540_000)
    assert peer.session.overdue() == "nothing came for 600000 ms"
    peer.session.closed()
    assert lookup.registrations.peer_count == 0


def test_pings_do_not_stand_for_an_identify(lookup: Lookup) -> None:
    stranger = lookup.peer()
    for _ in range(4):
        lookup.clock.advance(ms=15_000)
        assert stranger.session.overdue() == ""
        stranger.send(b"PING\n")
    lookup.clock.advance(ms=1)
    assert stranger.session.overdue() == "no IDENTIFY came in 60000 ms"
