"""A start whose log and topology.json don't belong together removes nothing, says what it found, and stops."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from queue_engine.engine.engine import Engine
from queue_engine.engine.topology.files import encode_entry
from queue_engine.engine.topology.log_guard import LogGuard, UnknownTopicsError
from queue_engine.engine.topology.repair import TopologyRepair, lines_of
from queue_engine.engine.topology.topology import checksum_of
from queue_engine.storage.disk.checked_line import encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import NewerTopologyError, StorageError, TopologyError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle
from tests.support.topology import file_of, unpack_897736b, written

SEGMENT_BYTES = 1 << 16
# Without the trash, which would keep a deleted topic and its number for a day.
SMALL = {"log_segment_bytes": SEGMENT_BYTES, "max_msg_size": 2_000, "max_body_size": 4_000, "trash_age_ms": 0}
MESSAGES = 400


def made(directory: Path, *, is_clean: bool = True, topics: tuple[str, ...] = ("orders", "clicks")) -> Engine:
    """A data directory whose log has several segments of messages that nobody consumed."""
    engine = make_engine(directory, ManualClock(), **SMALL)
    for topic in topics:
        engine.acts.create_topic(topic)
        engine.acts.create_channel(topic, "c")
        for number in range(MESSAGES // 10):
            engine.publish(topic, [b"%d %d" % (number, one) + bytes(200) for one in range(10)])
            settle(engine)
    if is_clean:
        engine.close()
    return engine


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def edited(directory: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """A topology.json that was written like this."""
    document = file_of(directory)
    edit(document)
    document["checksum"] = checksum_of(document)
    (directory / "topology.json").write_bytes(orjson.dumps(document))


def stop_of(directory: Path, **options: object) -> str:
    """What a start says; nothing on the disk is changed by it."""
    before = contents(directory)
    with pytest.raises(StorageError) as stop:
        make_engine(directory, ManualClock(), **SMALL, **options)
    assert contents(directory) == before
    return str(stop.value)


def depth(engine: Engine, topic: str) -> int:
    settle(engine)
    return engine.catalog.channel(topic, "c").backlog.depth


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_without_topology_json_nothing_of_the_log_is_removed(tmp_path: Path, is_clean: bool) -> None:
    made(tmp_path, is_clean=is_clean)
    for name in ("topology.json", "topology.changes", "topology.json.previous", "topology.changes.previous"):
        (tmp_path / name).unlink(missing_ok=True)
    assert "topology.json is missing beside the log of data directory" in stop_of(tmp_path)
    (tmp_path / "log" / "identity").unlink()
    told = stop_of(tmp_path)
    assert f"number 1: {MESSAGES} messages, offsets 0 to {MESSAGES - 1}, " in told
    assert "number 3: " in told


@pytest.mark.parametrize("has_checkpoint", [True, False], ids=["with a checkpoint", "without"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_number_that_nobody_knows_stops_the_start(tmp_path: Path, is_clean: bool, has_checkpoint: bool) -> None:
    made(tmp_path, is_clean=is_clean)
    if not is_clean:
        make_engine(tmp_path, ManualClock(), **SMALL).close()
    if not has_checkpoint:
        (tmp_path / "log" / "checkpoint").unlink()
    edited(tmp_path, lambda document: document["topics"][0].update(number=77))
    told = stop_of(tmp_path)
    assert f"number 1: {MESSAGES} messages, offsets 0 to {MESSAGES - 1}, " in told
    assert "number 3" not in told


def test_a_topic_of_the_log_that_is_read_as_a_disk_queue_stops_the_start(tmp_path: Path) -> None:
    made(tmp_path)
    edited(tmp_path, lambda document: document["topics"][0].update(storage="diskqueue"))
    assert "number 1: " in stop_of(tmp_path)


def test_an_option_lets_unknown_topics_go_and_new_numbers_lie_above_them(tmp_path: Path) -> None:
    made(tmp_path)
    edited(tmp_path, lambda document: document.update(topics=document["topics"][1:], next_number=3))
    edited(tmp_path, lambda document: document["topics"][0].update(number=2))
    edited(tmp_path, lambda document: document["topics"][0]["channels"][0].update(number=1))
    engine = make_engine(tmp_path, ManualClock(), **SMALL, drop_unknown_topics=True)
    engine.acts.create_topic("new")
    assert engine.catalog.topic("new").number > 3
    assert set(written(tmp_path)["deleted"]) == {1, 3}
    engine.close()
    make_engine(tmp_path, ManualClock(), **SMALL)  # without the option, from now on


def test_numbers_of_deleted_topics_are_kept_until_the_log_has_nothing_of_them(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = made(tmp_path, is_clean=False)
    engine.acts.delete_topic("clicks")
    assert written(tmp_path)["deleted"] == [3]
    again = make_engine(tmp_path, clock, **SMALL)
    assert written(tmp_path)["deleted"] == [3]
    for _ in range(3):
        pass_time(again, clock, 11_000)
    assert written(tmp_path)["deleted"] == [3], "orders keeps the segments"
    client = Client(again, "orders", "c", ready=2_500)
    for _ in range(60):
        again.publish("orders", [bytes(1_500)] * 10)
        settle(again)
        client.finish(*[one.id for one in client.sink.received])
        client.sink.received.clear()
        pass_time(again, clock, 6_000)
    assert written(tmp_path)["deleted"] == []
    for disk_has_checkpoint in (True, False):
        if not disk_has_checkpoint:
            (tmp_path / "log" / "checkpoint").unlink()
        assert "orders" in make_engine(tmp_path, clock, **SMALL).topics


@pytest.mark.parametrize("keeps_directory", [True, False], ids=["an empty directory", "no directory"])
def test_a_log_that_is_not_mounted_stops_the_start(tmp_path: Path, keeps_directory: bool) -> None:
    made(tmp_path)
    shutil.move(tmp_path / "log", tmp_path / "elsewhere")
    if keeps_directory:
        (tmp_path / "log").mkdir()
    told = stop_of(tmp_path)
    assert "holds no segment: a volume that is not mounted, perhaps" in told
    if keeps_directory:
        (tmp_path / "log").rmdir()
    shutil.move(tmp_path / "elsewhere", tmp_path / "log")
    assert depth(make_engine(tmp_path, ManualClock(), **SMALL), "orders") == MESSAGES


def test_a_log_of_another_data_directory_stops_the_start_and_both_are_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made(tmp_path / name)
    shutil.rmtree(tmp_path / "a" / "log")
    shutil.copytree(tmp_path / "b" / "log", tmp_path / "a" / "log")
    identities = [file_of(tmp_path / name)["identity"] for name in ("a", "b")]
    told = stop_of(tmp_path / "a")
    assert all(identity in told for identity in identities)
    assert "don't belong together" in told


def test_segments_of_another_data_directory_stop_the_start_and_both_are_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made(tmp_path / name)
    shutil.rmtree(tmp_path / "a" / "log" / "segments")
    shutil.copytree(tmp_path / "b" / "log" / "segments", tmp_path / "a" / "log" / "segments")
    told = stop_of(tmp_path / "a")
    assert all(file_of(tmp_path / name)["identity"] in told for name in ("a", "b"))
    assert f"{tmp_path / 'a' / 'log' / 'segments'} is of data directory" in told
    TopologyRepair(str(tmp_path / "a"), Files()).accept()
    make_engine(tmp_path / "a", ManualClock(), **SMALL).close()
    make_engine(tmp_path / "a", ManualClock(), **SMALL).close()


@pytest.mark.parametrize("keeps_directory", [True, False], ids=["an empty directory", "no directory"])
def test_segments_alone_that_are_not_mounted_stop_the_start(tmp_path: Path, keeps_directory: bool) -> None:
    made(tmp_path)
    segments = tmp_path / "log" / "segments"
    shutil.move(segments, tmp_path / "elsewhere")
    if keeps_directory:
        segments.mkdir()
    assert f"{segments} has no identity: it is another's, or a volume is not mounted there" in stop_of(tmp_path)
    if keeps_directory:
        segments.rmdir()
    shutil.move(tmp_path / "elsewhere", segments)
    assert depth(make_engine(tmp_path, ManualClock(), **SMALL), "orders") == MESSAGES


def test_segments_of_a_log_that_was_not_told_of_their_identity_get_it_at_the_next_start(tmp_path: Path) -> None:
    made(tmp_path)
    identity = file_of(tmp_path)["identity"]
    (tmp_path / "log" / "identity").write_bytes(encode_line({"version": 1, "identity": identity}))
    (tmp_path / "log" / "segments" / "identity").unlink()
    assert depth(make_engine(tmp_path, ManualClock(), **SMALL), "orders") == MESSAGES
    (tmp_path / "log" / "segments" / "identity").unlink()
    assert "has no identity" in stop_of(tmp_path)


def test_a_log_without_an_identity_is_another_s_once_it_had_one(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "log" / "identity").unlink()
    assert "has no identity" in stop_of(tmp_path)


def test_log_and_topology_get_one_identity_with_the_first_topic_of_the_log(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock(), **SMALL)
    assert not written(tmp_path)["has_log"]
    engine.acts.create_topic("orders")
    assert written(tmp_path)["has_log"]
    assert LogGuard(str(tmp_path), Files()).identity() == written(tmp_path)["identity"]


@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_a_data_directory_of_before_gets_them_at_its_first_start(tmp_path: Path, state: str) -> None:
    unpack_897736b(tmp_path)
    directory = tmp_path / state
    engine = make_engine(directory, ManualClock(time_ns=1_790_000_100_000_000_000), **SMALL)
    found = written(directory)
    assert (found["has_log"], found["unlisted_below"] > 0) == (True, True)
    assert LogGuard(str(directory), Files()).identity() == found["identity"]
    engine.acts.create_topic("new")
    assert engine.catalog.topic("new").number >= found["unlisted_below"]


def test_a_newer_identity_is_refused_naming_both_versions(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "log" / "identity").write_bytes(encode_line({"version": 4, "identity": "x"}))
    told = stop_of(tmp_path)
    assert "4" in told
    assert "1" in told


# Mending.


def repair(directory: Path) -> TopologyRepair:
    return TopologyRepair(str(directory), Files())


def test_check_says_what_a_start_would(tmp_path: Path) -> None:
    made(tmp_path)
    assert repair(tmp_path).check().complaints == ()
    edited(tmp_path, lambda document: document.update(topics=document["topics"][1:]))
    (complaint,) = repair(tmp_path).check().complaints
    assert f"number 1: {MESSAGES} messages" in complaint
    state = repair(tmp_path).check().state
    assert state is not None
    assert any(line.startswith("clicks  number 3, log") for line in lines_of(state))


def test_a_file_edited_by_hand_is_accepted(tmp_path: Path) -> None:
    made(tmp_path)
    path = tmp_path / "topology.json"
    path.write_bytes(path.read_bytes().replace(b'"name": "clicks"', b'"name": "renamed"'))
    stop_of(tmp_path)
    repair(tmp_path).accept()
    engine = make_engine(tmp_path, ManualClock(), **SMALL)
    assert depth(engine, "renamed") == MESSAGES


def test_a_file_that_an_older_version_wrote_again_is_accepted(tmp_path: Path) -> None:
    made(tmp_path)
    document = file_of(tmp_path)
    for key in ("format", "checksum", "identity", "has_log", "sequence", "deleted", "unlisted_below"):
        del document[key]
    (tmp_path / "topology.json").write_bytes(orjson.dumps(document))
    assert "penstock topology accept" in stop_of(tmp_path)
    repair(tmp_path).accept()
    assert depth(make_engine(tmp_path, ManualClock(), **SMALL), "orders") == MESSAGES


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_damaged_file_is_rebuilt_whole_from_its_predecessor(tmp_path: Path, is_clean: bool) -> None:
    made(tmp_path, is_clean=is_clean)
    (tmp_path / "topology.json").write_bytes(b"{")
    repair(tmp_path).rebuild()
    engine = make_engine(tmp_path, ManualClock(), **SMALL)
    assert [depth(engine, topic) for topic in ("orders", "clicks")] == [MESSAGES] * 2


def test_without_any_file_topics_are_rebuilt_from_the_log_and_wait_for_a_first_channel(tmp_path: Path) -> None:
    made(tmp_path)
    for name in ("topology.json", "topology.changes", "topology.json.previous", "topology.changes.previous"):
        (tmp_path / name).unlink()
    told = repair(tmp_path).rebuild().report
    assert any("recovered-3" in sentence for sentence in told)
    engine = make_engine(tmp_path, ManualClock(), **SMALL)
    assert sorted(engine.topics) == ["recovered-1", "recovered-3"]
    assert engine.catalog.topic("recovered-1").store.depth == MESSAGES
    client = Client(engine, "recovered-1", "c", ready=2_500)
    assert len(client.bodies) == MESSAGES
    engine.acts.create_topic("new")
    assert engine.catalog.topic("new").number > 3


def test_a_log_that_is_gone_can_be_accepted_as_gone(tmp_path: Path) -> None:
    made(tmp_path)
    shutil.rmtree(tmp_path / "log")
    stop_of(tmp_path)
    repair(tmp_path).accept()
    engine = make_engine(tmp_path, ManualClock(), **SMALL)
    assert depth(engine, "orders") == 0
    engine.publish("orders", [b"new"])
    assert depth(engine, "orders") == 1
    engine.close()
    assert depth(make_engine(tmp_path, ManualClock(), **SMALL), "orders") == 1


def test_nothing_is_accepted_that_is_no_topology(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "topology.json").write_bytes(b"{")
    with pytest.raises(TopologyError):
        repair(tmp_path).accept()


@pytest.mark.parametrize("verb", ["accept", "rebuild"])
@pytest.mark.parametrize("name", ["topology.json", "topology.changes"])
def test_files_of_a_newer_version_are_not_repaired(tmp_path: Path, verb: str, name: str) -> None:
    made(tmp_path)
    if name == "topology.json":
        edited(tmp_path, lambda document: document.update(format=99))
    else:
        (tmp_path / name).write_bytes(encode_entry({"format": 99, "identity": "x", "after": 0}))
    before = contents(tmp_path)
    with pytest.raises(NewerTopologyError, match=rf"{name} has format 99") as refused:
        getattr(repair(tmp_path), verb)()
    assert "penstock topology" not in str(refused.value)
    assert contents(tmp_path) == before


def test_unknown_topics_are_an_error_of_their_own(tmp_path: Path) -> None:
    made(tmp_path)
    edited(tmp_path, lambda document: document.update(topics=[]))
    with pytest.raises(UnknownTopicsError) as stop:
        make_engine(tmp_path, ManualClock(), **SMALL)
    assert [topic.number for topic in stop.value.unknown] == [1, 3]
