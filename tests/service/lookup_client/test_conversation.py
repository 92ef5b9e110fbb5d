"""What the server says to one nsqlookupd: against ours, without sockets, on a clock that stands still."""

import struct
from collections.abc import Iterable

import pytest

from queue_engine.service.lookup_client.conversation import LookupConversation, LookupdError, TopicNumbers
from tests.support.lookup import IDENTITY, Lookup
from tests.support.nsq_socket import sized

IDENTIFIED = sized(b'{"broadcast_address":"l","http_port":4161,"version":"1"}')


class Node:
    """This server's names, by topic: its number and those of its channels."""

    def __init__(self) -> None:
        self.names: dict[str, TopicNumbers] = {}

    def all_topics(self) -> Iterable[str]:
        return list(self.names)

    def topic(self, name: str) -> TopicNumbers | None:
        return self.names.get(name)

    def has(self, topic: str, number: int, **channels: int) -> None:
        self.names[topic] = TopicNumbers(number, channels)


class Talk:
    """A conversation with our nsqlookupd."""

    def __init__(self, lookup: Lookup, node: Node) -> None:
        self.lookup, self.node = lookup, node
        self.conversation = LookupConversation(lookup.clock, IDENTITY, node)
        self.peer = lookup.peer()
        self.sent: list[str] = []
        self._pass_on(self.conversation.begin().removeprefix(b"  V1"))
        self.go_on()
        self.sent.clear()

    def _pass_on(self, data: bytes) -> None:
        self.conversation.receive(self.peer.session.receive(data))

    def go_on(self) -> list[str]:
        """Until there is nothing to say; the commands."""
        while output := self.conversation.output():
            self.sent += output.decode().splitlines()
            self._pass_on(output)
        sent, self.sent = self.sent, []
        return sent

    def change(self, topic: str) -> list[str]:
        self.conversation.changed(topic)
        return self.go_on()


@pytest.fixture
def node() -> Node:
    node = Node()
    node.has("orders", 1, billing=2)
    node.has("returns", 3)
    return node


@pytest.fixture
def lookup() -> Lookup:
    return Lookup()


def test_a_connection_begins_with_everything_there_is(lookup: Lookup, node: Node) -> None:
    talk = Talk(lookup, node)
    assert lookup.get("/topics") == {"topics": ["orders", "returns"]}
    assert lookup.get("/channels?topic=orders") == {"channels": ["billing"]}
    assert (talk.conversation.topic_count, talk.conversation.channel_count) == (2, 1)
    assert talk.conversation.is_up_to_date
    assert talk.conversation.info is not None
    assert (talk.conversation.info.broadcast_address, talk.conversation.info.http_port) == ("l", 4161)


def test_only_what_differs_is_said(lookup: Lookup, node: Node) -> None:
    talk = Talk(lookup, node)
    assert talk.change("orders") == []
    node.has("orders", 1, billing=2, shipping=4)
    assert talk.change("orders") == ["REGISTER orders shipping"]
    node.has("orders", 1, shipping=4)
    assert talk.change("orders") == ["UNREGISTER orders billing"]
    node.has("orders", 1)
    assert talk.change("orders") == ["UNREGISTER orders shipping"]
    del node.names["returns"]
    assert talk.change("returns") == ["UNREGISTER returns"]
    assert talk.change("never-was") == []
    assert lookup.producers("orders") == ["node-1"]
    assert lookup.producers("returns") == []
    assert (talk.conversation.topic_count, talk.conversation.channel_count) == (1, 0)


def test_what_was_made_anew_is_taken_back_first_so_that_a_tombstone_ends(lookup: Lookup, node: Node) -> None:
    talk = Talk(lookup, node)
    lookup.post("/topic/tombstone?topic=orders&node=node-1:4151")
    assert lookup.producers("orders") == []
    node.has("orders", 5, billing=6)
    assert talk.change("orders") == ["UNREGISTER orders billing", "UNREGISTER orders", "REGISTER orders billing"]
    assert lookup.producers("orders") == ["node-1"]
    node.has("orders", 5, billing=7)
    assert talk.change("orders") == ["UNREGISTER orders billing", "REGISTER orders billing"]


def test_a_change_before_the_answer_to_identify_is_not_forgotten(lookup: Lookup, node: Node) -> None:
    conversation = LookupConversation(lookup.clock, IDENTITY, node)
    conversation.begin()
    node.has("late", 9)
    conversation.changed("late")
    assert conversation.output() == b""
    conversation.receive(IDENTIFIED)
    assert conversation.output() == b"REGISTER orders billing\nREGISTER returns\nREGISTER late\n"


