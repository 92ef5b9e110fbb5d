"""topology.json: what it says."""

import json
from pathlib import Path

import pytest

from queue_engine.engine.catalog.topology_promises import NUMBERS_AHEAD
from queue_engine.engine.topology.nsqd_file import NO_FILE
from queue_engine.engine.topology.topology import (
    FORMAT,
    Change,
    Topology,
    channel_deleted,
    channel_redriven,
    parse_topology,
    released_upto,
)
from queue_engine.service.runner import EngineRunner
from queue_engine.storage.log_store.offset_reservation import OFFSETS_MIN
from queue_engine.vocabulary.errors import StorageError, TopologyError
from queue_engine.vocabulary.version import VERSION
from tests.support.engine import settle
from tests.support.storage_kinds import engine_options
from tests.support.topology import file_of, load_topology, open_engine, put_file, written


def test_the_file_says_what_there_is_to_the_key(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.acts.create_channel("orders", "tail#ephemeral")
    engine.acts.create_topic("events#ephemeral")
    engine.acts.create_topic("idle")
    engine.acts.pause_channel("orders", "billing")
    engine.acts.pause_topic("idle")
    found = written(tmp_path)
    checksum, identity, sequence = found.pop("checksum"), found.pop("identity"), found.pop("sequence")
    pause = {"by": "", "reason": "", "since_ms": 1_500_000_000_000, "until_ms": 0, "depth": 0}
    assert (len(checksum), len(identity), sequence > 0) == (8, 32, True)
    assert found == {
        "format": FORMAT,
        "has_log": False,
        "deleted": [],
        "unlisted_below": 0,
        "topics": [
            {
                "name": "orders",
                "paused": False,
                "number": 1,
                "storage": "diskqueue",
                "channels": [{"name": "billing", "paused": True, "number": 2, "pause": pause}],
            },
            {"name": "idle", "paused": True, "number": 5, "storage": "diskqueue", "pause": pause, "channels": []},
        ],
        "next_number": 1 + NUMBERS_AHEAD,
        "largest_msg_size": 1048576,
        "version": VERSION,
        "nsqd": {"crc": NO_FILE, "current": False},
    }
    engine.close()
    assert file_of(tmp_path)["next_number"] == 6


def test_a_topic_of_the_log_has_its_keys_too(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.publish("orders", [b"a", b"b"])
    settle(engine)
    engine.acts.create_channel("orders", "billing")
    settle(engine)
    engine.publish("orders", [b"c"])
    engine.acts.create_channel("orders", "late")
    settle(engine)
    engine.acts.pause_topic("orders")
    (topic,) = written(tmp_path)["topics"]
    assert topic.pop("pause")["depth"] == 0
    base = topic.pop("id_base")
    assert 0 < base < 1 << 62
    assert topic == {
        "name": "orders",
        "paused": True,
        "number": 1,
        "storage": "log",
        "reserved_offset": OFFSETS_MIN,
        "released": 3,
        "channels": [
            {"name": "billing", "paused": False, "number": 2, "start": 0},
            {"name": "late", "paused": False, "number": 3, "start": 3},
        ],
    }
    engine.acts.unpause_topic("orders")
    assert written(tmp_path)["topics"][0]["released"] is None
    engine.close()
    assert written(tmp_path)["topics"][0]["reserved_offset"] == 3


def test_everything_is_as_it_was_after_a_restart(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.acts.pause_topic("orders")
    engine.acts.pause_channel("orders", "billing")
    engine.close()
    before = file_of(tmp_path)
    again = open_engine(tmp_path)
    assert (again.catalog.topic("orders").paused, again.catalog.channel("orders", "billing").paused) == (True, True)
    again.close()
    counted = {"sequence": 0, "checksum": ""}
    assert file_of(tmp_path) | counted == before | counted


def test_numbers_are_never_given_twice(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.acts.delete_topic("orders")
    engine.close()
    engine = open_engine(tmp_path)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    assert (engine.catalog.topic("orders").number, engine.catalog.channel("orders", "billing").number) == (3, 4)


def test_a_next_number_that_is_too_low_is_not_believed() -> None:
    text = json.dumps({"topics": [{"name": "t", "number": 7, "channels": [{"name": "c", "number": 9}]}]})
    assert parse_topology(text.encode(), "f").next_number == 10


def test_nsqds_file_is_taken_over_and_its_numbers_are_on_disk_at_once(tmp_path: Path) -> None:
    nsqd = {
        "topics": [{"name": "orders", "paused": False, "channels": [{"name": "billing", "paused": True}]}],
        "version": "1.3.0",
    }
    put_file(tmp_path, nsqd, "nsqd.dat")
    engine = open_engine(tmp_path)
    assert engine.catalog.channel("orders", "billing").paused
    (topic,) = written(tmp_path)["topics"]
    assert (topic["number"], topic["channels"][0]["number"], topic["storage"]) == (1, 2, "diskqueue")


def test_topology_json_comes_before_nsqds_file(tmp_path: Path) -> None:
    put_file(tmp_path, {"topics": [{"name": "old"}]}, "nsqd.dat")
    put_file(tmp_path, {"topics": [{"name": "new"}]})
    assert list(open_engine(tmp_path).topics) == ["new"]


def test_no_file_is_an_empty_topology_and_numbers_are_promised_before_any_is_given(tmp_path: Path) -> None:
    assert load_topology(tmp_path) == Topology(nsqd_crc=NO_FILE)
    open_engine(tmp_path)
    found = load_topology(tmp_path)
    assert (found.topics, found.next_number, found.largest_msg_size) == ({}, 1 + NUMBERS_AHEAD, 1 << 20)


def test_numbers_given_before_a_kill_are_not_given_again(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.acts.create_topic("gone#ephemeral")
    engine.acts.create_topic("orders")
    numbers = [topic.number for topic in engine.topics.values()]
    again = open_engine(tmp_path)
    again.acts.create_topic("late")
    assert again.catalog.topic("late").number > max(numbers)


DAMAGED: dict[str, object] = {
    "empty": b"",
    "cut": b'{"topics": [{"name": "ord',
    "not text": b"\xff\xfe\x00",
    "a list": [],
    "topics without names": {"topics": [{}]},
    "topics that are names": {"topics": ["orders"]},
    "channels that are names": {"topics": [{"name": "orders", "channels": ["billing"]}]},
    "a number that is none": {"topics": [{"name": "orders", "number": "one"}]},
    "a number below 0": {"topics": [{"name": "orders", "number": -1}]},
    "a pause that is neither": {"topics": [{"name": "orders", "paused": "no"}]},
    "a topic twice": {"topics": [{"name": "orders"}, {"name": "orders"}]},
    "a channel twice": {"topics": [{"name": "orders", "channels": [{"name": "c"}, {"name": "c"}]}]},
    "a number twice": {"topics": [{"name": "a", "number": 1}, {"name": "b", "number": 1}]},
}


@pytest.mark.parametrize("document", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, document: object) -> None:
    path = put_file(tmp_path, document)
    before = path.read_bytes()
    runner = EngineRunner(
        engine_options(tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", data_path=str(tmp_path))
    )
    with pytest.raises(TopologyError, match=r"topology\.json can't be read: .*; it was left as it is"):
        runner.start()
    assert path.read_bytes() == before


def test_an_unknown_storage_kind_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    document = {"topics": [{"name": "plain"}, {"name": "orders", "storage": "cloud"}]}
    path = put_file(tmp_path, document)
    runner = EngineRunner(
        engine_options(tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", data_path=str(tmp_path))
    )
    with pytest.raises(StorageError, match="topic orders has storage kind 'cloud'"):
        runner.start()
    assert json.loads(path.read_bytes()) == document


def test_a_topic_without_a_storage_kind_is_a_disk_queue(tmp_path: Path) -> None:
    put_file(tmp_path, {"topics": [{"name": "orders"}]})
    assert open_engine(tmp_path).catalog.topic("orders").store.kind == "diskqueue"


def test_names_that_are_not_valid_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = ["../etc", "", "x" * 65, 7, "events#ephemeral", "good"]
    document = {"topics": [{"name": name, "channels": [{"name": "a b"}, {"name": "c"}]} for name in names]}
    put_file(tmp_path, document)
    engine = open_engine(tmp_path)
    assert {name: list(topic.channels) for name, topic in engine.topics.items()} == {"good": ["c"]}
    assert sum("name skipped" in record.message for record in caplog.records) == 6


@pytest.mark.parametrize("change", [channel_redriven(7, 8, None), released_upto(7, 3), channel_deleted(7, 8)])
def test_what_comes_behind_the_deletion_of_its_topic_changes_nothing(change: Change) -> None:
    """Their lines are on the disk by then: an error would stop the next start."""
    state = Topology()
    state.apply(change)
    assert state.topics == {}
