"""Damaged files: cut, flipped or missing bytes cost only the messages that they belong to.

Three files of text messages of several sizes; the first message was read.
"""

import os
import random
import re
from pathlib import Path

import pytest

from queue_engine.storage.disk_queue.fifo.disk_queue import DiskQueue
from tests.support.stores.disk_queue import QueueFolder, put, records_of, take_all

PATTERN = re.compile(rb".{10}[0-9a-f]{16}", re.DOTALL)
TEXTS = [b"message %02d " % number + b"abcdefghij"[: number % 7] for number in range(18)]


def text_files(tmp_path: Path) -> dict[str, bytes]:
    """A small queue's files, by name."""
    folder = QueueFolder(tmp_path / "made", options={"max_bytes_per_file": 110})
    folder.path.mkdir()
    queue = folder.open()
    put(queue, *TEXTS)
    assert queue.take(1, 100) == TEXTS[:1]
    queue.close()
    made = {entry.name: entry.read_bytes() for entry in folder.path.iterdir()}
    assert len(made) == 4
    return made


def spots_of(made: dict[str, bytes]) -> dict[str, list[tuple[int, int, bytes]]]:
    """Where each message lies: by file, (start of its record, its end, the message)."""
    spots: dict[str, list[tuple[int, int, bytes]]] = {}
    for name in sorted(made):
        at = 0
        while "meta" not in name and at < len(made[name]):
            end = at + 4 + int.from_bytes(made[name][at : at + 4], "big")
            spots.setdefault(name, []).append((at, end, made[name][at + 4 : end]))
            at = end
    return spots


def reopened(tmp_path: Path, content: dict[str, bytes], **options: object) -> tuple[QueueFolder, DiskQueue]:
    """A queue on exactly these files; the directory is used again and again."""
    folder = QueueFolder(tmp_path / "used", options={"max_bytes_per_file": 110, **options})
    folder.path.mkdir(exist_ok=True)
    for entry in folder.path.iterdir():
        entry.unlink()
    for name, data in content.items():
        (folder.path / name).write_bytes(data)
    return folder, folder.open()


@pytest.mark.parametrize("has_meta", [True, False])
@pytest.mark.slow(reason="cuts files at every byte")
def test_cut_at_any_byte_each_file_gives_every_whole_message(tmp_path: Path, has_meta: bool) -> None:
    made = text_files(tmp_path)
    spots = spots_of(made)
    for name in spots:
        for size in range(len(made[name])):
            content = made | {name: made[name][:size]}
            if not has_meta:
                del content["q.diskqueue.meta.dat"]
            whole = [text for one in spots for _, end, text in spots[one] if one != name or end <= size]
            folder, queue = reopened(tmp_path, content)
            depth = queue.depth
            taken = take_all(queue, 4)
            assert depth == len(taken), (name, size)
            assert queue.depth == 0
            # The first was read; it comes again where the files no longer bear out that it was.
            assert taken in (whole, whole[1:]) if TEXTS[0] in whole else taken == whole, (name, size)
            if has_meta and name != "q.diskqueue.000000.dat" and size > 0:
                assert TEXTS[0] not in taken or size in [end for _, end, _ in spots[name]], (name, size)
            is_cut_within = size not in [0, *(end for _, end, _ in spots[name])]
            put(queue, b"goes on")
            queue.close()
            assert len(folder.bad_names) == is_cut_within, (name, size)
            assert take_all(folder.open()) == [b"goes on"]


def test_a_believed_depth_is_put_right_by_the_time_a_cut_file_is_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_engine.storage.disk_queue.fifo.disk_queue_recovery.VERIFY_BYTES_MAX", 0)
    made = text_files(tmp_path)
    spots = spots_of(made)
    name = "q.diskqueue.000001.dat"
    for size in range(len(made[name])):
        _, queue = reopened(tmp_path, made | {name: made[name][:size]})
        whole = [text for one in spots for _, end, text in spots[one] if one != name or end <= size]
        assert queue.depth == len(TEXTS) - 1
        assert take_all(queue, 4) == whole[1:]
        assert (queue.depth, queue.lost_count) == (0, len(TEXTS) - len(whole))


def flips(byte: int) -> list[int]:
    """What a byte may turn into when one bit of it is lost."""
    return [byte ^ 1 << bit for bit in range(8)]