def test_a_ping_goes_out_each_fifteen_seconds(lookup: Lookup, node: Node) -> None:
    talk = Talk(lookup, node)
    assert talk.conversation.pinged_at_ns == 0
    lookup.clock.advance(ms=14_999)
    assert talk.go_on() == []
    lookup.clock.advance(ms=1)
    assert talk.go_on() == ["PING"]
    assert talk.conversation.pinged_at_ns == lookup.clock.time_ns()
    assert talk.go_on() == []


def test_thousands_of_topics_are_sent_a_hundred_at_a_time(lookup: Lookup, node: Node) -> None:
    for number in range(1_000):
        node.has(f"t{number}", number, c=number)
    conversation = LookupConversation(lookup.clock, IDENTITY, node)
    conversation.begin()
    conversation.receive(IDENTIFIED)
    assert conversation.output().count(b"\n") == 100
    assert conversation.output() == b""
    conversation.receive(sized(b"OK") * 40)
    assert conversation.output().count(b"\n") == 40
    assert not conversation.is_up_to_date
    Talk(lookup, node)
    assert len(lookup.get("/topics")["topics"]) == 1_002


def test_a_reply_that_does_not_come_is_noticed(lookup: Lookup, node: Node) -> None:
    conversation = LookupConversation(lookup.clock, IDENTITY, node)
    conversation.begin()
    lookup.clock.advance(ms=5_000)
    assert conversation.overdue() == ""
    lookup.clock.advance(ms=1)
    assert conversation.overdue() == "no reply to IDENTIFY came in 5 s"
    conversation.receive(IDENTIFIED)
    assert conversation.overdue() == ""
    conversation.output()
    lookup.clock.advance(ms=5_001)
    assert conversation.overdue() == "no reply to REGISTER orders billing came in 5 s"
    conversation.receive(sized(b"OK"))
    assert conversation.overdue() == ""  # the next reply has its own time


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        (sized(b"E_INVALID"), "IDENTIFY was answered: E_INVALID"),
        (sized(b"[]"), "IDENTIFY was answered: []"),
        (IDENTIFIED + sized(b"OK"), "a reply came to no command: OK"),
        (struct.pack(">i", -1), "a reply has -1 bytes and the most is 1048576"),
        (struct.pack(">i", 1 << 30), "a reply has 1073741824 bytes and the most is 1048576"),
    ],
)
def test_an_nsqlookupd_that_breaks_the_protocol_is_left(lookup: Lookup, node: Node, replies: bytes, error: str) -> None:
    conversation = LookupConversation(lookup.clock, IDENTITY, node)
    conversation.begin()
    with pytest.raises(LookupdError) as raised:
        conversation.receive(replies)
    assert str(raised.value) == error


def test_a_refused_registration_ends_the_conversation_with_its_reason(lookup: Lookup, node: Node) -> None:
    conversation = LookupConversation(lookup.clock, IDENTITY, node)
    conversation.begin()
    conversation.receive(IDENTIFIED)
    conversation.output()
    with pytest.raises(LookupdError, match=r"^REGISTER orders billing was answered: E_BAD_TOPIC no$"):
        conversation.receive(sized(b"E_BAD_TOPIC no"))


def test_an_nsqlookupd_without_an_address_is_no_error(lookup: Lookup, node: Node) -> None:
    conversation = LookupConversation(lookup.clock, IDENTITY, node)
    conversation.begin()
    conversation.receive(sized(b'{"http_port":"x","version":null}'))
    assert conversation.info is not None
    assert (conversation.info.broadcast_address, conversation.info.http_port) == ("", 0)


def test_a_name_for_which_there_is_no_room_is_tried_again_without_a_new_connection(node: Node) -> None:
    lookup = Lookup(max_registrations=4)
    node.has("orders", 1, billing=2)
    node.has("returns", 3, billing=4)
    talk = Talk(lookup, node)
    assert talk.conversation.refusal.startswith("REGISTER returns billing was answered: E_INVALID REGISTER refused: 4 ")
    assert not talk.conversation.is_up_to_date
    assert lookup.producers("orders") == ["node-1"]
    lookup.clock.advance(ms=15_000)
    assert talk.go_on() == ["PING", "REGISTER returns billing"]
    assert talk.conversation.refusal
    del node.names["orders"]
    talk.change("orders")
    lookup.post("/topic/delete?topic=orders")
    lookup.clock.advance(ms=15_000)
    assert talk.go_on() == ["PING", "REGISTER returns billing"]
    assert talk.conversation.refusal == ""
    assert talk.conversation.is_up_to_date
    assert (talk.conversation.topic_count, talk.conversation.channel_count) == (1, 1)
    assert lookup.producers("returns") == ["node-1"]
