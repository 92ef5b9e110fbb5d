"""What nsqlookupd answers about registrations: the facts of its own tests, on a clock that stands still."""

import random

import orjson
import pytest

from queue_engine.lookup import registrations
from queue_engine.lookup.registrations import PeerInfo, Registrations, TooManyRegistrationsError
from queue_engine.vocabulary.pieces import whole
from tests.support.clock import ManualClock
from tests.support.lookup import Lookup

NODE = "node-1:4151"


@pytest.fixture
def lookup() -> Lookup:
    return Lookup()


def test_a_registered_channel_is_found_and_its_producers_go_with_the_connection(lookup: Lookup) -> None:
    assert lookup.get("/topics") == {"topics": []}
    peer = lookup.peer().identify(topology_zone="a", topology_region="eu")
    assert peer.command("REGISTER orders billing") == "OK"
    fields = {
        "remote_address": "10.0.0.1:50000",
        "hostname": "node-1.example",
        "broadcast_address": "node-1",
        "tcp_port": 4150,
        "http_port": 4151,
        "version": "1.3.0",
        "topology_zone": "a",
        "topology_region": "eu",
    }
    assert lookup.get("/nodes") == {"producers": [{**fields, "tombstones": [False], "topics": ["orders"]}]}
    assert lookup.get("/topics") == {"topics": ["orders"]}
    assert lookup.get("/lookup?topic=orders") == {"channels": ["billing"], "producers": [fields]}
    peer.session.closed()
    assert lookup.get("/lookup?topic=orders") == {"channels": ["billing"], "producers": []}
    assert lookup.get("/nodes") == {"producers": []}


def test_an_unregistered_channel_stays_known_and_the_topic_keeps_its_producer(lookup: Lookup) -> None:
    peer = lookup.peer().identify()
    peer.command("REGISTER orders billing")
    assert peer.command("UNREGISTER orders billing") == "OK"
    assert lookup.get("/channels?topic=orders") == {"channels": ["billing"]}
    assert lookup.producers("orders") == ["node-1"]


def test_an_ephemeral_name_goes_with_its_last_producer(lookup: Lookup) -> None:
    first, second = lookup.peer().identify(), lookup.peer().identify(broadcast_address="node-2")
    for peer in (first, second):
        peer.command("REGISTER orders tail#ephemeral")
        peer.command("REGISTER passing#ephemeral tail#ephemeral")
    first.command("UNREGISTER orders tail#ephemeral")
    assert lookup.get("/channels?topic=orders") == {"channels": ["tail#ephemeral"]}
    second.command("UNREGISTER orders tail#ephemeral")
    assert lookup.get("/channels?topic=orders") == {"channels": []}
    first.command("UNREGISTER passing#ephemeral")
    assert lookup.get("/topics") == {"topics": ["orders", "passing#ephemeral"]}
    second.session.closed()
    assert lookup.get("/topics") == {"topics": ["orders"]}


def test_a_tombstone_hides_one_topic_of_a_node_until_its_lifetime_is_over() -> None:
    lookup = Lookup(tombstone_lifetime_ms=50)
    peer = lookup.peer().identify()
    peer.command("REGISTER orders billing")
    peer.command("REGISTER returns billing")
    lookup.post(f"/topic/tombstone?topic=orders&node={NODE}")
    assert (lookup.producers("orders"), lookup.producers("returns")) == ([], ["node-1"])
    lookup.clock.advance(ms=49)
    assert lookup.producers("orders") == []
    lookup.clock.advance(ms=1)
    assert lookup.producers("orders") == ["node-1"]


def test_a_tombstoned_producer_that_unregisters_does_not_come_back() -> None:
    lookup = Lookup(tombstone_lifetime_ms=50)
    peer = lookup.peer().identify()
    peer.command("REGISTER orders billing")
    lookup.post(f"/topic/tombstone?topic=orders&node={NODE}")
    peer.command("REGISTER orders billing")  # as after a change of the channel: the tombstone stays
    assert lookup.producers("orders") == []
    peer.command("UNREGISTER orders")
    lookup.clock.advance(ms=55)
    assert lookup.producers("orders") == []
    peer.command("REGISTER orders")
    assert lookup.producers("orders") == ["node-1"]


def test_a_node_that_does_not_ping_is_inactive_until_it_pings_again() -> None:
    lookup = Lookup(inactive_producer_timeout_ms=200)
    peer = lookup.peer().identify()
    peer.command("REGISTER orders billing")
    lookup.clock.advance(ms=200)
    assert lookup.producers("orders") == ["node-1"]
    lookup.clock.advance(ms=1)
    assert lookup.producers("orders") == []
    assert lookup.get("/nodes") == {"producers": []}
    assert lookup.get("/debug")["topic:orders:"][0]["broadcast_address"] == "node-1"
    assert peer.command("PING") == "OK"
    assert lookup.producers("orders") == ["node-1"]


def test_a_tombstoned_node_stays_in_the_list_of_nodes(lookup: Lookup) -> None:
    lookup.peer().identify().command("REGISTER orders billing")
    other = lookup.peer().identify(broadcast_address="node-2")
    other.command("REGISTER orders billing")
    lookup.post(f"/topic/tombstone?topic=orders&node={NODE}")
    found = {one["broadcast_address"]: one["tombstones"] for one in lookup.get("/nodes")["producers"]}
    assert found == {"node-1": [True], "node-2": [False]}
    row = next(one for one in lookup.get("/debug")["topic:orders:"] if one["broadcast_address"] == "node-1")
    assert (row["tombstoned"], row["tombstoned_at"]) == (True, lookup.clock.time_ns())
    assert (row["id"], row["last_update"]) == ("10.0.0.1:50000", lookup.clock.time_ns())
    assert lookup.producers("orders") == ["node-2"]


