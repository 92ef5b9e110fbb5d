"""What a record promises: it comes back as it was, or says what of it can't be trusted."""

import random
import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.storage.commit_log.record import (
    HAS_BATCH_KEY,
    HAS_DUE,
    HAS_KEYS,
    HEADER_BYTES,
    KIND_SEAL,
    REPLAYED,
    SEAL_BYTES,
    Record,
    RecordLostError,
    decode_record,
    encode_record,
    encode_seal,
    key_column,
    message_ids,
    offsets_of,
    parse_header,
    parse_trailer,
    ranges_of,
)
from queue_engine.vocabulary.errors import NewerFormatError
from queue_engine.vocabulary.run import Batch, Run
from tests.support.stores.log_formats import record_v1

SALT = 0x1122334455667788
BASE = 0x0123456789ABC000
TIME_NS = 1_700_000_000_000_000_000
FIXTURE = Path(__file__).parent.parent / "fixtures" / "record_v1.bin"


def encoded(
    bodies: list[bytes], *, version: int = 2, position: int = 4_096, first_offset: int = 7, **options: object
) -> bytes:
    batch = Batch(TIME_NS, message_ids(BASE, first_offset, len(bodies)), bodies)
    if version != 1 and options.get("keys") is not None:
        options["keys"] = key_column(options["keys"])
    parts = (record_v1 if version == 1 else encode_record)(
        batch,
        position=position,
        salt=SALT,
        topic_number=3,
        first_offset=first_offset,
        durable_upto=1_000,
        **options,
    )
    return b"".join(parts)


def decoded(data: bytes) -> Record:
    return decode_record(data, position=4_096, salt=SALT)


def bodies_of(run: Run) -> list[bytes]:
    return [run.frame_at(index)[34:] for index in range(len(run))]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20), st.booleans(), st.booleans(), st.data())
@settings(max_examples=100)
def test_what_was_encoded_comes_back(bodies: list[bytes], has_due: bool, has_keys: bool, data: st.DataObject) -> None:
    dues = [TIME_NS + index if index % 2 else 0 for index in range(len(bodies))] if has_due else None
    keys = [b"k" * (index % 4) for index in range(len(bodies))] if has_keys else None
    one = encoded(bodies, dues_ns=dues, keys=keys, flags=REPLAYED, batch_key=b"x" * 16)
    batch = Batch(TIME_NS, message_ids(BASE, 7, len(bodies)), bodies)
    record = decoded(one)
    assert record.header.size == len(one)
    assert record.header.flags == REPLAYED | HAS_BATCH_KEY | HAS_DUE * has_due | HAS_KEYS * has_keys
    assert record.header[2:8] == (3, len(bodies), 7, TIME_NS, 1_000, b"x" * 16)
    start = data.draw(st.integers(0, len(bodies) - 1))
    stop = data.draw(st.integers(start + 1, len(bodies)))
    run = record.run(start, stop, BASE)
    assert run.frames == batch.run().slice(start, stop).frames
    assert run.ids == batch.ids[start:stop]
    assert bodies_of(run) == bodies[start:stop]
    assert [record.body_at(index) for index in range(len(bodies))] == bodies
    assert list(record.dues() or ()) == (dues or [])
    assert [record.key_at(index) for index in range(len(bodies))] == (keys or [b""] * len(bodies))


VERSIONS = pytest.mark.parametrize("version", [1, 2])


@VERSIONS
def test_no_byte_can_change_unnoticed_and_only_the_message_that_has_it_is_lost(version: int) -> None:
    bodies = [b"one", b"", b"three" * 5]
    one = encoded(bodies, version=version, dues_ns=[0, TIME_NS, 0])
    whole = decoded(one).run(0, 3, BASE)
    lost_bodies = 0
    for at in range(len(one)):
        for changed in (one[at] ^ 1, 0, 0xFF):
            if changed == one[at]:
                continue
            record = decoded(one[:at] + bytes([changed]) + one[at + 1 :])
            assert len(record.damaged) <= 1, at
            lost_bodies += len(record.damaged)
            assert list(record.dues() or ()) == [0, TIME_NS, 0] or (version == 1 and record.dues() is None), at
            for index in set(range(3)) - record.damaged:
                # Headers of frames are made anew: what a consumer gets is what it would have got.
                assert record.run(index, index + 1, BASE).frames == whole.frame_at(index), at
    assert lost_bodies > len(b"".join(bodies))


