"""Segment files: found by position, trusted by their header, read without a thought for descriptors."""

import errno
from pathlib import Path

import pytest
from crc32c import crc32c

from queue_engine.storage.commit_log.record import RecordLostError, encode_record, message_ids
from queue_engine.storage.commit_log.segment import (
    SEGMENT_HEADER_BYTES,
    LogSegments,
    SegmentInfo,
    encode_segment_head,
    head_bytes_of,
    parse_segment_head,
    segment_name,
)
from queue_engine.vocabulary.errors import NewerFormatError, StorageError
from queue_engine.vocabulary.run import Batch
from tests.support.disks.files import FaultyFiles
from tests.support.stores.log_formats import segment_header_v1

FIXTURE = Path(__file__).parent.parent / "fixtures" / "segment_v1.bin"
FIXTURE_V2 = FIXTURE.with_name("segment_v2.bin")


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def segments(tmp_path: Path, files: FaultyFiles) -> LogSegments:
    loaded = LogSegments(str(tmp_path / "segments"), files)
    loaded.load()
    return loaded


def test_segments_are_found_again_in_order(segments: LogSegments, files: FaultyFiles) -> None:
    assert segments.list == []
    second = segments.create(1_000, 2_000, 77)
    first = segments.create(0, 1_000, 76)
    again = LogSegments(segments.directory, files)
    again.load()
    assert [(one.position, one.segment_bytes, one.salt, one.created_ns) for one in again.list] == [
        (0, 1_000, first.salt, 76),
        (1_000, 2_000, second.salt, 77),
    ]
    assert [one.is_sealed for one in again.list] == [True, False]


def test_a_position_is_in_the_segment_that_covers_it(segments: LogSegments) -> None:
    first, third = segments.create(0, 1_000, 0), segments.create(2_000, 1_000, 0)
    found = [segments.segment_of(position) for position in (0, 999, 1_000, 2_000, 2_999, 3_000)]
    assert found == [first, first, None, third, third, None]


def test_salts_differ(segments: LogSegments) -> None:
    assert len({segments.create(position, 1_000, 0).salt for position in range(0, 8_000, 1_000)}) == 8


def test_a_removed_segment_is_gone_for_good(segments: LogSegments, files: FaultyFiles) -> None:
    one = segments.create(0, 1_000, 0)
    segments.read(0, 10)
    segments.remove(one)
    assert (segments.list, files.listdir(segments.directory), files.open_fds) == ([], [], set())
    with pytest.raises(StorageError, match="position 0"):
        segments.read(0, 10)


def test_the_directory_is_synced_for_every_name_made_or_removed(segments: LogSegments, files: FaultyFiles) -> None:
    files.calls.clear()
    one = segments.create(0, 1_000, 0)
    assert files.calls == ["open", "create", "write", "sync", "close", "open", "sync", "close"]
    files.calls.clear()
    segments.remove(one)
    assert files.calls == ["unlink", "open", "sync", "close"]