def test_topics_and_channels_are_created_and_deleted_over_http(lookup: Lookup) -> None:
    lookup.post("/topic/create?topic=orders")
    lookup.post("/channel/create?topic=returns&channel=billing")
    assert lookup.get("/topics") == {"topics": ["orders", "returns"]}
    assert lookup.get("/lookup?topic=returns") == {"channels": ["billing"], "producers": []}
    lookup.post("/channel/delete?topic=returns&channel=billing")
    assert lookup.get("/channels?topic=returns") == {"channels": []}
    lookup.post("/topic/delete?topic=orders")
    lookup.post("/topic/delete?topic=orders")  # as nsqlookupd: no error
    assert lookup.get("/topics") == {"topics": ["returns"]}
    assert lookup.get("/channels?topic=orders") == {"channels": []}


def test_what_was_deleted_comes_back_when_a_node_registers_it_again(lookup: Lookup) -> None:
    peer = lookup.peer().identify()
    peer.command("REGISTER orders billing")
    lookup.post("/topic/delete?topic=orders")
    assert lookup.get("/nodes")["producers"][0]["topics"] == []
    assert peer.command("UNREGISTER orders billing") == "OK"
    peer.command("REGISTER orders shipping")
    assert lookup.get("/lookup?topic=orders")["channels"] == ["shipping"]
    assert lookup.producers("orders") == ["node-1"]


def test_a_registration_beyond_the_limit_changes_nothing() -> None:
    lookup = Lookup(max_registrations=4)
    peer = lookup.peer().identify()
    peer.command("REGISTER orders billing")
    assert peer.command("REGISTER orders billing") == "OK"  # nothing new
    before = lookup.get("/debug")
    assert lookup.error("POST", "/channel/create?topic=orders&channel=shipping") == (403, "LIMIT_REACHED")
    assert peer.command("REGISTER returns") == (
        "E_INVALID REGISTER refused: 4 topics, channels and producers are registered and the most is 4"
    )
    assert lookup.get("/debug") == before
    # It stays connected: else its nsqd would come back and register all of it anew, for ever.
    assert peer.command("PING") == "OK"
    assert not peer.session.is_over
    lookup.post("/channel/delete?topic=orders&channel=billing")
    assert peer.command("REGISTER orders shipping") == "OK"
    peer.session.closed()
    lookup.post("/topic/delete?topic=orders")
    assert lookup.registrations.entry_count == 0


def test_all_registrations_are_listed_in_steps_while_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "SORTED_NAMES", 16)
    monkeypatch.setattr(registrations, "STEP_ENTRIES", 8)
    lookup = Lookup()
    peers = [lookup.peer().identify() for _ in range(3)]
    names = [f"t{number:03d}" for number in range(100)]
    for name in names:
        for peer in peers:
            peer.command(f"REGISTER {name} billing")
    table = lookup.registrations
    for listed in (lookup.http._topics, lookup.http._nodes, lookup.http._debug):
        steps, count = listed(), 0
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                found = orjson.loads(stop.value)
                break
            count += 1
            table.delete_channel(names[-count % 50], "billing")
            table.delete_topic(names[count % 25])
            peers[0].command(f"REGISTER {names[count % 25]} billing")
        assert count > 10
        assert found
    assert lookup.get("/topics") == {"topics": names}
    listed_topics = [key for key in lookup.get("/debug") if key.startswith("topic:")]
    assert listed_topics == sorted(listed_topics)


def test_the_count_and_the_peers_lists_agree_with_what_is_registered() -> None:
    """Many random acts: the entries are as many as an independent count finds, and no peer is left behind."""
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    clock = ManualClock()
    table = Registrations(clock, inactive_ms=1_000, tombstone_ms=500, entries_max=40)
    peers = []
    for _ in range(2_000):
        topic, channel = chance.choice(["a", "b", "c#ephemeral"]), chance.choice(["", "x", "y", "z#ephemeral"])
        act = chance.randrange(8)
        try:
            if act == 0 and len(peers) < 5:
                peers.append(table.add_peer(PeerInfo(f"{len(peers)}", "", "n", 1, 1, "v")))
            elif act == 1 and peers:
                table.remove_peer(peers.pop(chance.randrange(len(peers))))
            elif act in (2, 3) and peers:
                table.register(chance.choice(peers), topic, channel)
            elif act == 4 and peers:
                table.unregister(chance.choice(peers), topic, channel)
            elif act == 5:
                table.create_channel(topic, channel or "w")
            elif act == 6:
                table.delete_channel(topic, channel or "w")
            elif act == 7 and chance.random() < 0.2:
                table.delete_topic(topic)
        except TooManyRegistrationsError:
            pass
        rows = [row for row in table.debug_rows() if row is not None and row.category != "client"]
        topics = whole(table.topics_in_steps())
        names = len(topics) + sum(len(table.channels(one)) for one in topics)
        assert table.entry_count == names + len(rows), seed
        assert {(row.peer, row.topic) for row in rows} == {(peer, one) for peer in peers for one in peer.topics}, seed
        of_channels = {(row.peer, row.topic, row.channel) for row in rows if row.category == "channel"}
        assert of_channels == {
            (peer, one, name) for peer in peers for one, names in peer.topics.items() for name in names
        }, seed
