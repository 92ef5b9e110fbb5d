"""topology.json: what it says, when it is written, and what happens when it can't be read or written."""

import errno
import json
import os
from pathlib import Path

import pytest

from queue_engine.disk.background import Background, Backgrounds, InlineBackground
from queue_engine.disk.files import Files
from queue_engine.engine import Engine
from queue_engine.log_store.offset_reservation import OFFSETS_MIN
from queue_engine.service.runner import EngineRunner
from queue_engine.topology import change_log
from queue_engine.topology.files import encode_entry
from queue_engine.topology.topology import FORMAT, Topology, parse_topology
from queue_engine.topology_promises import NUMBERS_AHEAD
from queue_engine.vocabulary.errors import OutcomeUnknownError, StorageError, TopologyError
from queue_engine.vocabulary.version import VERSION
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, settle
from tests.support.storage_kinds import engine_options
from tests.support.stores.background import HeldBackground
from tests.support.topology import file_of, load_topology, written

FIXTURES = Path(__file__).parent.parent.parent / "storage" / "fixtures"


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
        backgrounds=Backgrounds.of(background or InlineBackground()),
    )
    engine.open()
    return engine


def put_file(directory: Path, document: object, name: str = "topology.json") -> Path:
    path = directory / name
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return path


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
                "channels": [{"name": "billing", "paused": True, "number": 2}],
            },
            {"name": "idle", "paused": True, "number": 5, "storage": "diskqueue", "channels": []},
        ],
        "next_number": 1 + NUMBERS_AHEAD,
        "largest_msg_size": 1048576,
        "version": VERSION,
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
    assert load_topology(tmp_path) == Topology()
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

    def sync_data(self, fd: int) -> None:
        self.done.append(f"sync data {self._name(self._paths[fd])}")
        super().sync_data(fd)

    def rename(self, source: str, target: str) -> None:
        self.done.append(f"rename {self._name(source)} {self._name(target)}")
        super().rename(source, target)

    def _name(self, path: str) -> str:
        name = Path(path).name
        return "temporary" if name.endswith(".tmp") else name


CHANGES = "topology.changes"
MERGE = [
    "write temporary",
    "sync temporary",
    "rename temporary topology.json.previous",
    "sync {directory}",
    "write temporary",
    "sync temporary",
    "rename temporary topology.json",
    "sync {directory}",
    "write temporary",
    "sync temporary",
    "rename temporary topology.changes.previous",
    "sync {directory}",
    "write temporary",
    "sync temporary",
    "rename temporary topology.changes",
    "sync {directory}",
]


def test_a_change_is_one_synced_line_and_a_clean_stop_merges_by_synced_renames(tmp_path: Path) -> None:
    files = RecordingFiles()
    engine = open_engine(tmp_path, files=files)
    before = (tmp_path / "topology.json").read_bytes()
    files.done.clear()
    engine.acts.create_topic("orders")
    assert files.done == [f"write {CHANGES}", f"sync data {CHANGES}"]
    assert (tmp_path / "topology.json").read_bytes() == before
    files.done.clear()
    engine.close()
    assert files.done == [step.format(directory=tmp_path.name) for step in MERGE]
    assert [topic["name"] for topic in file_of(tmp_path)["topics"]] == ["orders"]
    names = {"topology.json", "topology.json.previous", CHANGES, f"{CHANGES}.previous"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / CHANGES).read_bytes().count(b"\n") == 1, "nothing but the header"


def test_changes_during_a_write_share_the_next_one(tmp_path: Path) -> None:
    files, background = RecordingFiles(), HeldBackground()
    engine = open_engine(tmp_path, files=files, background=background)
    tickets = [engine.acts.create_topic(f"t{number}")[1] for number in range(10)]
    assert not any(ticket.done for ticket in tickets)
    files.done.clear()
    background.work()
    background.answer()
    assert [ticket.done for ticket in tickets] == [True] + [False] * 9
    assert [topic["name"] for topic in written(tmp_path)["topics"]] == ["t0"]
    background.finish()
    assert all(ticket.done and ticket.error is None for ticket in tickets)
    assert [topic["name"] for topic in written(tmp_path)["topics"]] == [f"t{number}" for number in range(10)]
    assert files.done.count(f"sync data {CHANGES}") == 2