@pytest.mark.parametrize("operation", ["create", "write", "sync", "close"])
def test_a_segment_that_could_not_be_made_is_not_there_and_can_be_made_later(
    segments: LogSegments, files: FaultyFiles, operation: str
) -> None:
    files.fail(operation, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        segments.create(0, 1_000, 0)
    assert segments.list == []
    segments.create(0, 1_000, 0)
    again = LogSegments(segments.directory, files)
    again.load()
    assert [one.position for one in again.list] == [0]


def known_of(segment: SegmentInfo | None) -> tuple[int, int, int, int, int] | None:
    if segment is None:
        return None
    return segment.position, segment.segment_bytes, segment.salt, segment.created_ns, segment.head_bytes


@pytest.mark.parametrize("segment_bytes", [2_000, 64 << 10])
def test_every_damaged_byte_of_a_head_is_noticed_and_costs_nothing(segment_bytes: int) -> None:
    head = encode_segment_head(1_000, segment_bytes, 3, 4)
    assert len(head) == head_bytes_of(segment_bytes)
    whole = parse_segment_head(head, "x")
    assert whole is not None
    assert (known_of(whole), whole.damaged_at) == ((1_000, segment_bytes, 3, 4, len(head)), ())
    copies = (0, len(head) - SEGMENT_HEADER_BYTES)
    for at in range(len(head)):
        found = parse_segment_head(head[:at] + bytes([head[at] ^ 1]) + head[at + 1 :], "x")
        assert found is not None, at
        assert known_of(found) == known_of(whole), at
        assert found.damaged_at == tuple(copy for copy in copies if copy <= at < copy + SEGMENT_HEADER_BYTES), at
        cut = parse_segment_head(head[:at], "x")
        assert (cut is None) == (at < SEGMENT_HEADER_BYTES), at


@pytest.mark.parametrize("content", [b"\0", b"\xff"])
def test_no_block_of_4_kib_reaches_both_copies_of_a_header(content: bytes) -> None:
    head = encode_segment_head(1_000, 1 << 20, 3, 4)
    for at in range(len(head)):
        block = head[:at] + (content * 4_096)[: len(head) - at] + head[at + 4_096 :]
        found = parse_segment_head(block, "x")
        assert known_of(found) == (1_000, 1 << 20, 3, 4, len(head)), at


def test_damaged_copies_are_written_again(segments: LogSegments, files: FaultyFiles) -> None:
    segment = segments.create(0, 1 << 20, 5)
    whole = Path(segment.path).read_bytes()
    for at in (0, len(whole) - SEGMENT_HEADER_BYTES):
        Path(segment.path).write_bytes(whole[:at] + bytes(SEGMENT_HEADER_BYTES) + whole[at + SEGMENT_HEADER_BYTES :])
        again = LogSegments(segments.directory, files)
        again.load()
        assert again.list[0].damaged_at == (at,)
        again.mend(again.list[0])
        assert Path(segment.path).read_bytes() == whole
        assert again.list[0].damaged_at == ()


def test_a_header_of_a_newer_version_is_refused(segments: LogSegments, files: FaultyFiles) -> None:
    segment = segments.create(0, 1 << 20, 5)
    head = bytearray(Path(segment.path).read_bytes())
    for at in (0, len(head) - SEGMENT_HEADER_BYTES):
        head[at + 4] = 9
        head[at + 60 : at + 64] = crc32c(bytes(head[at : at + 60])).to_bytes(4, "big")
    Path(segment.path).write_bytes(head)
    with pytest.raises(NewerFormatError, match=r"segments/0+\.log has format version 9, .* up to 2"):
        LogSegments(segments.directory, files).load()
    assert Path(segment.path).read_bytes() == head


def test_a_file_with_a_damaged_header_or_another_ones_name_is_set_apart(
    segments: LogSegments, tmp_path: Path, files: FaultyFiles
) -> None:
    segments.create(0, 1_000, 0)
    directory = Path(segments.directory)
    misplaced = directory / segment_name(1_000)
    misplaced.write_bytes((directory / segment_name(0)).read_bytes())
    damaged = directory / segment_name(2_000)
    damaged.write_bytes(b"PSEG")
    again = LogSegments(segments.directory, files)
    again.load()
    assert [one.position for one in again.list] == [0]
    assert again.damaged_paths == [str(misplaced), str(damaged)]


def test_few_descriptors_serve_many_segments(segments: LogSegments, files: FaultyFiles) -> None:
    for position in range(0, 50_000, 1_000):
        segments.create(position, 1_000, 0)
    for position in range(0, 50_000, 1_000):
        assert segments.read(position, 4) == b"PSEG"
    assert len(files.open_fds) <= 8
    segments.close()
    assert files.open_fds == set()


def test_an_error_of_reading_is_no_damage(segments: LogSegments, files: FaultyFiles) -> None:
    segments.create(0, 1_000, 0)
    files.fail("open", errno.EMFILE)
    with pytest.raises(StorageError, match="Too many open files"):
        segments.read_record(64, 100)
    files.fail("read", errno.EIO)
    with pytest.raises(StorageError, match="at 64"):
        segments.read_record(64, 100)


def test_a_record_is_read_at_its_place_and_nowhere_else(segments: LogSegments, files: FaultyFiles) -> None:
    segment = segments.create(1_000, 1_000, 0)
    batch = Batch(5, message_ids(0, 0, 1), [b"body"])
    data = b"".join(
        encode_record(batch, position=1_064, salt=segment.salt, topic_number=1, first_offset=0, durable_upto=0)
    )
    fd = files.open(segment.path, 2)
    files.write_all(fd, data, 64)
    files.close(fd)
    assert segments.read_record(1_064, len(data)).body_at(0) == b"body"
    for position, size in ((1_063, len(data)), (1_065, len(data)), (1_500, 200), (5_000, 10)):
        with pytest.raises(RecordLostError):
            segments.read_record(position, size)
    # More than there is: the trailer is not where it is looked for, the header tells the size.
    assert segments.read_record(1_064, len(data) + 50).body_at(0) == b"body"


def test_a_hole_reads_as_zeros_and_the_rest_stays(segments: LogSegments, files: FaultyFiles) -> None:
    segment = segments.create(0, 1 << 16, 0)
    fd = files.open(segment.path, 2)
    files.write_all(fd, b"x" * 16_384, 64)
    files.punch_hole(fd, 4_096, 8_192)
    assert files.size(fd) == 16_448
    files.close(fd)
    data = segments.read(0, 1 << 16)
    assert data[64:4_096] == b"x" * 4_032
    assert data[4_096:12_288] == bytes(8_192)
    assert data[12_288:] == b"x" * 4_160


def test_a_header_of_version_1_is_read_for_ever() -> None:
    found = parse_segment_head(FIXTURE.read_bytes(), "x")
    assert found is not None
    assert (known_of(found), found.damaged_at) == ((1 << 26, 1 << 26, 99, 1_700, SEGMENT_HEADER_BYTES), ())
    assert segment_header_v1(1 << 26, 1 << 26, 99, 1_700) == FIXTURE.read_bytes()


def test_a_head_of_version_2_is_read_for_ever() -> None:
    data = FIXTURE_V2.read_bytes()
    assert known_of(parse_segment_head(data, "x")) == (1 << 26, 1 << 26, 99, 1_700, 4_224)
    assert encode_segment_head(1 << 26, 1 << 26, 99, 1_700) == data
