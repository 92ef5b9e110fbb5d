"""Trouble with the file of batch keys, or with a record that has one: what the file or the log still has is known."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.log_store.batch_keys import (
    ENTRY_BYTES,
    HEADER_BYTES,
    decode_batch_keys,
)
from queue_engine.vocabulary.errors import BatchKeyConflictError
from tests.support.disks.files import FaultyFiles
from tests.support.stores.batch_keys import (
    EVERY_OFFSET,
    KeysBench,
    file_of,
    filled,
    key_of,
    offsets,
    put_file,
)
from tests.support.stores.log_store import everything


def test_a_torn_end_of_the_file_is_cut_and_the_log_tells_the_rest() -> None:
    bench = filled()
    bench.checkpoint()
    whole = file_of(bench.files)
    assert len(whole) == HEADER_BYTES + 8 * ENTRY_BYTES
    for left in range(1, 2 * ENTRY_BYTES + 1):
        disk = filled().files.after_kill()
        put_file(disk, whole[:-left] + bytes(left if left % 2 else 0))
        again = KeysBench(disk, 1)
        assert again.opening.log.damages == []
        assert offsets(again) == EVERY_OFFSET
        assert len(file_of(disk)) == HEADER_BYTES + (7 if left <= ENTRY_BYTES else 6) * ENTRY_BYTES
        again.checkpoint()
        again.written(9, b"9", b"more")
        again.checkpoint()
        entries, durable = decode_batch_keys(file_of(disk))
        assert [one is None for one in entries] == [False] * 9
        assert durable == 8


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data[:HEADER_BYTES] + b"\xff" + data[HEADER_BYTES + 1 :],
        lambda data: b"\xff" + data[1:],
        lambda data: data[: HEADER_BYTES + 3 * ENTRY_BYTES],
        lambda data: b"",
        lambda data: None,
    ],
    ids=["an entry", "the header", "cut off", "empty", "missing"],
)
def test_a_damaged_file_is_told_set_aside_and_made_anew_from_the_log(harm: Callable[[bytes], bytes | None]) -> None:
    bench = filled()
    disk = bench.files.after_kill()
    damaged = harm(file_of(disk))
    put_file(disk, damaged)
    again = KeysBench(disk, 1)
    told = again.opening.log.damages[-1].sentence()
    assert f"/log/batch_keys is {'missing' if damaged is None else 'damaged'}" in told
    assert "no message lost" in told
    assert offsets(again) == EVERY_OFFSET
    assert disk.read_whole("/log/batch_keys.bad", 1 << 20) == damaged
    for ended in (disk.after_power_cut(Random(1)), disk.after_kill()):
        third = KeysBench(ended, 1)
        assert third.opening.log.damages == []
        assert offsets(third) == EVERY_OFFSET


def removed_segments(directory: Path) -> KeysBench:
    """The first of three batches with keys is in a segment that is gone."""
    bench = KeysBench(FaultyFiles(), directory=str(directory))
    topic = bench.make(1)
    channel = topic.open_channel("c", 1)
    for number in range(1, 4):
        bench.written(number, b"%d" % number, b"more")
        for _ in range(20):
            topic.append(topic.make_batch([b"x" * 100]))
            bench.log.end_turn()
        list(everything(channel))
        bench.log.end_turn()
    for _ in range(3):
        bench.checkpoint()
    assert bench.log.segments.list[0].position > 0
    assert topic.oldest_offset > 22
    return bench


def test_a_key_outlives_its_segment(tmp_path: Path) -> None:
    bench = removed_segments(tmp_path)
    assert isinstance(bench.files, FaultyFiles)
    bench.files.abandon()
    again = KeysBench(FaultyFiles(), 1, directory=str(tmp_path))
    assert again.offset(1, b"1", b"more") == 0
    assert key_of(1) not in again.in_log()
    again.log.close()


def test_of_a_damaged_file_the_other_keys_outlive_their_segments_too(tmp_path: Path) -> None:
    bench = removed_segments(tmp_path)
    assert isinstance(bench.files, FaultyFiles)
    bench.files.abandon()
    path = tmp_path / "batch_keys"
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 2 * ENTRY_BYTES + 30] ^= 1
    path.write_bytes(data + data[HEADER_BYTES : HEADER_BYTES + ENTRY_BYTES])  # a synced one behind it
    again = KeysBench(FaultyFiles(), 1, directory=str(tmp_path))
    assert [again.offset(number, b"%d" % number, b"more") for number in (1, 2)] == [0, 22]
    again.log.close()


def test_no_segment_goes_whose_keys_the_file_has_not(tmp_path: Path) -> None:
    bench = KeysBench(FaultyFiles(), directory=str(tmp_path))
    assert isinstance(bench.files, FaultyFiles)
    topic = bench.make(1)
    channel = topic.open_channel("c", 1)
    bench.files.fail("rename", errno.ENOSPC, count=1_000)
    bench.written(1, b"1", b"more")
    for _ in range(60):
        topic.append(topic.make_batch([b"x" * 100]))
        bench.log.end_turn()
    list(everything(channel))
    for _ in range(20):
        bench.checkpoint()
    assert len(bench.log.segments.list) > 3
    assert bench.log.segments.list[0].position == 0
    assert bench.log.batch_keys.first_unwritten_position == 128
    assert bench.log.retention.punchable() == []
    bench.files.heal()
    for _ in range(3):
        bench.checkpoint()
    assert bench.log.segments.list[0].position > 0
    bench.files.abandon()
    again = KeysBench(FaultyFiles(), 1, directory=str(tmp_path))
    assert again.offset(1, b"1", b"more") == 0
    again.log.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_what_could_not_be_written_is_written_with_the_next_checkpoint(tmp_path: Path, operation: str) -> None:
    bench = KeysBench(FaultyFiles(), directory=str(tmp_path), policy=SyncPolicy.INTERVAL)
    bench.make(1)
    bench.written(1, b"1")
    bench.checkpoint()
    bench.written(2, b"2")
    bench.clock.advance(ms=200)
    bench.log.tick(bench.clock.monotonic_ns())
    files = bench.files
    assert isinstance(files, FaultyFiles)
    write = bench.log.batch_keys.start_write(bench.log.log.synced_end)
    assert write is not None
    files.fail(operation, errno.ENOSPC)
    assert isinstance(write.finish(), OSError)
    bench.log.batch_keys.settle(write)
    bench.log.batch_keys.settle(write)
    assert bench.log.batch_keys.first_unwritten_position is not None
    inode = os.stat(tmp_path / "batch_keys").st_ino
    bench.written(3, b"3")
    bench.checkpoint()
    bench.checkpoint()
    entries, _ = decode_batch_keys(file_of(files, str(tmp_path)))
    assert [one[0][4:] for one in entries if one is not None] == [key_of(1), key_of(2), key_of(3)]
    is_new = os.stat(tmp_path / "batch_keys").st_ino != inode
    assert is_new == (operation == "sync"), "what a failed sync left is not to be trusted"
    bench.log.close()


def test_a_key_whose_record_is_damaged_is_known_for_as_many_messages() -> None:
    bench = filled()
    disk = bench.files.after_kill()
    place = bench.topics[1].queue.locate(12)
    assert place is not None
    segment = bench.log.segments.segment_of(place[0])
    assert segment is not None
    disk.replace(segment.path, harmed(disk.read_whole(segment.path, 1 << 20)))
    again = KeysBench(disk, 1)
    assert again.offset(7, b"anything", b"of two") == 12
    with pytest.raises(BatchKeyConflictError):
        again.offset(7, b"one")
    assert offsets(again) == EVERY_OFFSET


def harmed(segment: bytes) -> bytes:
    """The body of key 7's first message altered."""
    at = segment.index(b"%016x7" % ((1 << 40) + 12)) + 16
    return segment[:at] + b"X" + segment[at + 1 :]