def test_who_asks_for_what_is_still_being_written_waits_too(tmp_path: Path) -> None:
    background = HeldBackground()
    engine = open_engine(tmp_path, background=background)
    first = engine.publish("orders", [b"first"])
    second = engine.publish("orders", [b"second"])
    settle(engine)
    asked = [engine.acts.create_topic("orders")[1], Client(engine, "orders", "billing").ticket, first, second]
    late = Client(engine, "orders", "billing").ticket
    assert not any(ticket.done for ticket in [*asked, late])
    assert engine.topics == {}, "it exists when it is on the disk"
    while background.is_busy or engine.has_work:
        background.finish()
        settle(engine)
    assert all(ticket.done and ticket.error is None for ticket in [*asked, late])
    assert engine.catalog.channel("orders", "billing").backlog.depth == 2


def test_when_the_disk_refuses_nothing_is_created_and_the_next_try_is_one_of_its_own(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = open_engine(tmp_path, files=files, clock=clock)
    files.fail("write", errno.ENOSPC, count=2)
    _, ticket = engine.acts.create_topic("orders")
    assert isinstance(ticket.error, TopologyError)
    assert "topology.json can't be written" in str(ticket.error)
    assert engine.stats.health.startswith("NOK - ")
    assert engine.topics == {}
    assert engine.acts.create_topic("orders")[1].error is not None
    assert engine.acts.create_topic("orders")[1].error is None
    assert [topic["name"] for topic in written(tmp_path)["topics"]] == ["orders"]
    assert engine.stats.health == "OK"


def test_health_returns_by_itself_and_what_was_refused_stays_refused(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = open_engine(tmp_path, files=files, clock=clock)
    engine.acts.create_topic("orders")
    files.fail("write", errno.EIO)
    assert engine.acts.pause_topic("orders")[1].error is not None
    assert not engine.catalog.topic("orders").paused
    clock.advance(ms=1_000)
    engine.tick()
    assert engine.stats.health == "OK"
    assert written(tmp_path)["topics"][0]["paused"] is False


def test_a_close_that_can_not_write_it_says_so(tmp_path: Path) -> None:
    files = FaultyFiles()
    engine = open_engine(tmp_path, files=files)
    engine.acts.create_topic("orders")
    files.fail("rename", errno.EROFS, count=20)
    with pytest.raises(StorageError, match=r"topology\.json can't be written"):
        engine.close()
    assert [topic["name"] for topic in written(tmp_path)["topics"]] == ["orders"]


# What is found at a start.


def killed(directory: Path, *topics: str) -> None:
    """A process that made these topics, and was killed."""
    engine = open_engine(directory)
    for topic in topics:
        engine.acts.create_topic(topic)


def names_of(directory: Path) -> list[str]:
    return [topic["name"] for topic in written(directory)["topics"]]


@pytest.mark.parametrize("cut_bytes", [1, 2, 30, 60])
def test_an_unfinished_line_at_the_end_was_not_answered_and_is_cut(tmp_path: Path, cut_bytes: int) -> None:
    killed(tmp_path, "orders", "late")
    path = tmp_path / CHANGES
    path.write_bytes(path.read_bytes()[:-cut_bytes])
    engine = open_engine(tmp_path)
    assert list(engine.topics) == ["orders"]
    engine.acts.create_topic("anew")
    assert names_of(tmp_path) == ["orders", "anew"]


def test_a_damaged_line_before_another_stops_the_start_and_nothing_is_changed(tmp_path: Path) -> None:
    killed(tmp_path, "orders", "late")
    path = tmp_path / CHANGES
    data = bytearray(path.read_bytes())
    data[data.index(b"orders")] ^= 1
    path.write_bytes(data)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()}
    with pytest.raises(TopologyError, match=r"topology\.changes is damaged at byte \d+"):
        open_engine(tmp_path)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()} == before


