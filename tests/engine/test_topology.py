"""topology.json: what it says, when it is written, and what happens when it can't be read or written."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from queue_engine.catalog import NUMBERS_AHEAD
from queue_engine.engine import Engine
from queue_engine.errors import StorageError, TopologyError
from queue_engine.service.runner import EngineRunner
from queue_engine.storage.background import Background, InlineBackground
from queue_engine.storage.files import Files
from queue_engine.storage.offset_reservation import OFFSETS_MIN
from queue_engine.topology import Topology, load_topology, parse_topology
from queue_engine.version import VERSION
from tests.support.background import HeldBackground
from tests.support.clock import ManualClock
from tests.support.engine import Client, settle
from tests.support.files import FaultyFiles
from tests.support.storage_kinds import engine_options


def open_engine(
    directory: Path,
    *,
    files: Files | None = None,
    background: Background | None = None,
    clock: ManualClock | None = None,
) -> Engine:
    engine = Engine(
        engine_options(data_path=str(directory)),
        clock=clock or ManualClock(),
        files=files or Files(),
        background=background or InlineBackground(),
    )
    engine.open()
    return engine


def written(directory: Path) -> Any:
    return json.loads((directory / "topology.json").read_bytes())


def put_file(directory: Path, document: object, name: str = "topology.json") -> Path:
    path = directory / name
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return path


def test_the_file_says_what_there_is_to_the_key(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.create_topic("orders")
    engine.create_channel("orders", "billing")
    engine.create_channel("orders", "tail#ephemeral")
    engine.create_topic("events#ephemeral")
    engine.create_topic("idle")
    engine.pause_channel("orders", "billing")
    engine.pause_topic("idle")
    assert written(tmp_path) == {
        "topics": [
            {
                "name": "orders",
                "paused": False,
                "number": 1,
                "storage": "diskqueue",
                "channels": [{"name": "billing", "paused": True, "number": 2}],
            },
            {"name": "idle", "paused": True, "number": 5, "storage": "diskqueue", "channels": []},
        ],
        "next_number": 6 + NUMBERS_AHEAD,
        "largest_msg_size": 1048576,
        "version": VERSION,
    }
    engine.close()
    assert written(tmp_path)["next_number"] == 6


def test_a_topic_of_the_log_has_its_keys_too(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.publish("orders", [b"a", b"b"])
    settle(engine)
    engine.create_channel("orders", "billing")
    settle(engine)
    engine.publish("orders", [b"c"])
    engine.create_channel("orders", "late")
    settle(engine)
    engine.pause_topic("orders")
    (topic,) = written(tmp_path)["topics"]
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
    engine.unpause_topic("orders")
    assert written(tmp_path)["topics"][0]["released"] is None
    engine.close()
    assert written(tmp_path)["topics"][0]["reserved_offset"] == 3


def test_everything_is_as_it_was_after_a_restart(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.create_topic("orders")
    engine.create_channel("orders", "billing")
    engine.pause_topic("orders")
    engine.pause_channel("orders", "billing")
    engine.close()
    before = (tmp_path / "topology.json").read_bytes()
    again = open_engine(tmp_path)
    assert (again.topic("orders").paused, again.channel("orders", "billing").paused) == (True, True)
    again.close()
    assert (tmp_path / "topology.json").read_bytes() == before


def test_numbers_are_never_given_twice(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.create_topic("orders")
    engine.create_channel("orders", "billing")
    engine.delete_topic("orders")
    engine.close()
    engine = open_engine(tmp_path)
    engine.create_topic("orders")
    engine.create_channel("orders", "billing")
    assert (engine.topic("orders").number, engine.channel("orders", "billing").number) == (3, 4)


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
    assert engine.channel("orders", "billing").paused
    (topic,) = written(tmp_path)["topics"]
    assert (topic["number"], topic["channels"][0]["number"], topic["storage"]) == (1, 2, "diskqueue")


def test_topology_json_comes_before_nsqds_file(tmp_path: Path) -> None:
    put_file(tmp_path, {"topics": [{"name": "old"}]}, "nsqd.dat")
    put_file(tmp_path, {"topics": [{"name": "new"}]})
    assert list(open_engine(tmp_path).topics) == ["new"]


def test_no_file_is_an_empty_topology_and_numbers_are_promised_before_any_is_given(tmp_path: Path) -> None:
    assert load_topology(str(tmp_path)) == Topology()
    open_engine(tmp_path)
    assert load_topology(str(tmp_path)) == Topology(next_number=1 + NUMBERS_AHEAD, largest_msg_size=1 << 20)


def test_numbers_given_before_a_kill_are_not_given_again(tmp_path: Path) -> None:
    background = HeldBackground()
    engine = open_engine(tmp_path, background=background)
    engine.create_topic("orders")  # its topology is never written
    again = open_engine(tmp_path)
    again.create_topic("orders")
    assert again.topic("orders").number > engine.topic("orders").number


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
    assert open_engine(tmp_path).topic("orders").store.kind == "diskqueue"


def test_names_that_are_not_valid_are_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = ["../etc", "", "x" * 65, 7, "events#ephemeral", "good"]
    document = {"topics": [{"name": name, "channels": [{"name": "a b"}, {"name": "c"}]} for name in names]}
    put_file(tmp_path, document)
    engine = open_engine(tmp_path)
    assert {name: list(topic.channels) for name, topic in engine.topics.items()} == {"good": ["c"]}
    assert sum("name skipped" in record.message for record in caplog.records) == 6


# Writing.


class RecordingFiles(Files):
    """Notes what is done to the disk, and to what."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self._paths: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def write_at(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self.done.append(f"write {self._name(self._paths[fd])}")
        return super().write_at(fd, data, position)

    def sync(self, fd: int) -> None:
        self.done.append(f"sync {self._name(self._paths[fd])}")
        super().sync(fd)

    def rename(self, source: str, target: str) -> None:
        self.done.append(f"rename {self._name(source)} {self._name(target)}")
        super().rename(source, target)

    def _name(self, path: str) -> str:
        name = Path(path).name
        return "temporary" if name.endswith(".tmp") else name