def check_flips(tmp_path: Path, made: dict[str, bytes], expected: list[bytes], options: dict[str, object]) -> None:
    """Damage every byte of every data file: all messages but the one that it hits come unaltered."""
    for name, places in spots_of(made).items():
        for start, end, text in places:
            for at in [*range(start, start + 4), *range(start + 4, end, 3)]:
                in_length = at < start + 4
                for value in flips(made[name][at])[: None if in_length else 1]:
                    damaged = bytearray(made[name])
                    damaged[at] = value
                    _, queue = reopened(tmp_path, made | {name: bytes(damaged)}, **options)
                    depth = queue.depth
                    taken = take_all(queue, 4)
                    case = (name, start, at - start, value, taken)
                    assert depth == len(taken), case
                    others = [one for one in expected if one != text]
                    body = bytes(damaged[start + 4 : end])
                    claimed_end = start + 4 + int.from_bytes(damaged[start : start + 4], "big")
                    if text not in expected:  # it was read, and the meta file knows that
                        assert taken in (expected, [text, *expected]), case
                    elif in_length and claimed_end in [one_end for _, one_end, _ in places]:
                        # It ends exactly where another message does: without a checksum nobody can tell. The ones
                        # in between went into it, but no other is missing.
                        inside = [one for _, one_end, one in places if end < one_end <= claimed_end]
                        left = [one for one in others if one not in inside]
                        assert [one for one in taken if one in left] == left, case
                    elif not in_length:
                        assert taken == [body if one == text else one for one in expected], case
                    elif end == len(made[name]) and len(taken) == len(expected):
                        # Up to three bytes left over at a file's end can't be told from a torn record: it comes short.
                        short = next(one for one in taken if one not in others)
                        assert 0 < len(text) - len(short) < 4, case
                        assert [one for one in taken if one != short] == others, case
                    else:
                        assert taken == others, case


@pytest.mark.slow(reason="flips every byte")
def test_a_flipped_byte_in_any_place_hurts_its_own_message_alone(tmp_path: Path) -> None:
    check_flips(tmp_path, text_files(tmp_path), TEXTS[1:], {})


@pytest.mark.slow(reason="flips every byte")
def test_a_flipped_byte_among_stored_messages_hurts_its_own_message_alone(tmp_path: Path) -> None:
    # Bodies full of zeros look like lengths: the worst there is for finding the next message.
    chance = random.Random(7)
    messages = [
        (1_700_000_000_000_000_000 + chance.randrange(1 << 60)).to_bytes(8, "big")
        + (number % 3).to_bytes(2, "big")
        + b"%016x" % chance.randrange(1 << 64)
        + bytes(chance.randrange(40))
        for number in range(12)
    ]
    folder = QueueFolder(tmp_path / "made", options={"max_bytes_per_file": 300, "message_bytes_min": 26})
    folder.path.mkdir()
    queue = folder.open()
    put(queue, *messages)
    queue.close()
    made = {entry.name: entry.read_bytes() for entry in folder.path.iterdir()}
    check_flips(tmp_path, made, messages, {"message_bytes_min": 26, "pattern": PATTERN})


def test_a_flipped_byte_in_the_meta_file_loses_nothing(tmp_path: Path) -> None:
    made = text_files(tmp_path)
    name = "q.diskqueue.meta.dat"
    for at in range(len(made[name])):
        for value in {*flips(made[name][at]), 0, 0xFF, *b"0123456789,\n-"} - {made[name][at]}:
            damaged = bytearray(made[name])
            damaged[at] = value
            _, queue = reopened(tmp_path, made | {name: bytes(damaged)})
            depth = queue.depth
            taken = take_all(queue, 4)
            assert depth == len(taken), bytes(damaged)
            assert taken in (TEXTS, TEXTS[1:]), bytes(damaged)


def test_several_damaged_messages_in_a_file_cost_no_others_where_the_pattern_is_known(tmp_path: Path) -> None:
    messages = [bytes(8) + b"\x00\x01" + b"%016x" % number + b"body" for number in range(20)]
    data = bytearray(records_of(messages)[0])
    for number in (3, 4, 9, 15, 19):
        data[number * 34 + 2] = 0x33
    folder = QueueFolder(tmp_path, options={"message_bytes_min": 26, "pattern": PATTERN})
    folder.data_path(0).write_bytes(data)
    queue = folder.open()
    assert queue.depth == 15
    assert take_all(queue, 2) == [one for number, one in enumerate(messages) if number not in (3, 4, 9, 15, 19)]
    assert queue.depth == 0
    queue.close()
    assert folder.bad_names == ["000000.dat.bad"]
    assert (folder.path / "q.diskqueue.000000.dat.bad").read_bytes() == data


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_file_costs_its_own_messages(tmp_path: Path, number: int) -> None:
    made = text_files(tmp_path)
    spots = spots_of(made)
    name = f"q.diskqueue.{number:06d}.dat"
    left = [text for one in spots for _, _, text in spots[one] if one != name]
    content = {one: data for one, data in made.items() if one != name}
    folder, queue = reopened(tmp_path, content)
    assert queue.depth in (len(left), len(left) - 1)
    assert take_all(queue) in (left, left[1:])
    assert queue.depth == 0

    # And while it runs.
    folder, queue = reopened(tmp_path, made)
    folder.data_path(number).unlink()
    assert take_all(queue) == [text for text in left if text != TEXTS[0]]
    assert queue.depth == 0
    put(queue, b"goes on")
    assert take_all(queue) == [b"goes on"]


def test_a_file_set_aside_is_kept_when_the_queue_is_emptied(tmp_path: Path) -> None:
    folder = QueueFolder(tmp_path, options={"max_bytes_per_file": 100})
    queue = folder.open()
    put(queue, *[b"x" * 20] * 9)
    os.truncate(folder.data_path(0), 60)
    queue.take(2, 1000)
    put(queue, b"more")
    assert queue.take(1, 1000) == [b"x" * 20]
    queue.empty()
    assert folder.names == ["000000.dat.bad"]
