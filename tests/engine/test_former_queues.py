"""What a deletion left of a disk queue's files does not come back in a new topic or channel of that name."""

import shutil
from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.vocabulary import pieces
from queue_engine.vocabulary.errors import StorageError
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.engine import Client, make_engine, make_topic, settle

CHANNELS = ("a", "b", "c")
BODIES = [b"deleted %d" % number for number in range(10)]


def engine_on(directory: Path, files: FaultyFiles, *, after_ms: int = 0) -> Engine:
    """An engine whose messages are all on the disk. after_ms: how long after the first, so that it makes other ids."""
    clock = ManualClock()
    clock.advance(ms=after_ms)
    return make_engine(directory, clock, files=files, storage="diskqueue", mem_queue_size=0)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def engine(tmp_path: Path, files: FaultyFiles) -> Engine:
    engine = engine_on(tmp_path, files)
    make_topic(engine, "t", *CHANNELS)
    engine.publish("t", BODIES)
    settle(engine)
    engine.acts.pause_topic("t")
    engine.publish("t", [b"waits at the topic"])
    settle(engine)
    return engine


def left(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("t*.diskqueue.*")}


def is_new(engine: Engine) -> bool:
    """Whether topic and channels, created now, have what is published from now on and nothing else."""
    make_topic(engine, "t", *CHANNELS)
    assert engine.topics["t"].counts().depth == 0
    engine.publish("t", [b"new"])
    settle(engine)
    return all(Client(engine, "t", name, ready=100).bodies == [b"new"] for name in CHANNELS)


def kill_amid_deletion(engine: Engine, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_NS", 0)
    _, ticket = engine.acts.delete_topic("t")
    engine.turn()
    assert not ticket.done
    files.abandon()


def test_a_topic_created_again_after_a_kill_amid_its_deletion_has_nothing_of_the_former_one(
    engine: Engine, files: FaultyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_amid_deletion(engine, files, monkeypatch)
    before = left(tmp_path)
    assert before
    again = engine_on(tmp_path, FaultyFiles())
    assert left(tmp_path) == before, "a start alone changes nothing there: it may be nsqd's"
    assert is_new(again)
    assert {name for name in left(tmp_path) if name.endswith(".bad")} == {
        f"{name}.bad" for name in before if "meta" not in name
    }
    again.close()


def test_a_subscription_and_a_restart_bring_nothing_of_the_former_topic_back(
    engine: Engine, files: FaultyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_amid_deletion(engine, files, monkeypatch)
    again = engine_on(tmp_path, FaultyFiles())
    assert Client(again, "t", "c", ready=100).bodies == []
    again.publish("t", [b"new"])
    again.close()
    third = engine_on(tmp_path, FaultyFiles())
    assert Client(third, "t", "c", ready=100).bodies == [b"new"]
    third.close()


def test_who_wants_the_former_messages_renames_the_files_and_removes_the_meta_file(
    engine: Engine, files: FaultyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_amid_deletion(engine, files, monkeypatch)
    again = engine_on(tmp_path, FaultyFiles(), after_ms=1_000)
    make_topic(again, "t", "c")
    again.publish("t", [b"new"])
    again.close()
    for path in tmp_path.glob("t:c.diskqueue.*.bad"):
        path.rename(path.with_suffix(""))
    (tmp_path / "t:c.diskqueue.meta.dat").unlink()
    third = engine_on(tmp_path, FaultyFiles(), after_ms=2_000)
    assert Client(third, "t", "c", ready=100).bodies == [*BODIES, b"new"]
    third.close()


def test_a_channel_whose_files_the_disk_did_not_remove_is_created_without_their_messages(
    engine: Engine, files: FaultyFiles, tmp_path: Path
) -> None:
    files.fail("unlink", count=1_000)
    _, ticket = engine.acts.delete_channel("t", "a")
    settle(engine)
    assert ticket.error is not None
    files.heal()
    engine.acts.create_channel("t", "a")
    settle(engine)
    assert Client(engine, "t", "a", ready=100).bodies == []
    assert Client(engine, "t", "b", ready=100).bodies == BODIES
    engine.close()


@pytest.mark.parametrize("operation", ["rename", "sync"])
def test_a_name_is_not_given_again_while_the_disk_keeps_the_former_files_there(
    engine: Engine, files: FaultyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    kill_amid_deletion(engine, files, monkeypatch)
    disk = FaultyFiles()
    again = engine_on(tmp_path, disk)
    disk.fail(operation)
    error = refusal_of_topic(again)
    assert "disk queue t is not made: the files of a former one can't be set aside" in str(error)
    assert "t" not in again.topics
    disk.heal()
    assert is_new(again)
    again.close()


def refusal_of_topic(engine: Engine) -> Exception | None:
    try:
        return engine.acts.create_topic("t")[1].error
    except StorageError as exc:
        return exc


def test_a_kill_at_any_write_of_the_creation_brings_nothing_back(
    engine: Engine, files: FaultyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_amid_deletion(engine, files, monkeypatch)
    for writes in range(100):
        disk, place = FaultyFiles(), tmp_path / str(writes)
        shutil.copytree(tmp_path, place, ignore=shutil.ignore_patterns("[0-9]*"))
        again = engine_on(place, disk)
        disk.dies_after = writes
        try:
            make_topic(again, "t", *CHANNELS)
        except ProcessDiedError:
            pass
        is_over = bool(disk.dies_after)
        disk.abandon()
        last = engine_on(place, FaultyFiles())
        assert is_new(last), writes
        last.close()
        if is_over:
            break
    assert 3 < writes < 99
