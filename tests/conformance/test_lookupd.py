"""nsqlookupd's registrations, commands and HTTP API as conversations."""

from collections.abc import Iterator

import pytest

from tests.conformance.lookup_server import LookupServer, running_lookup
from tests.conformance.server import new_name
from tests.support.nsq_socket import sized
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def lookup() -> Iterator[LookupServer]:
    with running_lookup() as server:
        yield server


def producers(lookup: LookupServer, topic: str) -> list[str]:
    """The broadcast addresses that /lookup names; none for a topic that is not there."""
    answer = lookup.http("GET", f"/lookup?topic={topic}")
    return [one["broadcast_address"] for one in answer.json["producers"]] if answer.status == 200 else []


def test_a_node_registers_and_is_gone_with_its_connection(lookup: LookupServer, topic: str) -> None:
    with lookup.peer() as peer:
        answer = peer.identify("node-1")
        assert (answer["tcp_port"], answer["http_port"]) == (lookup.tcp_port, lookup.http_port)
        assert peer.command("PING") == b"OK"
        assert peer.command(f"REGISTER {topic} c") == b"OK"
        assert producers(lookup, topic) == ["node-1"]
        [found] = lookup.http("GET", f"/lookup?topic={topic}").json["producers"]
        assert (found["tcp_port"], found["http_port"], found["version"]) == (4150, 4151, "1.3.0")
        assert lookup.http("GET", f"/channels?topic={topic}").json == {"channels": ["c"]}
        assert topic in lookup.http("GET", "/topics").json["topics"]
        assert peer.command(f"UNREGISTER {topic} c") == b"OK"
        assert producers(lookup, topic) == ["node-1"]
    wait_for("the end of its registrations", lambda: producers(lookup, topic) == [])


def test_a_tombstone_hides_one_topic_of_a_node(lookup: LookupServer, topic: str) -> None:
    other, name = new_name(), new_name("node")
    with lookup.peer() as peer:
        peer.identify(name)
        for one in (topic, other):
            assert peer.command(f"REGISTER {one}") == b"OK"
        answer = lookup.http("POST", f"/topic/tombstone?topic={topic}&node={name}:4151")
        assert (answer.status, answer.body) == (200, b"")
        assert (producers(lookup, topic), producers(lookup, other)) == ([], [name])
        [node] = [one for one in lookup.http("GET", "/nodes").json["producers"] if one["broadcast_address"] == name]
        assert dict(zip(node["topics"], node["tombstones"], strict=True)) == {topic: True, other: False}


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"  V2", b"E_BAD_PROTOCOL"),
        (b"  V1FOO\n", b"E_INVALID"),
        (b"  V1REGISTER t\n", b"E_INVALID"),
        (b"  V1IDENTIFY\n" + sized(b"{}"), b"E_BAD_BODY"),
        (b"  V1IDENTIFY\n" + sized(b"x"), b"E_BAD_BODY"),
    ],
    ids=str,
)
def test_a_wrong_beginning_ends_the_connection(lookup: LookupServer, sent: bytes, code: bytes) -> None:
    with lookup.peer() as peer:
        peer.send(sent)
        assert peer.reply().split()[0] == code
        with pytest.raises((EOFError, ConnectionResetError)):
            peer.reply()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("REGISTER", b"E_INVALID"),
        ("REGISTER $", b"E_BAD_TOPIC"),
        ("REGISTER t $", b"E_BAD_CHANNEL"),
        ("FOO", b"E_INVALID"),
    ],
)
def test_a_wrong_command_ends_the_connection(lookup: LookupServer, line: str, code: bytes) -> None:
    with lookup.peer() as peer:
        peer.identify(new_name("node"))
        assert peer.command(line).split()[0] == code
        with pytest.raises((EOFError, ConnectionResetError)):
            peer.reply()


def test_topics_and_channels_over_http(lookup: LookupServer, topic: str) -> None:
    def error(method: str, target: str) -> tuple[int, bytes]:
        answer = lookup.http(method, target)
        return answer.status, answer.body

    assert lookup.http("POST", f"/topic/create?topic={topic}").status == 200
    assert lookup.http("POST", f"/channel/create?topic={topic}&channel=c").status == 200
    assert lookup.http("GET", f"/channels?topic={topic}").json == {"channels": ["c"]}
    assert lookup.http("POST", f"/channel/delete?topic={topic}&channel=c").status == 200
    assert error("POST", f"/channel/delete?topic={topic}&channel=c") == (404, b'{"message":"CHANNEL_NOT_FOUND"}')
    assert lookup.http("POST", f"/topic/delete?topic={topic}").status == 200
    assert error("GET", f"/lookup?topic={topic}") == (404, b'{"message":"TOPIC_NOT_FOUND"}')
    assert error("GET", "/lookup") == (400, b'{"message":"MISSING_ARG_TOPIC"}')
    assert error("POST", "/topic/create?topic=$") == (400, b'{"message":"INVALID_ARG_TOPIC"}')
    assert error("POST", f"/channel/create?topic={topic}") == (400, b'{"message":"MISSING_ARG_CHANNEL"}')
    assert error("POST", f"/channel/create?topic={topic}&channel=$") == (400, b'{"message":"INVALID_ARG_CHANNEL"}')
    assert error("POST", f"/topic/tombstone?topic={topic}") == (400, b'{"message":"MISSING_ARG_NODE"}')
    assert lookup.http("GET", "/ping").body == b"OK"
    assert list(lookup.http("GET", "/info").json) == ["version"]
