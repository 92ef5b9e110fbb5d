"""The files of keys byte by byte: what is written is found again, and no damage makes a wrong answer."""

from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from crc32c import crc32c

from queue_engine.storage.commit_log.record import key_column
from queue_engine.storage.key_index import key_file
from queue_engine.storage.key_index.key_columns import crcs_of, sorted_entries
from queue_engine.storage.key_index.key_file import (
    HEADER_BYTES,
    KeyFileDamagedError,
    decode_head,
    encode_key_file,
    file_name,
    hash_of,
    offsets_in,
    range_of_name,
    read_slot,
    read_slots,
    rebased,
)
from queue_engine.storage.key_index.key_state import KeyState, decode_state, encode_state
from queue_engine.storage.key_index.offset_ranges import joined, within, without
from queue_engine.storage.key_index.topic_keys import WAITING_KEYS_MIN, Part
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.errors import NewerFormatError

FIXTURES = Path(__file__).parent.parent / "fixtures"
STATE = KeyState(12_345, {1: [(0, 40)], 70_000: [(5, 9), (20, 1 << 40)]}, {1: [(40, 50)]})


def file_of(keys: list[bytes], first: int = 100) -> bytes:
    part = Part(first, ByteBudget(0))
    for index, key in enumerate(keys):
        part.add(first + 2 * index, [key, b""], 64)
    part.end = first + 2 * len(keys)
    return part.content(7)


def found_in(data: bytes, key: bytes) -> list[int]:
    head = decode_head(data[:HEADER_BYTES])
    hash_ = hash_of(key)
    return offsets_in(head, read_slot(head, head.slot_of(hash_), lambda at, size: data[at : at + size]), hash_)


@pytest.mark.parametrize("count", [1, 2, 200, 5_000])
def test_each_key_is_found_at_all_its_offsets(count: int) -> None:
    keys = [b"key-%d" % (number % 997) for number in range(count)]
    data = file_of(keys)
    for key in keys[:997:7]:
        expected = [100 + 2 * index for index, one in enumerate(keys) if one == key]
        assert found_in(data, key) == expected
    assert found_in(data, b"another") == []
    head = decode_head(data[:HEADER_BYTES])
    whole = read_slots(head, 0, 1 << head.slot_bits, lambda at, size: data[at : at + size])
    assert len(whole) == count
    assert list(whole) == sorted(whole)


def test_entries_are_sorted_by_hash_and_offset_whatever_the_crc() -> None:
    rng = Random(3)
    crcs = [0, 1, 0xFFFFFFFF, 0x80000000, 0x1FFFFFFF, 0x20000000, *(rng.randrange(1 << 32) for _ in range(3_000))]
    crcs += crcs[:500]
    deltas = [rng.randrange(1 << 32) for _ in crcs[1:]] + [(1 << 32) - 1]
    expected = sorted(((crc & 0x1FFFFFFF | 0x20000000) << 32) | delta for crc, delta in zip(crcs, deltas, strict=True))
    assert list(sorted_entries(array("I", crcs), array("I", deltas))) == expected


def test_entries_of_another_base_name_the_same_offsets() -> None:
    entries = sorted_entries(array("I", [9, 5, 7]), array("I", [0, 0xFFFF, 0xFFFFFF00]))
    assert list(rebased(entries, 0xFF)) == [entry + 0xFF for entry in entries]
    assert rebased(array("Q"), 5) == array("Q")


def test_no_flipped_byte_makes_a_wrong_answer() -> None:
    keys = [b"key-%d" % number for number in range(600)]
    data = file_of(keys)
    good = {key: found_in(data, key) for key in keys[::150]}
    noticed = 0
    for at in range(len(data)):
        altered = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        for key, offsets in good.items():
            try:
                assert found_in(altered, key) == offsets, at
            except KeyFileDamagedError:
                noticed += 1
    assert noticed > len(data) // 2
    for size in range(0, len(data), 7):
        for key, offsets in list(good.items())[:3]:
            try:
                assert found_in(data[:size], key) == offsets
            except KeyFileDamagedError:
                noticed += 1


def test_slots_of_another_file_do_not_pass_for_its_own() -> None:
    one, other = file_of([b"key-%d" % number for number in range(600)]), file_of([b"k"] * 600, first=101)
    with pytest.raises(KeyFileDamagedError):
        found_in(one[:HEADER_BYTES] + other[HEADER_BYTES:], b"key-1")


def test_the_files_of_version_1_are_read_for_ever() -> None:
    data = (FIXTURES / "key_file_v1.bin").read_bytes()
    keys = [b"order-%d" % number for number in range(300)]
    assert data == file_of(keys)
    assert [found_in(data, key) for key in keys] == [[100 + 2 * index] for index in range(300)]
    state = (FIXTURES / "key_state_v1.bin").read_bytes()
    assert encode_state(STATE) == state
    assert decode_state(state) == STATE