def test_every_single_flipped_bit_of_the_file_stops_the_start(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.close()
    content = (tmp_path / "topology.json").read_bytes()
    right = parse_topology(content, "f")
    for at in range(len(content)):
        for bit in range(8):
            altered = bytearray(content)
            altered[at] ^= 1 << bit
            try:
                found = parse_topology(bytes(altered), "f")
            except TopologyError:
                continue
            assert found.is_checked, f"bit {bit} of byte {at} makes it a file of the old format"
            assert found == right, f"bit {bit} of byte {at}"


def test_an_altered_file_stops_the_start_and_names_its_predecessor_and_the_command(tmp_path: Path) -> None:
    killed(tmp_path, "orders")
    open_engine(tmp_path).close()
    path = tmp_path / "topology.json"
    altered = path.read_bytes().replace(b'"number": 1', b'"number": 7')
    assert altered != path.read_bytes()
    path.write_bytes(altered)
    with pytest.raises(TopologyError) as stop:
        open_engine(tmp_path)
    for part in ("is not what was written", "topology.json.previous", "penstock topology"):
        assert part in str(stop.value)
    assert path.read_bytes() == altered


def test_its_predecessor_put_in_its_place_tells_the_same(tmp_path: Path) -> None:
    killed(tmp_path, "orders")
    engine = open_engine(tmp_path)
    engine.acts.create_topic("late")
    engine.acts.pause_topic("late")
    engine.close()
    before = written(tmp_path)
    open_engine(tmp_path)  # and killed
    (tmp_path / "topology.json").write_bytes((tmp_path / "topology.json.previous").read_bytes())
    after = written(tmp_path)
    assert [(topic["name"], topic["number"], topic["paused"]) for topic in after["topics"]] == [
        (topic["name"], topic["number"], topic["paused"]) for topic in before["topics"]
    ]
    assert list(open_engine(tmp_path).topics) == ["orders", "late"]


@pytest.mark.parametrize("name", ["topology.json", CHANGES])
def test_a_missing_file_stops_the_start(tmp_path: Path, name: str) -> None:
    killed(tmp_path, "orders")
    (tmp_path / name).unlink()
    with pytest.raises(TopologyError, match=rf"{name} is missing"):
        open_engine(tmp_path)


def test_files_of_two_data_directories_do_not_belong_together(tmp_path: Path) -> None:
    for one in ("a", "b"):
        (tmp_path / one).mkdir()
        killed(tmp_path / one, "orders")
    (tmp_path / "a" / CHANGES).write_bytes((tmp_path / "b" / CHANGES).read_bytes())
    identities = [file_of(tmp_path / one)["identity"] for one in ("a", "b")]
    with pytest.raises(TopologyError, match=f"{identities[0]}.*{identities[1]}.*don't belong together"):
        open_engine(tmp_path / "a")


def test_a_file_without_a_checksum_is_accepted_once(tmp_path: Path) -> None:
    old = put_file(tmp_path, (FIXTURES / "topology_v1.json").read_bytes())
    content = old.read_bytes()
    engine = open_engine(tmp_path)
    assert {name: list(topic.channels) for name, topic in engine.topics.items()} == {
        "orders": ["billing", "late"],
        "plain": [],
    }
    assert engine.catalog.channel("orders", "late").paused
    assert engine.catalog.topic("orders").number == 1
    assert (tmp_path / "topology.json.previous").read_bytes() == content
    engine.close()
    put_file(tmp_path, content)
    with pytest.raises(TopologyError, match="has no checksum, and there was one before"):
        open_engine(tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 3, "version": "0.9.0"}, r"format 3 \(written by version 0\.9\.0\).*up to 2"),
        ({"version": "9.9"}, rf"written by version 9\.9, and this is version {VERSION}"),
    ],
)
def test_a_newer_file_is_refused_naming_both_versions(tmp_path: Path, change: dict[str, object], told: str) -> None:
    path = put_file(tmp_path, {"topics": [{"name": "orders"}], **change})
    content = path.read_bytes()
    with pytest.raises(TopologyError, match=told):
        open_engine(tmp_path)
    assert path.read_bytes() == content


