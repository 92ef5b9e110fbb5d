"""One damaged byte, or one damaged block of 4 KiB, anywhere in the log: it costs the messages that it touches.

    python -m tests.faults.block_damage --all

The log has two segments of records of all sizes: many in a block, and longer than one. Each byte of each segment is
flipped, zeroed and set; a block of 4 KiB is zeroed and overwritten at each place, aligned or not. A start, with the
checkpoint and without one, must then deliver every message whose body was not changed, unaltered and with its due time,
and no other. Above the durable mark, as far as the rest of the log proves one, the first record that does not hold ends
the log, and that is no damage. Another start finds the same.

With records and segments of version 1 a block may cost all messages of the records that it touches, and, where it
touches the only header of a segment, the segment.
"""

import argparse
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from queue_engine.storage.commit_log.checkpoint import decode_checkpoint
from queue_engine.storage.commit_log.log_recovery import recover_log
from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.commit_log.record import HEADER_BYTES, SEAL_BYTES, RecordHeader, message_ids, parse_header
from queue_engine.storage.commit_log.segment import SEGMENT_HEADER_BYTES, LogSegments
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogOpening, LogStore
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.vocabulary.run import Batch
from tests.faults.exploring import PromiseBrokenError
from tests.faults.store_crash_states import Known, everything_of
from tests.support.clock import ManualClock
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.log_formats import record_v1, seal_v1, segment_header_v1

BLOCK_BYTES = 4_096
SEGMENT_BYTES = 64 << 10
SEGMENTS = "/log/segments"
CHECKPOINT = "/log/checkpoint"
TOPICS = {1: "orders", 2: "payments"}
DUE_MS = 60_000

# Topic number, deferred, sizes of the bodies.
LIVES: list[list[tuple[int, bool, list[int]]]] = [
    [
        *[(1 + number % 2, number % 5 == 0, [20]) for number in range(12)],
        (1, False, [9] * 40),
        (2, True, [30, 4_500, 3]),
        *[(1 + number % 2, False, [60, 10]) for number in range(6)],
        (1, False, [5_000]),
    ],
    [*[(2, False, [15]) for _ in range(4)], (1, False, [40] * 12), (2, False, [2_000, 2_200]), (1, False, [12])],
]


@dataclass(frozen=True, slots=True)
class BlockCase:
    """Bytes [at, at + size) of a file are changed."""

    path: str
    kind: str
    at: int
    size: int

    def __str__(self) -> str:
        return f"{self.path}: {self.size} bytes {self.kind} at {self.at}"

    def apply(self, data: bytes) -> bytes:
        start, end = max(self.at, 0), min(self.at + self.size, len(data))
        match self.kind:
            case "flipped":
                new = bytes([data[start] ^ 1 << start % 8])
            case "zeroed":
                new = bytes(end - start)
            case "set":
                new = b"\xff" * (end - start)
            case _:
                new = Random(start).randbytes(end - start)
        return data[:start] + new + data[end:]


@dataclass(frozen=True, slots=True)
class Place:
    """A message's record and body, as positions of the log."""

    record: int
    start: int
    end: int


