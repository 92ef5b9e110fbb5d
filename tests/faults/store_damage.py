"""Damage to every byte of every file of a closed log store: a start never alters or repeats a message.

    python -m tests.faults.store_damage --all

The store is the one of the script in `store_faults`, closed: segments, consume queues, checkpoint, floors, index
segments, journal, leases. One file at a time is damaged: in each byte one bit flipped, zeros, ones; cut at each byte;
each 512 bytes zeroed; the whole of it garbage, or gone. After any damage, a start goes through, no body is altered,
nothing comes twice, and another start finds the same. Besides:

- of the log, messages whose bodies are damaged may be lost, and no others; with both copies of a segment's header all
  of the segment; with the end of the log, where nothing proves that it was durable, the damaged records
- of the checkpoint and of consume queues nothing is lost; with a damaged file of due times, messages may come early
- of floors, index segments and journal, what only they knew is delivered again, and nothing is lost
- of the leases, nothing but the leases
- what is lost of the log is told, by the report of the start or when it is met; a damaged file of leases is named, not
  one that is gone
- a file of channels' progress that is damaged or gone is named, and each channel with the number of messages that come
  again: to the message, unless the floors are damaged, which know how many there were
"""

import argparse
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from queue_engine.storage.commit_log.log_recovery import recover_log
from queue_engine.storage.commit_log.record import HEADER_BYTES, RecordHeader
from queue_engine.storage.commit_log.segment import SEGMENT_HEADER_BYTES, LogSegments, head_bytes_of
from queue_engine.storage.log_store.log_store import LogOpening, LogStore
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES
from tests.faults.exploring import PromiseBrokenError
from tests.faults.log_crash_states import DIRECTORY
from tests.faults.store_crash_states import CHECKPOINT_PATH, SEGMENT_BYTES, Known, everything_of, start_store
from tests.faults.store_faults import FaultScript
from tests.support.clock import ManualClock
from tests.support.disks.simulated_disk import SECTOR_BYTES, SimulatedFiles

HEAD_BYTES = head_bytes_of(SEGMENT_BYTES)
BYTE_KINDS = ("a bit flipped", "zeros", "ones", "cut")


@dataclass(frozen=True, slots=True)
class DamageCase:
    path: str
    kind: str
    at: int = 0

    def __str__(self) -> str:
        return f"{self.path}: {self.kind} at {self.at}"

    def apply(self, data: bytes) -> bytes | None:
        """The file's content; None when it is gone."""
        at = self.at
        match self.kind:
            case "a bit flipped":
                return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
            case "zeros":
                return data[:at] + b"\0" + data[at + 1 :]
            case "ones":
                return data[:at] + b"\xff" + data[at + 1 :]
            case "cut":
                return data[:at]
            case "a block of zeros":
                size = len(data[at : at + SECTOR_BYTES])
                return data[:at] + bytes(size) + data[at + size :]
            case "garbage":
                return Random(at).randbytes(len(data))
        return None


