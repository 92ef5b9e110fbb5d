"""After a start the log is what was durable: a torn tail is cut, damage costs its own messages and is told."""

import errno
import os
import shutil
import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from queue_engine.storage.commit_log.log_recovery import RecoveredLog, recover_log
from queue_engine.storage.commit_log.record import (
    HEADER_BYTES,
    SEAL_BYTES,
    RecordHeader,
    RecordLostError,
    encode_record,
    encode_seal,
    message_ids,
)
from queue_engine.storage.commit_log.segment import SEGMENT_HEADER_BYTES, LogSegments, SegmentInfo, head_bytes_of
from queue_engine.storage.recovery_report import LostMessages
from queue_engine.vocabulary.errors import NewerFormatError, StorageError
from queue_engine.vocabulary.run import Batch
from tests.support.disks.files import FaultyFiles, ProcessDiedError

# Every byte changed in one of three ways in CI; every bit with this set.
EXHAUSTIVE = bool(os.environ.get("TEST_EVERY_BIT"))
SEGMENT_BYTES = 2_048
HEAD_BYTES = head_bytes_of(SEGMENT_BYTES)
BASE = 1 << 40
T0 = 1_700_000_000_000_000_000


class Bench:
    """Writes a log by hand, so that each byte's place and each record's mark are known."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = FaultyFiles()
        self.segments = LogSegments(str(path / "segments"), self.files)
        self.segments.load()
        self.records: list[tuple[int, int, list[bytes]]] = []  # position, first offset, bodies
        self.next_offset = 0
        self.at = 0
        self.segment: SegmentInfo
        self.roll()

    def roll(self, *, is_sealed: bool = True) -> None:
        if self.segments.list:
            if is_sealed:
                self.write(encode_seal(position=self.at, salt=self.segment.salt, durable_upto=self.at, time_ns=T0))
            self.at = self.segment.next_position
        self.segment = self.segments.create(self.at, SEGMENT_BYTES, T0)
        self.at += HEAD_BYTES

    def write(self, data: bytes, position: int | None = None) -> None:
        fd = self.files.open(self.segment.path, os.O_RDWR)
        self.files.write_all(fd, data, (self.at if position is None else position) - self.segment.position)
        self.files.close(fd)

    def publish(self, *bodies: bytes, durable_upto: int | None = None, due: bool = False, topic: int = 1) -> int:
        """One record; by default all before it was durable when it was written."""
        position = self.at
        data = b"".join(
            encode_record(
                Batch(T0 + self.next_offset, message_ids(BASE, self.next_offset, len(bodies)), list(bodies)),
                position=position,
                salt=self.segment.salt,
                topic_number=topic,
                first_offset=self.next_offset,
                durable_upto=position if durable_upto is None else durable_upto,
                dues_ns=[T0 + 99] * len(bodies) if due else None,
            )
        )
        self.write(data)
        self.records.append((position, self.next_offset, list(bodies)))
        self.next_offset += len(bodies)
        self.at += len(data)
        return position

    def recover(self, path: Path | None = None, files: FaultyFiles | None = None, **options: object) -> "Recovery":
        return Recovery(path or self.path, files or FaultyFiles(), options)


class QuickFiles(FaultyFiles):
    """A disk that need not be waited for: thousands of starts are tried."""

    def sync(self, fd: int) -> None:
        self._meet("sync")


class Recovery:
    """One start: what was found, and every message it leads to."""

    def __init__(self, path: Path, files: FaultyFiles, options: dict[str, object]) -> None:
        self.segments = LogSegments(str(path / "segments"), files)
        self.segments.load()
        self.headers: list[tuple[int, RecordHeader]] = []
        self.dues: dict[int, list[int] | None] = {}
        self.found: RecoveredLog = recover_log(
            self.segments,
            files=files,
            on_record=self._note,
            **options,
        )
        self.segments.close()

    def _note(self, header: RecordHeader, position: int, dues: object) -> None:
        self.headers.append((position, header))
        self.dues[position] = None if dues is None else list(dues)

    def bodies(self) -> dict[int, bytes]:
        """Offset → body of all messages that a consumer would get."""
        found: dict[int, bytes] = {}
        for position, header in self.headers:
            try:
                record = self.segments.read_record(position, header.size)
            except RecordLostError:
                continue
            for index in set(range(header.count)) - record.damaged:
                run = record.run(index, index + 1, BASE)
                assert run.ids == [b"%016x" % (BASE + header.first_offset + index)]
                assert header.first_offset + index not in found
                found[header.first_offset + index] = run.frames[34:]
        self.segments.close()
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "log")


def expected(bench: Bench, upto: int | None = None) -> dict[int, bytes]:
    return {
        first + index: body
        for position, first, bodies in bench.records
        if upto is None or position < upto
        for index, body in enumerate(bodies)
    }


def small_log(bench: Bench, *, has_newer: bool = True) -> None:
    """Three segments; the last record knows that all before it was durable."""
    bench.publish(b"one", b"two" * 9, b"three")
    bench.publish(b"single")
    bench.publish(b"later", b"later still", due=True)
    bench.roll()
    bench.publish(b"x" * 300, b"y")
    bench.publish(b"other topic", topic=2)
    bench.roll()
    bench.publish(b"last but one", b"z" * 40)
    if has_newer:
        bench.publish(b"last")


# Whole logs.


def test_an_empty_directory_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    found = Recovery(tmp_path / "log", FaultyFiles(), {}).found
    assert (found.end, found.next_position, found.scanned_records, found.damages) == (0, 0, 0, [])


def test_everything_is_found_and_told_in_order(bench: Bench) -> None:
    small_log(bench)
    start = bench.recover()
    assert start.bodies() == expected(bench)
    assert [(position, header.first_offset) for position, header in start.headers] == [
        (position, first) for position, first, _ in bench.records
    ]
    assert [times for times in start.dues.values() if times] == [[T0 + 99] * 2]
    found = start.found
    assert (found.end, found.next_position) == (bench.at, 3 * SEGMENT_BYTES)
    assert (found.scanned_records, found.cut_bytes, found.damages) == (7, 0, [])
    assert found.last_time_ns == T0 + bench.next_offset - 1
    # Now it is sealed: the next start finds the same and changes nothing.
    files = FaultyFiles()
    again = bench.recover(files=files).found
    assert (again.end, again.next_position, again.scanned_records) == (found.end, found.next_position, 7)
    assert {"write", "unlink", "truncate", "rename"} & set(files.calls) == set()


def test_a_checkpoint_spares_what_lies_before_it(bench: Bench) -> None:
    small_log(bench)
    position = bench.records[4][0]
    start = bench.recover(from_position=position, durable_upto=position)
    assert [at for at, _ in start.headers] == [at for at, _, _ in bench.records[4:]]
    assert start.found.end == bench.at
    end = bench.at
    clean = bench.recover(from_position=end, durable_upto=end)
    assert (clean.headers, clean.found.end, clean.found.next_position) == ([], end, 3 * SEGMENT_BYTES)


def test_a_segment_made_ahead_and_never_used_is_taken_away(bench: Bench) -> None:
    bench.publish(b"a")
    end = bench.at
    bench.roll(is_sealed=False)
    found = bench.recover().found
    assert (found.end, found.next_position) == (end, SEGMENT_BYTES)
    assert len(bench.files.listdir(bench.segments.directory)) == 1


# The tail.


def test_every_torn_end_above_the_mark_is_cut_and_nothing_of_it_kept(bench: Bench, tmp_path: Path) -> None:
    bench.publish(b"kept", b"too")
    mark = bench.publish(b"a" * 50, b"b")
    size = bench.at - mark
    whole = Path(bench.segment.path).read_bytes()
    for length in range(size):
        Path(bench.segment.path).write_bytes(whole[: mark + length])
        copy = tmp_path / f"copy{length}"
        shutil.copytree(bench.path, copy)
        start = bench.recover(copy)
        assert start.bodies() == expected(bench, mark), length
        assert (start.found.end, start.found.damages) == (mark, [])
        shutil.rmtree(copy)


def test_what_follows_a_torn_record_is_not_kept_however_well_it_looks(bench: Bench) -> None:
    bench.publish(b"kept")
    torn = bench.publish(b"torn", durable_upto=0)
    bench.publish(b"whole, and in vain", durable_upto=torn)
    bench.roll(is_sealed=False)
    bench.publish(b"in the next segment", durable_upto=torn)
    path = bench.segments.list[0].path
    data = bytearray(Path(path).read_bytes())
    data[torn + HEADER_BYTES + 50] ^= 1
    Path(path).write_bytes(data)
    start = bench.recover()
    assert list(start.bodies().values()) == [b"kept"]
    assert (start.found.end, start.found.next_position, start.found.damages) == (torn, SEGMENT_BYTES, [])
    assert start.found.cut_bytes > 100
    assert [one.position for one in start.segments.list] == [0]
    again = bench.recover()
    assert (again.bodies(), again.found.end, again.found.cut_bytes) == (start.bodies(), torn, 0)


def test_a_segment_that_was_not_sealed_ends_the_log(bench: Bench) -> None:
    end = bench.publish(b"a") and bench.at
    bench.roll(is_sealed=False)
    bench.publish(b"b", durable_upto=0)
    start = bench.recover()
    assert (list(start.bodies().values()), start.found.end) == ([b"a"], end)


# Damage.


def changed_bytes(data: bytes, at: int) -> list[int]:
    """Values that damage has at this byte: every flipped bit, 0 and 0xFF; else one of them, another at the next byte.
    faults/test_block_damage.py has all three at places by chance, its command at every place."""
    if EXHAUSTIVE:
        every = {*(data[at] ^ 1 << bit for bit in range(8)), 0, 0xFF}
    else:
        every = {(data[at] ^ 1, 0, 0xFF)[at % 3]}
    return [value for value in every if value != data[at]] or [data[at] ^ 1]


@pytest.mark.slow(reason="damages every byte")
def test_no_damaged_byte_below_the_mark_costs_more_than_its_own_message(bench: Bench) -> None:
    small_log(bench)
    wanted = expected(bench)
    newest = bench.records[-1][0]
    cases = 0
    segment_ends = [one.end for one in bench.recover().segments.list]
    restore(bench)
    for number, segment in enumerate(bench.segments.list):
        path = Path(segment.path)
        data = path.read_bytes()
        for at in range(len(data)):
            position = segment.position + at
            for value in changed_bytes(data, at):
                path.write_bytes(data[:at] + bytes([value]) + data[at + 1 :])
                start = bench.recover(files=QuickFiles())
                found = start.bodies()
                assert all(wanted[offset] == body for offset, body in found.items()), (number, at)
                if position < newest:
                    assert len(wanted) - len(found) <= 1, (number, at)
                    # A seal has a trailer only for the case that its header is damaged.
                    is_told = [damage.lost for damage in start.found.damages] == [len(wanted) - len(found)]
                    assert is_told or (found == wanted and position >= segment_ends[number] + HEADER_BYTES)
                else:
                    # The newest record: nothing says that it was ever durable.
                    assert found == expected(bench, newest)
                cases += 1
                path.write_bytes(data)
                restore(bench)
    assert cases > 1_000


def restore(bench: Bench) -> None:
    """Take back what a recovery did behind the end of the last segment, and what it put aside."""
    last = bench.segments.list[-1]
    os.truncate(last.path, bench.at - last.position)
    shutil.rmtree(bench.path / "quarantine", ignore_errors=True)


@pytest.mark.parametrize("block", [64, 512])
def test_no_zeroed_block_alters_a_body_or_stops_the_start(bench: Bench, tmp_path: Path, block: int) -> None:
    small_log(bench)
    wanted = expected(bench)
    for segment in bench.segments.list[:2]:
        data = Path(segment.path).read_bytes()
        for at in range(0, len(data), block):
            copy = tmp_path / "copy"
            shutil.copytree(bench.path, copy)
            damaged = copy / "segments" / Path(segment.path).name
            damaged.write_bytes((data[:at] + bytes(block) + data[at + block :])[: len(data)])
            start = bench.recover(copy)
            found = start.bodies()
            assert all(wanted[offset] == body for offset, body in found.items())
            assert start.found.damages or found == wanted
            # Other segments are not concerned.
            for position, first, bodies in bench.records:
                if not segment.position <= position < segment.next_position:
                    assert found[first] == bodies[0]
            shutil.rmtree(copy)


def test_damage_is_copied_aside_and_told(bench: Bench) -> None:
    bench.publish(b"good", b"bad body")
    bench.publish(b"newer")
    path = Path(bench.segment.path)
    path.write_bytes(path.read_bytes().replace(b"bad body", b"BAD body"))
    start = bench.recover()
    damage = start.found.damages[0]
    assert (damage.losses, damage.reason) == ((LostMessages(1, 1, 2, 1),), "bodies are damaged")
    assert b"BAD body" in (bench.path / "quarantine" / f"{damage.position:020d}.bin").read_bytes()
    assert list(start.bodies().values()) == [b"good", b"newer"]


def test_what_nobody_needs_can_not_be_damaged(bench: Bench) -> None:
    bench.publish(b"dead" * 30)
    bench.publish(b"newer")
    path = Path(bench.segment.path)
    data = bytearray(path.read_bytes())
    data[HEAD_BYTES + 100 : HEAD_BYTES + 200] = bytes(100)
    path.write_bytes(data)
    start = bench.recover(is_dead=lambda header: header.first_offset == 0)
    assert (start.found.damages, len(start.headers)) == ([], 2)


@pytest.mark.parametrize("at", [5, HEAD_BYTES - 10], ids=["the header", "its copy"])
def test_a_damaged_copy_of_a_segment_header_costs_nothing_and_is_written_again(bench: Bench, at: int) -> None:
    small_log(bench)
    path = Path(bench.segments.list[1].path)
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    start = bench.recover()
    assert start.bodies() == expected(bench)
    assert path.read_bytes() == whole
    assert [(damage.lost, damage.reason) for damage in start.found.damages] == [
        (0, f"the header{'' if at == 5 else chr(39) + 's copy'} is damaged in {path}")
    ]
    assert bench.recover().found.damages == []


def test_a_header_that_can_not_be_written_again_is_no_reason_not_to_start(bench: Bench) -> None:
    small_log(bench)
    path = Path(bench.segments.list[0].path)
    whole = path.read_bytes()
    path.write_bytes(b"x" + whole[1:])
    files = FaultyFiles()
    files.fail("write", errno.EIO)
    assert bench.recover(files=files).bodies() == expected(bench)
    assert path.read_bytes() == b"x" + whole[1:]


def test_a_segment_whose_header_is_damaged_twice_is_put_aside_and_told(bench: Bench) -> None:
    small_log(bench)
    path = Path(bench.segments.list[1].path)
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    data[HEAD_BYTES - 10] ^= 1
    path.write_bytes(data)
    start = bench.recover()
    assert path.with_name(path.name + ".bad").read_bytes() == bytes(data)
    assert [damage.position for damage in start.found.damages] == [SEGMENT_BYTES]
    assert start.bodies()[bench.next_offset - 1] == b"last"


@pytest.mark.parametrize("is_used", [True, False])
def test_a_last_segment_without_a_header_goes_if_it_was_never_used(bench: Bench, is_used: bool) -> None:
    small_log(bench)
    wanted = expected(bench)
    bench.roll()
    if is_used:
        bench.publish(b"in a segment of its own")
    path = Path(bench.segment.path)
    data = bytearray(path.read_bytes()) + bytes(100)
    data[:HEAD_BYTES] = bytes(HEAD_BYTES)
    path.write_bytes(data)
    start = bench.recover()
    assert start.bodies() == wanted
    assert not path.exists()
    assert path.with_name(path.name + ".bad").exists() == is_used
    assert [damage.position for damage in start.found.damages] == ([bench.segment.position] if is_used else [])


def test_half_a_head_that_was_being_written_is_no_damage(bench: Bench) -> None:
    small_log(bench)
    bench.roll()
    path = Path(bench.segment.path)
    path.write_bytes(bytes(SEGMENT_HEADER_BYTES) + path.read_bytes()[SEGMENT_HEADER_BYTES:])
    start = bench.recover()
    assert (start.bodies(), start.found.damages) == (expected(bench), [])
    assert not path.exists()


def test_a_record_of_a_newer_version_stops_the_start_and_changes_nothing(bench: Bench) -> None:
    bench.publish(b"known")
    at = bench.publish(b"of a newer version")
    path = Path(bench.segment.path)
    data = bytearray(path.read_bytes())
    fields = data[at + 4 : at + HEADER_BYTES - 4]
    fields[0] = 9
    place = crc32c(struct.pack(">QQ", bench.segment.salt, at))
    data[at + 4 : at + HEADER_BYTES] = fields + crc32c(bytes(fields), place).to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(NewerFormatError, match=rf"{path.name}: .* position {at} has format version 9, .* up to 2"):
        bench.recover()
    assert path.read_bytes() == data


def test_a_record_of_deferred_messages_that_is_cut_off_is_damage(bench: Bench) -> None:
    bench.publish(b"good")
    at = bench.publish(b"deferred", due=True)
    bench.roll()
    bench.publish(b"newer")
    path = Path(bench.segments.list[0].path)
    # Its header holds; its table and all behind are gone.
    path.write_bytes(path.read_bytes()[: at + HEADER_BYTES + 5])
    start = bench.recover()
    assert list(start.bodies().values()) == [b"good", b"newer"]
    assert start.found.damages[0].position == at


# Trouble.


def test_an_error_of_reading_is_no_damage_and_changes_nothing(bench: Bench) -> None:
    small_log(bench)
    before = {path: path.read_bytes() for path in bench.path.rglob("*.log")}
    for operation, error in (("open", errno.EMFILE), ("read", errno.EIO)):
        for nth in range(1, 4):
            files = FaultyFiles()
            segments = LogSegments(str(bench.path / "segments"), files)
            segments.load()
            files.fail(operation, error, nth=nth)
            with pytest.raises(StorageError):
                recover_log(segments, files=files)
    assert {path: path.read_bytes() for path in bench.path.rglob("*.log")} == before


def test_dying_at_any_step_and_beginning_again_gives_the_same(bench: Bench, tmp_path: Path) -> None:
    small_log(bench)
    torn = bench.publish(b"torn" * 20, durable_upto=0)
    bench.write(b"\xff" * 30, torn + 100)
    bench.roll(is_sealed=False)
    bench.publish(b"behind", durable_upto=0)
    path = Path(bench.segments.list[0].path)
    path.write_bytes(path.read_bytes().replace(b"single", b"sXngle"))
    whole = tmp_path / "whole"
    shutil.copytree(bench.path, whole)
    wanted = bench.recover(whole)
    for after in range(60):
        copy = tmp_path / f"copy{after}"
        shutil.copytree(bench.path, copy)
        files = FaultyFiles()
        files.dies_after = after
        died = False
        try:
            bench.recover(copy, files)
        except ProcessDiedError:
            died = True
        again = bench.recover(copy)
        assert again.bodies() == wanted.bodies()
        assert (again.found.end, again.found.next_position) == (wanted.found.end, wanted.found.next_position)
        assert [one.reason for one in again.found.damages] == [one.reason for one in wanted.found.damages]
        if not died:
            break
    assert 5 < after < 59
    assert wanted.found.end == torn
    assert SEAL_BYTES == 2 * HEADER_BYTES