class BlockBench:
    """A log that was closed, and what a start finds there."""

    def __init__(self, *, version: int = 2, has_checkpoint: bool = True, is_killed: bool = False) -> None:
        """is_killed: the last segment has no seal, and there is no checkpoint: its end is above the durable mark."""
        self.version = version
        self._clock = ManualClock()
        disk = SimulatedFiles()
        for number, life in enumerate(LIVES):
            self._live(disk, number, life)
        contents = disk.contents()
        self.records, self._seals = records_of(disk)
        if version == 1:
            contents = rewritten(disk, self.records)
            self.records, self._seals = records_of(SimulatedFiles.holding(contents))
        elif is_killed or not has_checkpoint:
            del contents[CHECKPOINT]
        if is_killed:
            last = max(path for path in contents if path.startswith(SEGMENTS))
            contents[last] = contents[last][:-SEAL_BYTES] + bytes(BLOCK_BYTES)
            self._seals.pop()
        checkpoint = decode_checkpoint(contents.get(CHECKPOINT, b""))
        self._checkpoint_mark = 0 if checkpoint is None else checkpoint.durable_upto
        self.contents = contents
        self.paths = sorted(path for path in contents if path.startswith(SEGMENTS))
        self._places = self._find_places()
        self.expected = self._start(SimulatedFiles.holding(contents))[1]
        assert sum(map(len, self.expected.values())) == len(self._places)

    def _live(self, disk: SimulatedFiles, life: int, batches: list[tuple[int, bool, list[int]]]) -> None:
        store = new_store(disk, self._clock)
        opening = store.open(self._told())
        store.reserved(store.reserving())
        for number, (topic_number, is_deferred, sizes) in enumerate(batches):
            topic = opening.topics[topic_number]
            bodies = [b"%d.%d.%d " % (life, number, index) for index in range(len(sizes))]
            batch = topic.make_batch([body.ljust(size, b"x") for body, size in zip(bodies, sizes, strict=True)])
            due_ns = self._clock.monotonic_ns() + DUE_MS * 1_000_000 if is_deferred else None
            ticket = topic.append(batch, due_ns)
            store.end_turn()
            assert ticket.done
            assert ticket.error is None
        self._ends = {number: topic.end_offset for number, topic in opening.topics.items()}
        store.close()

    def _told(self) -> list[TopicOpening]:
        ends = getattr(self, "_ends", {})
        return [
            TopicOpening(name, number, number << 40, ends.get(number, 0), None, {number: 0})
            for number, name in TOPICS.items()
        ]

    def _find_places(self) -> dict[tuple[int, int], Place]:
        disk = SimulatedFiles.holding(self.contents)
        segments = LogSegments(SEGMENTS, disk)
        segments.load()
        places: dict[tuple[int, int], Place] = {}
        for header, position in self.records:
            record = segments.read_record(position, header.size)
            messages = position + HEADER_BYTES + header.table_bytes
            for index, end in enumerate(record.ends()):
                body_bytes = len(record.body_at(index))
                places[header.topic_number, header.first_offset + index] = Place(
                    position, messages + end - body_bytes, messages + end
                )
        return places

    def cases(self) -> Iterator[BlockCase]:
        """Every damage that changes something."""
        for path in self.paths:
            size = len(self.contents[path])
            for at in range(size):
                yield from (BlockCase(path, kind, at, 1) for kind in ("flipped", "zeroed", "set"))
            for at in range(1 - BLOCK_BYTES, size):
                yield from (BlockCase(path, kind, at, BLOCK_BYTES) for kind in ("zeroed", "overwritten"))

    def run(self, case: BlockCase) -> None:
        """Raises PromiseBrokenError."""
        was = self.contents[case.path]
        data = case.apply(was)
        disk = SimulatedFiles.holding({**self.contents, case.path: data})
        try:
            opening, found = self._start(disk)
            self._judge(case.path, was, data, opening, found)
            if self._start(disk.after_kill())[1] != found:
                raise PromiseBrokenError("another start finds something else")
        except Exception as exc:
            raise PromiseBrokenError(f"{case}: {type(exc).__name__}: {exc}") from exc
        except PromiseBrokenError as exc:
            raise PromiseBrokenError(f"{case}: {exc}") from exc

    def _start(self, disk: SimulatedFiles) -> tuple[LogOpening, dict[int, Known]]:
        clock = ManualClock(monotonic_ns=self._clock.monotonic_ns(), time_ns=self._clock.time_ns())
        store = new_store(disk, clock)
        opening = store.open(self._told())
        found: dict[int, Known] = {}
        for number, topic in opening.topics.items():
            topic.set_flowing(True)
            backlog: LogBacklog = topic.open_channel(f"c{number}", number)
            while topic.pump(1_000):
                pass
            found[number] = everything_of(backlog, clock, number << 40, has_damage=True)
        return opening, found

    def _judge(self, path: str, was: bytes, data: bytes, opening: LogOpening, found: dict[int, Known]) -> None:
        changed = [at for at, (one, other) in enumerate(zip(was, data, strict=True)) if one != other]
        base = int(path.removeprefix(SEGMENTS + "/").removesuffix(".log"))
        touched = {base + at for at in changed}
        first, end = (base + changed[0], base + changed[-1] + 1) if changed else (0, 0)
        if self.version == 1:
            self._judge_v1(base, first, end, found)
            return
        cut = self._cut(touched, first, end)
        for number, name in TOPICS.items():
            wanted = {
                body: known
                for body, known in self.expected[number].items()
                if not self._is_touched(number, known[2], touched, first, end)
                and self._places[number, known[2]].record < cut
            }
            if found[number] != wanted:
                lost = sorted(known[2] for body, known in wanted.items() if body not in found[number])
                more = sorted(known[2] for body, known in found[number].items() if body not in wanted)
                raise PromiseBrokenError(f"of {name}, offsets {lost} are lost, {more} came, or due times are others")
        self._judge_report(opening, found, cut)

    def _judge_report(self, opening: LogOpening, found: dict[int, Known], cut: int) -> None:
        """Check the report: messages that it names are lost, all lost ones are named, and the whole log was read."""
        damages = opening.log.damages
        told = {
            (one.topic_number, offset)
            for damage in damages
            for one in damage.losses
            for offset in range(one.first_offset, one.next_offset)
        }
        missing = {
            (number, known[2])
            for number, expected in self.expected.items()
            for body, known in expected.items()
            if body not in found[number] and self._places[number, known[2]].record < cut
        }
        is_all_read = opening.log.scanned_records + len(damages) >= len(self.records)
        if told - missing or (is_all_read and all(one.is_exact for one in damages) and told != missing):
            raise PromiseBrokenError(f"{missing} are lost, and the report says {told}")

    def _is_touched(self, number: int, offset: int, touched: set[int], first: int, end: int) -> bool:
        place = self._places[number, offset]
        if place.end <= first or end <= place.start:
            return False
        return any(at in touched for at in range(place.start, place.end))

    def _cut(self, touched: set[int], first: int, end: int) -> int:
        """Where a torn tail begins, as far as what is left of the log can tell; beyond everything when nowhere."""
        pieces = [*self.records, *self._seals]

        def is_whole(start: int, size: int) -> bool:
            return not any(at in touched for at in range(max(start, first), min(start + size, end)))

        marks = [
            header.durable_upto
            for header, at in pieces
            if is_whole(at, HEADER_BYTES) or is_whole(at + header.size - HEADER_BYTES, HEADER_BYTES)
        ]
        mark = max([self._checkpoint_mark, *marks])
        damaged = [at for header, at in pieces if at >= mark and not is_whole(at, header.size)]
        return min([1 << 62, *damaged])

    def _judge_v1(self, base: int, first: int, end: int, found: dict[int, Known]) -> None:
        is_header = first < base + SEGMENT_HEADER_BYTES
        for number, expected in self.expected.items():
            known = found[number]
            # With a damaged table due times may be lost.
            if any(body not in expected or one[2] != expected[body][2] for body, one in known.items()):
                raise PromiseBrokenError("something comes that was not published so")
            for body in expected.keys() - known.keys():
                place = self._places[number, expected[body][2]]
                size = next(header.size for header, at in self.records if at == place.record)
                is_hit = place.record < end and first < place.record + size
                if not (is_hit or is_header):
                    raise PromiseBrokenError(f"offset {expected[body][2]} is lost, and its record was not touched")