class DamageBench:
    """A store that was closed, and what a start finds there."""

    def __init__(self, *, has_checkpoint: bool = True) -> None:
        """has_checkpoint: without one the whole log is read."""
        script = FaultScript()
        script.work()
        assert script.close()
        self.has_checkpoint = has_checkpoint
        self.contents = script.disk.contents()
        if not has_checkpoint:
            del self.contents[CHECKPOINT_PATH]
        self.told = [era.opening(Random(0)) for era in script.eras]
        self.published = {era.number: era.published for era in script.eras}
        self._clock = script.clock
        disk = SimulatedFiles.holding(self.contents)
        self.records = records_of(disk)
        self.ends = ends_of(disk, self.records)  # of the frames of each record, by its position
        store, _, self.expected = self._start(disk)
        self.held = self._held(store)

    def cases(self) -> Iterator[DamageCase]:
        """Every damage that changes something."""
        for path, data in self.contents.items():
            for at in range(len(data)):
                yield from self._changing(DamageCase(path, kind, at) for kind in BYTE_KINDS)
            blocks = range(0, len(data), SECTOR_BYTES)
            yield from self._changing(DamageCase(path, "a block of zeros", at) for at in blocks)
            yield from self._changing(DamageCase(path, kind) for kind in ("garbage", "gone"))

    def _changing(self, cases: Iterator[DamageCase]) -> Iterator[DamageCase]:
        return (case for case in cases if case.apply(self.contents[case.path]) != self.contents[case.path])

    def run(self, case: DamageCase) -> None:
        """Raises PromiseBrokenError."""
        data = case.apply(self.contents[case.path])
        contents = {path: content for path, content in self.contents.items() if path != case.path}
        if data is not None:
            contents[case.path] = data
        disk = SimulatedFiles.holding(contents)
        try:
            store, opening, found = self._start(disk)
            self._judge(case, data, store, opening, found)
            # Where the first start told of damage, it may have been put right meanwhile.
            again = self._start(disk.after_kill())[2]
            if again != found:
                raise PromiseBrokenError("another start finds something else")
        except Exception as exc:
            raise PromiseBrokenError(f"{case}: {type(exc).__name__}: {exc}") from exc
        except PromiseBrokenError as exc:
            raise PromiseBrokenError(f"{case}: {exc}") from exc

    def _start(self, disk: SimulatedFiles) -> tuple[LogStore, LogOpening, dict[int, Known]]:
        clock = ManualClock(monotonic_ns=self._clock.monotonic_ns(), time_ns=self._clock.time_ns())
        store, opening, backlogs = start_store(disk, clock, *self.told)
        found = {
            number: everything_of(backlogs[number], clock, one.id_base, has_damage=True)
            for one in self.told
            for number in one.channels
        }
        return store, opening, found

    def _held(self, store: LogStore) -> list[int | None]:
        return [store.leases.least_offset(one.number) for one in self.told]

    def _judge(
        self, case: DamageCase, data: bytes | None, store: LogStore, opening: LogOpening, found: dict[int, Known]
    ) -> None:
        path = case.path
        is_told = bool(
            opening.log.damages or opening.progress.damages or opening.damaged_leases or store.stats().damaged_count
        )
        for one in self.told:
            hit = self._hit(path, data or b"", one.number)
            for number in one.channels:
                known, expected = found[number], self.expected[number]
                if known.keys() - self.published[one.number].keys():
                    raise PromiseBrokenError("something comes that was never published")
                if "/progress/" in path:
                    self._judge_progress(known, expected)
                else:
                    self._judge_others(known, expected, hit, has_dues=not path.endswith("/deferred"))
                    if known.keys() != expected.keys() and not is_told and self._can_be_told(path, data):
                        raise PromiseBrokenError("messages are lost, and nothing tells of it")
        if self._held(store) != self.held and (
            not path.endswith("/holds.json") or (data is not None and not opening.damaged_leases)
        ):
            raise PromiseBrokenError("a hold is lost, and nothing tells of it")
        if path.endswith("/histories"):
            if found != self.expected:
                raise PromiseBrokenError("the file of histories is no truth, and messages are others without it")
        elif "/progress/" in path:
            self._judge_report(path, opening, found)

    def _judge_report(self, path: str, opening: LogOpening, found: dict[int, Known]) -> None:
        """The file is named, and each channel with as many messages as come again, at least."""
        if [one.path for one in opening.progress.damages] != [path]:
            raise PromiseBrokenError("a damaged file of progress is not named")
        losses = {one.channel: one for one in opening.progress_losses}
        for number, expected in self.expected.items():
            again = len(found[number].keys() - expected.keys())
            loss = losses.get(str(number))
            told = 0 if loss is None else loss.count
            if told < again or (told > again and loss is not None and loss.is_exact):
                raise PromiseBrokenError(f"channel {number} delivers {again} finished messages again and tells {told}")

    def _can_be_told(self, path: str, data: bytes | None) -> bool:
        """Without a checkpoint only the log itself has its begin and its durable end."""
        last = max(one for one in self.contents if one.startswith(DIRECTORY))
        return self.has_checkpoint or (data is not None and path != last)

    def _judge_progress(self, known: Known, expected: Known) -> None:
        if expected.keys() - known.keys():
            raise PromiseBrokenError("messages are lost")
        for body, (made, _, offset) in expected.items():
            if known[body][0] > made or known[body][2] != offset:
                raise PromiseBrokenError(f"attempts or offset: {known[body]} for {expected[body]}")

    def _judge_others(self, known: Known, expected: Known, hit: set[int], *, has_dues: bool) -> None:
        if known.keys() - expected.keys():
            raise PromiseBrokenError("what was settled comes again")
        for body, (made, due_ns, offset) in expected.items():
            if offset in hit:
                continue
            if body not in known:
                raise PromiseBrokenError("a message is lost that was not damaged")
            if known[body] != (made, due_ns if has_dues else min(due_ns, known[body][1]), offset):
                raise PromiseBrokenError(f"{known[body]} is not {expected[body]}")

    def _hit(self, path: str, data: bytes, topic_number: int) -> set[int]:
        """The offsets of a topic that may be lost: their records are damaged."""
        was = self.contents[path]
        # What is cut off and held nothing but zeros is no loss.
        pairs = enumerate(zip(was, data.ljust(len(was), b"\0"), strict=True))
        differing = [at for at, (one, other) in pairs if one != other]
        if not differing:
            return set()
        if not path.startswith(DIRECTORY):
            return set()
        position = int(path.removeprefix(DIRECTORY + "/").removesuffix(".log"))
        first, end = position + differing[0], position + differing[-1] + 1
        copy_at = HEAD_BYTES - SEGMENT_HEADER_BYTES
        if differing[0] < copy_at and (differing[-1] >= copy_at or len(data) < SEGMENT_HEADER_BYTES):
            first, end = position, position + len(was)
        is_end = not self._can_be_told(path, data)
        found: set[int] = set()
        for header, at in self.records:
            if header.topic_number != topic_number or at >= end or first >= at + header.size:
                continue
            starts = [0, *self.ends[at]]
            messages = at + HEADER_BYTES + header.table_bytes
            for index, message_end in enumerate(self.ends[at]):
                body_at = starts[index] + FRAME_HEADER_BYTES
                if is_end or (messages + body_at < end and first < messages + message_end):
                    found.add(header.first_offset + index)
        return found


