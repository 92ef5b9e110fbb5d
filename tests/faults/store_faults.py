"""Faults of the disk at every operation of the whole log store: while it works, and while it starts.

    python -m tests.faults.store_faults --all

One script uses all that the store has: two topics with two channels each, messages finished, requeued and deferred,
merges of the journal, full segments and removed ones, leases, checkpoints, rewinding, a clean close. It is run once for
every operation on the disk and every kind of fault. Of the store's calls only `open`, `open_channel`, `take` and
`close` may raise, and only StorageError. Then real starts are judged by what their channels deliver, by the promises
that `store_crash_states` lists, and:

- from a failed sync of the log on nothing is acknowledged
- when there is room again, or descriptors are, publishing works again without a restart, and so does a clean close
- when the fault is over, whichever it was, channels' progress is put on the disk again without a restart
- what is published after the next start gets offsets that were never given, and is there after a power cut

A start that meets a fault fails with StorageError or gives everything, and the next one gives everything.
"""

import argparse
import errno
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.vocabulary.errors import StorageError
from tests.faults.exploring import PromiseBrokenError, Tally
from tests.faults.store_crash_states import RESERVED, Era, Known, StoreScript, everything_of, start_store
from tests.support.clock import ManualClock
from tests.support.disks.faulty_disk import FAULT_KINDS, FaultKind, FaultyDisk

SEED = 6
ROUNDS = 7
POWER_CUTS = 2  # of each state
# Names of channels' progress, and of the consume queue's, that the script must have met.
WANTED_FILES = ("/checkpoint", "/holds.json", "/floors", ".index", ".journal", ".queue", "/deferred", ".log")


