"""When topology.json and its changes are written, and what happens when the disk refuses."""

import errno
import os
from pathlib import Path

import pytest

from queue_engine.engine.topology import change_log
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import OutcomeUnknownError, StorageError, TopologyError
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, settle
from tests.support.stores.background import HeldBackground
from tests.support.topology import CHANGES, file_of, open_engine, written


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


# Before topology.json, which has its checksum.
FOR_NSQD = ["write temporary", "sync temporary", "rename temporary nsqd.dat", "sync {directory}"]
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
    is_nsqds = engine.topics["orders"].store.kind == "diskqueue"
    engine.close()
    steps = [*(FOR_NSQD if is_nsqds else ()), *MERGE]
    assert files.done == [step.format(directory=tmp_path.name) for step in steps]
    assert [topic["name"] for topic in file_of(tmp_path)["topics"]] == ["orders"]
    names = {"formats.json", "topology.json", "topology.json.previous", CHANGES, f"{CHANGES}.previous"}
    names |= {"nsqd.dat"} if is_nsqds else set()
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