def test_a_write_is_a_synced_temporary_renamed_in_a_synced_directory(tmp_path: Path) -> None:
    files = RecordingFiles()
    engine = open_engine(tmp_path, files=files)
    files.done.clear()
    engine.create_topic("orders")
    assert files.done == [
        "write temporary",
        "sync temporary",
        "rename temporary topology.json",
        f"sync {tmp_path.name}",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["topology.json"]


def test_changes_during_a_write_share_the_next_one(tmp_path: Path) -> None:
    files, background = RecordingFiles(), HeldBackground()
    engine = open_engine(tmp_path, files=files, background=background)
    tickets = [engine.create_topic(f"t{number}")[1] for number in range(10)]
    assert not any(ticket.done for ticket in tickets)
    background.work()
    background.answer()
    assert [ticket.done for ticket in tickets] == [True] + [False] * 9
    assert [topic["name"] for topic in written(tmp_path)["topics"]] == ["t0"]
    background.finish()
    assert all(ticket.done and ticket.error is None for ticket in tickets)
    assert [topic["name"] for topic in written(tmp_path)["topics"]] == [f"t{number}" for number in range(10)]
    assert sum(done.startswith("rename") for done in files.done) == 3  # with that of the start


def test_who_asks_for_what_is_still_being_written_waits_too(tmp_path: Path) -> None:
    background = HeldBackground()
    engine = open_engine(tmp_path, background=background)
    engine.publish("orders", [b"first"])
    second = engine.publish("orders", [b"second"])
    settle(engine)
    asked = [engine.create_topic("orders")[1], Client(engine, "orders", "billing").ticket, second]
    late = Client(engine, "orders", "billing").ticket
    assert not any(ticket.done for ticket in [*asked, late])
    background.finish()
    assert all(ticket.done and ticket.error is None for ticket in [*asked, late])
    third = engine.publish("orders", [b"third"])
    settle(engine)
    background.finish()
    assert third.done


def test_when_the_disk_refuses_the_asker_is_told_and_a_later_write_makes_it_good(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = open_engine(tmp_path, files=files, clock=clock)
    (tmp_path / "topology.json").unlink()
    files.fail("write", errno.ENOSPC, count=2)
    _, ticket = engine.create_topic("orders")
    assert isinstance(ticket.error, TopologyError)
    assert "topology.json can't be written" in str(ticket.error)
    assert engine.health.startswith("NOK - ")
    assert list(tmp_path.iterdir()) == []
    # It exists in memory only: who asks for it next asks for the write too.
    assert engine.create_topic("orders")[1].error is not None
    assert engine.create_topic("orders")[1].error is None
    assert [topic["name"] for topic in written(tmp_path)["topics"]] == ["orders"]
    assert engine.health == "OK"


def test_a_write_that_failed_is_tried_again_by_itself(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = open_engine(tmp_path, files=files, clock=clock)
    engine.create_topic("orders")
    files.fail("rename", errno.EIO)
    assert engine.pause_topic("orders")[1].error is not None
    assert written(tmp_path)["topics"][0]["paused"] is False
    clock.advance(ms=1_000)
    engine.tick()
    assert written(tmp_path)["topics"][0]["paused"] is True
    assert engine.health == "OK"


def test_a_close_that_can_not_write_it_says_so(tmp_path: Path) -> None:
    files = FaultyFiles()
    engine = open_engine(tmp_path, files=files)
    engine.create_topic("orders")
    files.fail("rename", errno.EROFS, count=2)  # the log's checkpoint can be done without
    with pytest.raises(StorageError, match=r"topology\.json can't be written"):
        engine.close()
