"""Batch keys: the file's bytes, how many keys are remembered, and for how long."""

from pathlib import Path

import pytest

from queue_engine.storage.log_store import batch_keys
from queue_engine.storage.log_store.batch_keys import (
    ENTRY_BYTES,
    HEADER_BYTES,
    KEYS_AGE_NS,
    BatchKeys,
    KeyedRecord,
    decode_batch_keys,
    digest_of,
    encode_batch_keys,
)
from queue_engine.vocabulary.errors import NewerFormatError
from tests.support.clock import ManualClock
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.batch_keys import KeysBench, file_of, filled, key_of

FIXTURE = Path(__file__).parent.parent / "fixtures" / "batch_keys_v1.bin"

# The file.


def test_the_first_version_is_read_for_ever() -> None:
    data = FIXTURE.read_bytes()
    entries, durable = decode_batch_keys(data)
    assert durable == 2
    assert encode_batch_keys([one for one in entries if one is not None]) == data
    keys = BatchKeys("/log", files=SimulatedFiles.holding({"/log/batch_keys": data}), clock=ManualClock())
    assert keys.open({7}, is_expected=True) == ""
    known = keys.find(7, key_of(1), digest_of([b"a", b"b"], [b"", b"k"]), 2)
    assert known is not None
    assert (known.first_offset, known.count, len(keys)) == (40, 2, 1)


def test_no_altered_bit_is_believed() -> None:
    data = FIXTURE.read_bytes()
    good, _ = decode_batch_keys(data)
    for at in range(len(data)):
        for bit in range(8):
            altered = bytearray(data)
            altered[at] ^= 1 << bit
            entries, durable = decode_batch_keys(bytes(altered))
            if at < HEADER_BYTES:
                assert durable is None
                assert entries == good
            else:
                index = (at - HEADER_BYTES) // ENTRY_BYTES
                assert [one is None for one in entries] == [index == 0, index == 1]


def test_a_newer_version_is_refused() -> None:
    bench = filled()
    data = bytearray(file_of(bench.files))
    data[4] = 2
    data[60:64] = batch_keys.crc32c(bytes(data[:60])).to_bytes(4, "big")
    with pytest.raises(NewerFormatError, match=r"batch_keys has format version 2, .* up to 1\."):
        decode_batch_keys(bytes(data))


def test_a_digest_tells_where_bodies_and_keys_begin() -> None:
    contents = [
        ([b"ab"], None),
        ([b"a", b"b"], None),
        ([b"a", b"b"], [b"", b"k"]),
        ([b"a", b"b"], [b"k", b""]),
        ([b"b"], [b"a"]),
        ([b"", b"ab"], None),
    ]
    assert len({digest_of(bodies, keys) for bodies, keys in contents}) == len(contents)
    assert digest_of([b"a", b"b"], [b"", b""]) == digest_of([b"a", b"b"], None)


# Bounds.


def test_the_oldest_keys_go_when_there_are_too_many() -> None:
    keys = BatchKeys("/log", files=SimulatedFiles(), clock=ManualClock(), keys_max=100)
    for number in range(1, 151):
        keys.put(KeyedRecord(1, key_of(number), number, 1, ManualClock().time_ns(), number, 1), bytes(16))
        assert len(keys) <= 100
    known = [number for number in range(1, 151) if keys.find(1, key_of(number), bytes(16), 1) is not None]
    assert known == list(range(151 - len(known), 151))
    assert len(known) >= 90


def test_old_keys_go_and_the_file_is_made_anew_when_most_of_it_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_keys, "_USELESS_MAX", 10)
    bench = filled()
    assert isinstance(bench.files, SimulatedFiles)
    for number in range(20, 40):
        bench.written(number, b"x")
    bench.checkpoint()
    assert len(file_of(bench.files)) == HEADER_BYTES + 28 * ENTRY_BYTES
    bench.clock.advance(ms=KEYS_AGE_NS // 1_000_000)
    for number in (100, 101):
        bench.written(number, b"y")
    bench.checkpoint()
    assert len(file_of(bench.files)) == HEADER_BYTES + 2 * ENTRY_BYTES
    assert (bench.offset(1, b"other"), bench.offset(100, b"y")) == (None, 36)
    bench.written(1, b"again")
    again = KeysBench(bench.files.after_kill(), 1, clock=bench.clock)
    assert (again.offset(1, b"again"), again.offset(100, b"y"), again.offset(2, b"2", b"more")) == (38, 36, None)


@pytest.mark.parametrize("name", ["checkpoint", "batch_keys"])
def test_when_the_whole_log_is_read_the_last_use_of_a_key_counts_and_old_ones_stay_forgotten(name: str) -> None:
    bench = filled()
    bench.clock.advance(ms=KEYS_AGE_NS // 1_000_000 + 1_000)
    bench.checkpoint()
    bench.written(7, b"y")
    bench.checkpoint()
    disk = bench.files
    assert isinstance(disk, SimulatedFiles)
    disk.unlink(f"/log/{name}")
    again = KeysBench(disk.after_kill(), 1, clock=bench.clock)
    assert again.offset(7, b"y") == 16
    assert again.offset(1, b"1", b"more") is None
    assert len(again.log.batch_keys) == 1


def test_keys_of_deleted_topics_go_at_once_and_are_not_read_back() -> None:
    bench = filled()
    bench.make(2)
    bench.written(1, b"two", topic=2)
    bench.topics[1].delete()
    assert len(bench.log.batch_keys) == 1
    bench.checkpoint()
    disk = bench.files
    assert isinstance(disk, SimulatedFiles)
    again = KeysBench(disk.after_kill(), 2)
    assert len(again.log.batch_keys) == 1
    assert again.offset(1, b"two", topic=2) == 0