@pytest.mark.parametrize("block_bytes", [1, 50, 4_096])
@pytest.mark.parametrize("sizes", [[7] * 40, [300] * 20, [9_000, 3, 0, 5_000], [10_000]])
@pytest.mark.slow(reason="damages every block")
def test_no_block_costs_more_than_the_messages_that_it_touches(sizes: list[int], block_bytes: int) -> None:
    bodies = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    keys = [b"key%d" % index for index in range(len(sizes))]
    one = encoded(bodies, keys=keys, dues_ns=[TIME_NS] * len(bodies))
    starts: list[int] = []
    at = one.index(b"key0key1" if len(keys) > 1 else b"key0") + len(b"".join(keys))
    for size in sizes:
        starts.append(at + 34)
        at += 34 + size
    step = max(1, block_bytes // 64)
    for at in range(1 - block_bytes, len(one), step):
        begin, end = max(at, 0), min(at + block_bytes, len(one))
        touched = {
            index
            for index, (start, size) in enumerate(zip(starts, sizes, strict=True))
            if start < end and begin < start + max(size, 1)
        }
        data = one[:begin] + b"\xa5" * (end - begin) + one[end:]
        try:
            record = decoded(data)
        except RecordLostError:
            assert touched == set(range(len(sizes))), at
            continue
        assert record.damaged <= touched, at
        for index in set(range(len(sizes))) - record.damaged:
            assert record.body_at(index) == bodies[index], at
            # With damage that a table is out of, keys and due times are there, too.
            assert record.key_at(index) == keys[index], at
            assert (record.dues() or ())[index] == TIME_NS, at


def test_a_record_whose_header_and_trailer_are_damaged_is_lost() -> None:
    one = bytearray(encoded([b"a"]))
    one[10] ^= 1
    assert decoded(bytes(one)).body_at(0) == b"a"
    one[-10] ^= 1
    with pytest.raises(RecordLostError, match="4096"):
        decoded(bytes(one))


def test_tables_and_messages_damaged_together_lose_the_batch_and_alter_nothing() -> None:
    one = bytearray(encoded([b"a", b"b"]))
    one[HEADER_BYTES] ^= 1
    at = one.index(b"a", HEADER_BYTES + 16 + 34)
    one[at] ^= 1
    assert decoded(bytes(one)).damaged == {0}
    one[-HEADER_BYTES - 1] ^= 1
    assert decoded(bytes(one)).damaged == {0, 1}
    one[at] ^= 1
    assert decoded(bytes(one)).damaged == set()


def test_a_record_of_a_newer_version_is_refused_and_neither_damaged_nor_the_end() -> None:
    fields = bytearray(encoded([b"a"])[4 : HEADER_BYTES - 4])
    fields[0] = 9
    crc = crc32c(bytes(fields), crc32c(struct.pack(">QQ", SALT, 4_096))).to_bytes(4, "big")
    one = b"PREC" + bytes(fields) + crc + bytes(200)
    for read in (decoded, lambda data: parse_header(data, 0, position=4_096, salt=SALT)):
        with pytest.raises(NewerFormatError, match=r"position 4096 has format version 9, .* up to 2"):
            read(one)


@pytest.mark.parametrize(("position", "salt"), [(4_097, SALT), (4_096, SALT + 1)])
def test_a_record_holds_at_its_own_place_in_its_own_segment_only(position: int, salt: int) -> None:
    one = encoded([b"a"])
    assert parse_header(one, 0, position=4_096, salt=SALT) is not None
    assert parse_header(one, 0, position=position, salt=salt) is None
    with pytest.raises(RecordLostError):
        decode_record(one, position=position, salt=salt)


def test_zeros_are_no_record_and_nothing_too_short_is() -> None:
    assert parse_header(bytes(200), 0, position=0, salt=0) is None
    one = encoded([b"a"])
    assert parse_header(one[: HEADER_BYTES - 1], 0, position=4_096, salt=SALT) is None
    with pytest.raises(RecordLostError):
        decoded(one[:HEADER_BYTES])


def test_a_seal_is_a_record_without_messages() -> None:
    seal = encode_seal(position=50, salt=SALT, durable_upto=49, time_ns=TIME_NS)
    assert len(seal) == SEAL_BYTES
    header = parse_header(seal, 0, position=50, salt=SALT)
    assert header is not None
    assert (header.kind, header.size, header.durable_upto, header.count) == (KIND_SEAL, SEAL_BYTES, 49, 0)
    assert parse_trailer(seal, HEADER_BYTES, position=50, salt=SALT) == header


def test_ids_are_base_plus_offset_and_lead_back_to_it() -> None:
    ids = message_ids(BASE, 4_090, 10)
    assert ids == [b"%016x" % (BASE + offset) for offset in range(4_090, 4_100)]
    assert offsets_of(ids, BASE) == list(range(4_090, 4_100))
    assert offsets_of(ids[:1], BASE) == [4_090]
    assert message_ids(BASE, 4_095, 1) == [b"%016x" % (BASE + 4_095)]


@given(st.sets(st.integers(0, 60), min_size=1), st.randoms(use_true_random=False))
def test_ranges_are_the_offsets_in_order_whatever_order_they_came_in(offsets: set[int], order: random.Random) -> None:
    mixed = list(offsets)
    order.shuffle(mixed)
    ranges = ranges_of(mixed)
    assert [offset for first, count in ranges for offset in range(first, first + count)] == sorted(offsets)
    ends = [first + count for first, count in ranges]
    assert all(first > end for (first, _), end in zip(ranges[1:], ends, strict=False))


@VERSIONS
def test_a_record_of_each_version_is_read_for_ever(version: int) -> None:
    data = FIXTURE.with_name(f"record_v{version}.bin").read_bytes()
    record = decoded(data)
    assert record.header.version == version
    assert record.header.size == len(data)
    assert bodies_of(record.run(0, 2, BASE)) == [b"first", b"second"]
    assert list(record.dues() or ()) == [0, TIME_NS + 5]
    assert (record.key_at(0), record.key_at(1)) == (b"key", b"")
    again = encoded([b"first", b"second"], version=version, dues_ns=[0, TIME_NS + 5], keys=[b"key", b""])
    assert again == data