def records_of(disk: SimulatedFiles) -> list[tuple[RecordHeader, int]]:
    """All records of a log with their positions."""
    found: list[tuple[RecordHeader, int]] = []
    copy = disk.after_kill()
    segments = LogSegments(DIRECTORY, copy)
    segments.load()
    recover_log(segments, files=copy, on_record=lambda header, position, dues: found.append((header, position)))
    segments.close()
    return found


def ends_of(disk: SimulatedFiles, records: list[tuple[RecordHeader, int]]) -> dict[int, Sequence[int]]:
    segments = LogSegments(DIRECTORY, disk.after_kill())
    segments.load()
    ends = {at: segments.read_record(at, header.size).ends() for header, at in records}
    segments.close()
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every case; else a sample")
    parser.add_argument("--cases", type=int, default=2_000, help="of the sample")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began = time.perf_counter()
    count = 0
    broken: Counter[str] = Counter()
    for has_checkpoint in (True, False):
        bench = DamageBench(has_checkpoint=has_checkpoint)
        cases = list(bench.cases())
        if not arguments.all:
            cases = Random(arguments.seed).sample(cases, min(arguments.cases, len(cases)))
        count += len(cases)
        for case in cases:
            try:
                bench.run(case)
            except PromiseBrokenError as exc:
                broken[str(exc).partition(": ")[2]] += 1
                print(f"{exc} ({'with' if has_checkpoint else 'without'} a checkpoint)")
    print(f"{count} cases in {time.perf_counter() - began:.0f} s, {broken.total()} broken")
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