class FaultScript(StoreScript):
    """The script, on a disk that meets one fault."""

    def __init__(self, kind: FaultKind | None = None, at: int = 0, policy: SyncPolicy = SyncPolicy.ALWAYS) -> None:
        """at: the number of the operation, counted from the end of the start."""
        self.disk = FaultyDisk()
        super().__init__(SEED, Tally(), states_max=0, policy=policy, files=self.disk)
        self.eras = [self.era, self._new_era(2, "u")]
        self.kind = kind
        self.began = self.ended = len(self.disk.met)
        self.acknowledged_at_failed_sync: int | None = None
        self.images: list[FaultyDisk] = []  # what a kill would leave, now and then
        self.tolds: list[list[TopicOpening]] = []
        self.disk.on_failed = self._operation_failed
        if kind is not None:
            self.disk.fail(kind, at)

    def _before(self, operation: str) -> None:
        """No state is taken on the way: what the script does depends on its seed alone, not on how often it writes."""

    def _operation_failed(self, operation: str, path: str) -> None:
        if operation == "sync" and path.endswith(".log") and self.acknowledged_at_failed_sync is None:
            self.acknowledged_at_failed_sync = self._acknowledged_count()

    def _acknowledged_count(self) -> int:
        return sum(len(era.acknowledged) for era in self.eras)

    def _each(self) -> Iterator[Era]:
        """Each topic, as the one that the script is at."""
        for era in self.eras:
            self.era = era
            yield era

    # What it does.

    def work(self) -> None:
        """All but the close."""
        for number in range(ROUNDS):
            for _ in self._each():
                for _ in range(3):
                    self._publish()
                self._end_turn()
                self.sync.finish()
            for era in self._each():
                for book in era.books:
                    for _ in range(3):
                        self._take(book)
                    while len(book.held) > 1:
                        self._answer(book)
            self._end_turn()
            self._time_passes(150)
            for _ in self._each():
                self._sync_progress()
            if number in (1, 4):
                self._time_passes(2_500)  # long enough for a merge
            if number == 1:
                for _ in self._each():
                    self._hold()
            if number in (2, 5):
                for era in self._each():
                    self._lease_from(era.topic.end_offset)
                    self._drain()
                self._time_passes(1_100)
            if number == 3:
                self.era = self.eras[0]
                self._seek(self.era.books[0])
                self.worker.finish()
            self._note_image()

    def _time_passes(self, ms: int) -> None:
        self.clock.advance(ms=ms)
        for era in self.eras:
            for book in era.books:
                book.backlog.release_due(self.clock.monotonic_ns(), 100)
        self.store.tick(self.clock.monotonic_ns())
        self._note_written()
        self.worker.finish()
        self.sync.finish()

    def _note_written(self) -> None:
        was = self.era
        for _ in self._each():
            super()._note_written()
        self.era = was

    def _note_image(self) -> None:
        if self.kind is None:
            self.images.append(FaultyDisk.holding(self.disk.contents()))
            self.tolds.append(self._told())

    def close(self) -> bool:
        """Whether it went well; then all is on the disk."""
        try:
            self.store.close()
        except StorageError:
            return False
        for era in self.eras:
            for book in era.books:
                book.noted, book.synced = set(book.settled), set(book.settled)
                book.synced_attempts = dict(book.attempts)
        return True

    # What is asked of it.

    def run_with_fault(self) -> None:
        """Raises PromiseBrokenError."""
        self.work()
        self._check_failed_sync()
        self._judge_state(self.disk.after_kill(), is_kill=True)
        self._judge_power_cuts()
        kind = self.kind
        is_passing = kind is not None and kind.error != errno.EIO
        if is_passing:
            self._check_goes_on()
        self._check_progress_goes_on()
        is_closed = self.close()
        self.ended = len(self.disk.met)
        self.disk.heal()
        if is_passing and not is_closed:
            raise PromiseBrokenError("the disk is well again, and the store can't be closed")
        self._check_failed_sync()
        self._judge_state(self.disk.after_kill(), is_kill=True)
        self._judge_power_cuts()
        self._check_next_life()

    def _check_failed_sync(self) -> None:
        count = self.acknowledged_at_failed_sync
        if count is not None and count != self._acknowledged_count():
            raise PromiseBrokenError("a sync of the log failed, and something was acknowledged later")

    def _check_progress_goes_on(self) -> None:
        """Whatever the fault was, it is over: what was finished is put on the disk without a restart."""
        self.disk.heal()
        for _ in range(3):
            self._time_passes(1_100)
        if self.store.journal.error is not None:
            self._time_passes(30_000)  # the longest wait between two tries
        if self.store.journal.error is not None:
            raise PromiseBrokenError(f"the disk is well again, and the progress is not: {self.store.journal.error}")
        for _ in self._each():
            self._sync_progress()
        for era in self.eras:
            for book in era.books:
                if book.settled - book.synced:
                    raise PromiseBrokenError("the disk is well again, and what was finished is not put on it")
        self._judge_power_cuts()

    def _check_goes_on(self) -> None:
        """There is room again."""
        self.disk.heal()
        for _ in range(3):
            self._time_passes(1_100)
        if self.store.error is not None:
            raise PromiseBrokenError(f"the disk is well again, and the store says {self.store.error}")
        for era in self._each():
            before = len(era.acknowledged)
            self._publish()
            self._end_turn()
            self.sync.finish()
            if len(era.acknowledged) == before:
                raise PromiseBrokenError("the disk is well again, and a publish is refused")

    def _told(self) -> list[TopicOpening]:
        return [era.opening(self.rng) for era in self.eras]

    def _judge_power_cuts(self) -> None:
        for _ in range(POWER_CUTS):
            self._judge_state(self.disk.after_power_cut(self.rng), is_kill=False)

    def _judge_state(self, disk: FaultyDisk, *, is_kill: bool) -> None:
        topics, found = self._start(disk, *self._told())
        for era in self._each():
            for book in era.books:
                self._judge(era, book, found[book.number], is_kill=is_kill)
            self._judge_lease(topics[self.era.number])

    def _check_next_life(self) -> None:
        """The next process publishes, and then the power goes."""
        disk = self.disk.after_kill()
        told = self._told()
        store, opening, _ = start_store(disk, self.clock, *told, policy=SyncPolicy.ALWAYS)
        store.reserved(store.reserving())
        for era in self.eras:
            topic = opening.topics[era.number]
            if topic.next_offset < max([RESERVED, *(offset + 1 for offset in era.offset_of.values())]):
                raise PromiseBrokenError(f"offset {topic.next_offset} would be given twice")
            batch = topic.make_batch([b"of the next life"])
            ticket = topic.append(batch)
            store.end_turn()
            if not ticket.done or ticket.error is not None:
                raise PromiseBrokenError(f"the next process takes nothing: {ticket.error}")
            era.published[b"of the next life"] = 0
            era.acknowledged.add(b"of the next life")
        left = disk.after_power_cut(self.rng)
        _, _, backlogs = start_store(left, self.clock, *told)
        for era in self._each():
            for book in era.books:
                # What a failed sync dropped was refused; this process found it in the cache, and now it is gone.
                found = everything_of(backlogs[book.number], self.clock, era.id_base, has_damage=True)
                self._judge(era, book, found, is_kill=False)