def new_store(disk: SimulatedFiles, clock: ManualClock) -> LogStore:
    settings = LogSettings(
        policy=SyncPolicy.ALWAYS,
        sync_interval_ms=50,
        sync_interval_bytes=1_500,
        segment_bytes=SEGMENT_BYTES,
        memory_count_max=1_000,
        journal_reserve_bytes=0,
    )
    backgrounds = Backgrounds.of(InlineBackground())
    return LogStore("/log", settings, files=disk, clock=clock, backgrounds=backgrounds)


Pieces = list[tuple[RecordHeader, int]]


def records_of(disk: SimulatedFiles) -> tuple[Pieces, Pieces]:
    """All records of a log that was closed, and its segments' seals, with their positions."""
    found: Pieces = []
    copy = disk.after_kill()
    segments = LogSegments(SEGMENTS, copy)
    segments.load()
    recover_log(segments, files=copy, on_record=lambda header, position, dues: found.append((header, position)))
    seals: Pieces = []
    for one in segments.list:
        seal = parse_header(segments.read(one.end, HEADER_BYTES), 0, position=one.end, salt=one.salt)
        assert seal is not None
        seals.append((seal, one.end))
    segments.close()
    return found, seals


def rewritten(disk: SimulatedFiles, records: Pieces) -> dict[str, bytes]:
    """The segments of a log as version 1 wrote them, and nothing beside them."""
    segments = LogSegments(SEGMENTS, disk)
    segments.load()
    contents: dict[str, bytes] = {}
    for segment in segments.list:
        parts = [segment_header_v1(segment.position, segment.segment_bytes, segment.salt, segment.created_ns)]
        at = segment.position + len(parts[0])
        for header, position in records:
            if not segment.position <= position < segment.next_position:
                continue
            record = segments.read_record(position, header.size)
            bodies = [record.body_at(index) for index in range(header.count)]
            ids = message_ids(header.topic_number << 40, header.first_offset, header.count)
            data = b"".join(
                record_v1(
                    Batch(header.time_ns, ids, bodies),
                    position=at,
                    salt=segment.salt,
                    topic_number=header.topic_number,
                    first_offset=header.first_offset,
                    durable_upto=at,
                    dues_ns=record.dues(),
                )
            )
            parts.append(data)
            at += len(data)
        parts.append(seal_v1(position=at, salt=segment.salt, durable_upto=at, time_ns=segment.created_ns))
        contents[segment.path] = b"".join(parts)
    segments.close()
    return contents


def benches() -> dict[str, BlockBench]:
    return {
        "with a checkpoint": BlockBench(),
        "without a checkpoint": BlockBench(has_checkpoint=False),
        "after a kill": BlockBench(is_killed=True),
        "version 1": BlockBench(version=1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every case; else a sample")
    parser.add_argument("--cases", type=int, default=2_000, help="of the sample, for each log")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    broken: Counter[str] = Counter()
    for name, bench in benches().items():
        began = time.perf_counter()
        cases = list(bench.cases())
        if not arguments.all:
            cases = Random(arguments.seed).sample(cases, min(arguments.cases, len(cases)))
        for case in cases:
            try:
                bench.run(case)
            except PromiseBrokenError as exc:
                broken[name] += 1
                print(f"{exc} ({name})")
        print(f"{name}: {len(cases)} cases in {time.perf_counter() - began:.0f} s, {broken[name]} broken")
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