def test_no_flipped_byte_makes_another_state() -> None:
    data = encode_state(STATE)
    for at in range(len(data)):
        for flip in range(1, 256):
            altered = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
            assert decode_state(altered) is None
        assert decode_state(data[:at]) is None
    assert decode_state(data + b"\0") is None


def test_a_newer_state_is_refused_and_a_newer_file_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_engine.storage.key_index.key_state.VERSION", 2)
    newer = encode_state(STATE)
    monkeypatch.undo()
    with pytest.raises(NewerFormatError, match=r"state has format version 2, .* up to 1\."):
        decode_state(newer)
    monkeypatch.setattr(key_file, "VERSION", 2)
    data = file_of([b"k"])
    monkeypatch.undo()
    with pytest.raises(KeyFileDamagedError, match="format version 2"):
        found_in(data, b"k")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "0-5-1.keys",
        file_name(0, 5, 1)[1:],
        file_name(5, 5, 1),
        file_name(0, 5, 1) + ".tmp",
        "a-b-c.keys",
        "²-³-1.keys",
    ],
)
def test_other_names_are_no_files_of_keys(name: str) -> None:
    assert range_of_name(name) is None
    assert range_of_name(file_name(3, 1 << 62, 9)) == (3, 1 << 62, 9)


def test_ranges() -> None:
    rng = Random(1)
    for _ in range(300):
        one = [tuple(sorted((rng.randrange(30), rng.randrange(30)))) for _ in range(rng.randrange(5))]
        other = [tuple(sorted((rng.randrange(30), rng.randrange(30)))) for _ in range(rng.randrange(5))]
        ones = {offset for first, end in one for offset in range(first, end)}
        others = {offset for first, end in other for offset in range(first, end)}
        for ranges, expected in (
            (joined(one), ones),
            (without(one, other), ones - others),
            (within(one, 5, 20), ones & set(range(5, 20))),
        ):
            assert {offset for first, end in ranges for offset in range(first, end)} == expected
            assert all(first[1] < then[0] for first, then in pairwise(ranges))
            assert all(first < end for first, end in ranges)


@pytest.mark.parametrize("room", [-1, 30_000, 1 << 20])
def test_large_batches_are_found_in_memory_and_in_their_file(room: int) -> None:
    """Some have their CRCs at once, for want of room, and others when they are written."""
    rng, part, expected = Random(room), Part(500, ByteBudget(room)), {}
    offset = 500
    for _ in range(60):
        count = rng.choice([1, 7, WAITING_KEYS_MIN, 400])
        keys = [b"ab" * rng.choice([1, 2, 3, 40]) + b"%d" % rng.randrange(600) for _ in range(count)]
        if count == 7:
            keys[3] = b""
        if count == 400 and rng.random() < 0.1:
            keys[1] = b"x" * 300
        part.add(offset, keys, 64, key_column(keys))
        for index, key in enumerate(keys):
            if key:
                expected.setdefault(key, []).append(offset + index)
        offset += count + rng.choice([0, 0, 5])
    part.end = offset
    assert len(part) == sum(map(len, expected.values()))
    assert (part.waiting_bytes > 0) == (room > 0)
    data = part.content(7)
    for key, offsets in expected.items():
        assert part.found(key) == offsets
        assert found_in(data, key) == offsets
    for none in (b"ab", b"abab" * 5, b"%d" % 7, b"x"):
        assert (part.found(none), found_in(data, none)) == ([], [])


@pytest.mark.parametrize("lengths", [[1], [16], [36], [64], [65], [255], [1, 255], range(1, 256), [7, 8, 9]])
def test_the_crcs_of_many_keys_are_those_of_each(lengths: Sequence[int]) -> None:
    rng = Random(len(lengths))
    for count in (1, 31, 32, 3_000):
        keys = [rng.randbytes(rng.choice(lengths)) for _ in range(count)]
        cuts = sorted(rng.randrange(count) for _ in range(3))
        batches = [one for one in (keys[first:end] for first, end in pairwise([0, *cuts, count])) if one]
        assert list(crcs_of([(len(one), key_column(one)) for one in batches])) == list(map(crc32c, keys))


def test_encoding_needs_no_entry_in_each_slot() -> None:
    part = Part(0, ByteBudget(1 << 20))
    part.add(0, [b"same"] * 1_000, 64)
    part.end = 1_000
    data = part.content(7)
    assert found_in(data, b"same") == list(range(1_000))
    assert encode_key_file(7, 0, 1_000, 0, []) != data