# Starts.


@dataclass(frozen=True, slots=True)
class Image:
    """A disk to start on, and what a start without a fault gives."""

    disk: FaultyDisk
    told: list[TopicOpening]
    clock: ManualClock
    found: dict[int, Known]
    operations: list[str]


def known_of(disk: FaultyDisk, clock: ManualClock, told: list[TopicOpening]) -> dict[int, Known]:
    """The messages of every channel after a start; fenced channels are retried first. Raises StorageError."""
    clock = ManualClock(monotonic_ns=clock.monotonic_ns(), time_ns=clock.time_ns())
    _, _, backlogs = start_store(disk, clock, *told)
    for backlog in backlogs.values():
        fenced: list[str] = []
        backlog.watch(lambda doing, _, fenced=fenced: fenced.append(doing))
        if fenced:
            backlog.start_over()
    return {number: everything_of(backlogs[number], clock, one.id_base) for one in told for number in one.channels}


def images() -> list[Image]:
    """Disks as kills leave them during the script, and as a clean close does."""
    script = FaultScript()
    script.work()
    script.close()
    script._note_image()
    made: list[Image] = []
    for disk, told in zip(script.images, script.tolds, strict=True):
        trial = disk.after_kill()
        found = known_of(trial, script.clock, told)
        made.append(Image(disk, told, script.clock, found, trial.met))
    return made


def start_with_fault(image: Image, kind: FaultKind, at: int) -> None:
    """Start, meet the fault, and start again. Raises PromiseBrokenError."""
    disk = image.disk.after_kill()
    disk.fail(kind, at)
    try:
        found = known_of(disk, image.clock, image.told)
    except StorageError:
        pass
    else:
        if found != image.found:
            raise PromiseBrokenError("a start with a fault gives something else")
    for left in (disk.after_kill(), disk.after_power_cut(Random(at))):
        if known_of(left, image.clock, image.told) != image.found:
            raise PromiseBrokenError("the start after one with a fault gives something else")


# All of them.


@dataclass(frozen=True, slots=True)
class Case:
    kind: FaultKind
    at: int
    policy: SyncPolicy | None  # of the script; None for a start
    image: int = 0

    def __str__(self) -> str:
        where = f"the script, {self.policy}" if self.policy else f"a start on disk {self.image}"
        return f"{self.kind.name} at operation {self.at} of {where}"


@dataclass(slots=True)
class Faults:
    """Every case there is."""

    images: list[Image] = field(default_factory=images)

    def cases(self) -> Iterator[Case]:
        for policy in (SyncPolicy.ALWAYS, SyncPolicy.OS):
            script = FaultScript(policy=policy)
            script.run_with_fault()
            yield from _cases_of(script.disk.met[script.began : script.ended], policy)
        for number, image in enumerate(self.images):
            yield from _cases_of(image.operations, None, number)

    def run(self, case: Case) -> None:
        """Raises PromiseBrokenError."""
        try:
            if case.policy is None:
                start_with_fault(self.images[case.image], case.kind, case.at)
            else:
                FaultScript(case.kind, case.at, case.policy).run_with_fault()
        except Exception as exc:
            raise PromiseBrokenError(f"{case}: {type(exc).__name__}: {exc}") from exc
        except PromiseBrokenError as exc:
            raise PromiseBrokenError(f"{case}: {exc}") from exc


def _cases_of(operations: list[str], policy: SyncPolicy | None, image: int = 0) -> Iterator[Case]:
    for kind in FAULT_KINDS:
        yield from (Case(kind, at, policy, image) for at, one in enumerate(operations) if one in kind.operations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every case; else a sample")
    parser.add_argument("--cases", type=int, default=500, help="of the sample")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began = time.perf_counter()
    faults = Faults()
    cases = list(faults.cases())
    if not arguments.all:
        cases = Random(arguments.seed).sample(cases, min(arguments.cases, len(cases)))
    broken: Counter[str] = Counter()
    for case in cases:
        try:
            faults.run(case)
        except PromiseBrokenError as exc:
            broken[str(exc).partition(": ")[2]] += 1
            print(exc)
    print(f"{len(cases)} cases in {time.perf_counter() - began:.0f} s, {broken.total()} broken")
    for why, count in broken.most_common():
        print(f"  {count}: {why}")
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