def test_a_newer_file_of_changes_is_refused_naming_both_versions(tmp_path: Path) -> None:
    killed(tmp_path, "orders")
    (tmp_path / CHANGES).write_bytes(encode_entry({"format": 7, "identity": "x", "after": 0}))
    with pytest.raises(TopologyError, match="format 7, and this version knows formats up to 1"):
        open_engine(tmp_path)


# Outcomes that nobody knows.


def test_a_failed_sync_leaves_the_outcome_open_and_refuses_what_follows_until_the_disk_has_it(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = open_engine(tmp_path, files=files, clock=clock)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    files.fail("sync_data", count=1)
    files.fail("rename", count=2)
    error = engine.acts.delete_channel("orders", "billing")[1].error
    assert isinstance(error, OutcomeUnknownError)
    assert str(error).startswith("outcome unknown: ")
    assert list(engine.catalog.topic("orders").channels) == ["billing"], "it goes on as before"
    refused = engine.acts.pause_topic("orders")[1].error
    assert isinstance(refused, TopologyError)
    assert "nothing is created, deleted or changed until" in str(refused)
    for _ in range(3):
        clock.advance(ms=1_000)
        engine.tick()
    assert engine.stats.health == "OK"
    (topic,) = written(tmp_path)["topics"]
    assert [channel["name"] for channel in topic["channels"]] == ["billing"]
    assert engine.acts.pause_topic("orders")[1].error is None
    again = open_engine(tmp_path)
    assert (list(again.catalog.topic("orders").channels), again.catalog.topic("orders").paused) == (["billing"], True)


def test_many_changes_are_merged_while_it_runs_and_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "MERGE_BYTES_MIN", 4_000)
    engine = open_engine(tmp_path)
    for number in range(100):
        assert engine.acts.create_topic(f"t{number}")[1].error is None
    assert len(file_of(tmp_path)["topics"]) > 10
    assert (tmp_path / CHANGES).stat().st_size < 3 * (tmp_path / "topology.json").stat().st_size
    assert list(open_engine(tmp_path).topics) == [f"t{number}" for number in range(100)]


class RefusedChanges(FaultyFiles):
    """topology.changes can't be opened for writing while `is_refusing`."""

    is_refusing = True

    def open(self, path: str, flags: int) -> int:
        if self.is_refusing and path.endswith(CHANGES) and flags & os.O_RDWR:
            raise OSError(errno.EIO, "refused", path)
        return super().open(path, flags)


def test_offsets_are_reserved_once_the_disk_takes_it_again(tmp_path: Path) -> None:
    first = open_engine(tmp_path)
    first.acts.create_topic("orders", storage="log")
    first.publish("orders", [b"one"])
    settle(first)
    first.close()  # after which nothing is reserved ahead
    files, background, clock = RefusedChanges(), HeldBackground(), ManualClock()
    engine = open_engine(tmp_path, files=files, background=background, clock=clock)
    assert "topology.json can't be written" in engine.stats.health
    files.is_refusing = False
    for _ in range(3):
        clock.advance(ms=1_000)
        engine.tick()
        background.finish()
    assert engine.stats.health == "OK"
    published = engine.publish("orders", [b"two"])
    settle(engine)
    background.finish()
    assert (published.done, published.error) == (True, None)
    files.abandon()
