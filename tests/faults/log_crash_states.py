"""Crash states of the commit log: at whatever moment process or power ends, recovery keeps every promise.

    python -m tests.faults.log_crash_states --states 1000000 --seed 7

A script publishes, syncs, rolls, fills the disk and meets I/O errors, all by chance. At every operation on the disk the
states that an end at that moment may leave are taken, each is recovered for real, and what is found is judged:

- every batch that was acknowledged is there: always after the end of the process; after a power cut with `always`
- a batch is whole or absent, unaltered, in its place, and there once; nothing is there that was not published
- each topic's offsets have no hole: with `interval` and `os` a power cut costs a suffix
- recovering again, also after an end in the midst of recovery, finds the same
"""

import errno
import os
from random import Random

from queue_engine.storage.commit_log.commit_log import CommitLog
from queue_engine.storage.commit_log.log_recovery import RecoveredLog, recover_log
from queue_engine.storage.commit_log.options import LogOptions, SyncPolicy
from queue_engine.storage.commit_log.record import RecordHeader, RecordLostError, message_ids
from queue_engine.storage.commit_log.segment import LogSegments
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.run import Batch
from tests.faults.exploring import PowerOffError, PromiseBrokenError, Tally, run_command
from tests.support.clock import ManualClock
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.background import HeldBackground

DIRECTORY = "/log/segments"
SEGMENT_BYTES = 4_096
STEPS = 60
PER_OPERATION = 0.7  # of the disk's operations, how many are ends of the process or the power

Found = dict[tuple[int, int], tuple[bytes, ...]]  # (topic, first offset) → bodies


class Script:
    """One process's life, with states taken on the way."""

    def __init__(self, seed: int, tally: Tally, states_max: int) -> None:
        self.rng = Random(seed)
        self.tally = tally
        self.states_max = states_max
        self.policy = self.rng.choice([SyncPolicy.ALWAYS, SyncPolicy.ALWAYS, SyncPolicy.INTERVAL, SyncPolicy.OS])
        self.files = SimulatedFiles()
        self.clock = ManualClock()
        self.sync = HeldBackground()
        self.worker = HeldBackground()
        self.published: dict[tuple[int, int], set[tuple[bytes, ...]]] = {}
        self.acknowledged: Found = {}
        self.pending: list[tuple[int, int, int, tuple[bytes, ...]]] = []  # end, topic, first offset, bodies
        self.next_offset = {1: 0, 2: 0, 3: 0}
        self.fault: tuple[str, int] | None = None
        self.files.before_operation = self._before
        segments = LogSegments(DIRECTORY, self.files)
        segments.load()
        self.log = CommitLog(
            segments,
            RecoveredLog(),
            LogOptions(
                self.policy,
                SEGMENT_BYTES,
                sync_interval_ms=50,
                sync_interval_bytes=1_500,
                fill_ahead_bytes=self.rng.choice([0, 1_024]),
            ),
            clock=self.clock,
            sync_background=self.sync,
            worker=self.worker,
            listener=self,
        )

    def _before(self, operation: str) -> None:
        if self.rng.random() < PER_OPERATION:
            self.take_state()
        if self.fault is not None and self.fault[0] == operation:
            error = self.fault[1]
            self.fault = None
            raise OSError(error, os.strerror(error))

    def became_visible(self, visible_end: int) -> None:
        while self.pending and self.pending[0][0] <= visible_end:
            _, topic, first, bodies = self.pending.pop(0)
            self.acknowledged[topic, first] = bodies

    def log_failed(self, error: StorageError) -> None:
        pending, self.pending = self.pending, []
        for _, topic, first, _ in reversed(pending):
            self.next_offset[topic] = first

    def run(self) -> None:
        self.log.open()
        for _ in range(STEPS):
            if self.tally.states >= self.states_max:
                return
            self._step()
        self.tally.scripts += 1

    def _step(self) -> None:
        rng = self.rng
        act = rng.random()
        if act < 0.45:
            self._publish()
        elif act < 0.6:
            self.log.commit()
        elif act < 0.72:
            self.sync.work()
        elif act < 0.82:
            self.sync.answer()
        elif act < 0.88:
            self.worker.finish()
        elif act < 0.93:
            self.clock.advance(ms=rng.choice([10, 1_100]))
            self.log.tick(self.clock.monotonic_ns())
        elif act < 0.95:
            self.files.bytes_free = rng.choice([None, 0, 300, 3_000])
        elif act < 0.96:
            self.fault = rng.choice([("write", errno.EIO), ("sync", errno.EIO), ("create", errno.ENOSPC)])
        else:
            self.files.bytes_free = None
            self.log.commit()
            self.sync.finish()
        if rng.random() < 0.3:
            self.take_state()

    def _publish(self) -> None:
        topic = self.rng.choice([1, 1, 2, 3])
        first = self.next_offset[topic]
        size = self.rng.choice([0, 5, 40, 700])
        bodies = tuple(self.rng.randbytes(self.rng.randrange(size + 1)) for _ in range(self.rng.randrange(1, 5)))
        batch = Batch(self.clock.time_ns(), message_ids(topic << 40, first, len(bodies)), bodies)
        try:
            position, length = self.log.append(topic, first, batch)
        except StorageError:
            return
        self.published.setdefault((topic, first), set()).add(bodies)
        self.pending.append((position + length, topic, first, bodies))
        self.next_offset[topic] = first + len(bodies)

    # States.

    def take_state(self) -> None:
        """One state that an end at this moment may leave, recovered and judged."""
        if self.tally.states >= self.states_max:
            return
        rng = self.rng
        is_kill = rng.random() < 0.15
        disk = self.files.after_kill() if is_kill else self.files.after_power_cut(rng)
        self.tally.states += 1
        self.tally.kinds[f"{self.policy.value}, {'kill' if is_kill else 'power cut'}"] += 1
        if rng.random() < 0.2:
            self.tally.nested += 1
            disk = self._cut_recovery(disk, is_kill=is_kill)
        found, end = recovered(disk)
        self._judge(found, must_have_all=is_kill or self.policy is SyncPolicy.ALWAYS)
        again, end_again = recovered(disk.after_power_cut(rng))
        if (again, end_again) != (found, end):
            raise PromiseBrokenError(f"recovered twice, {end} and then {end_again}")

    def _cut_recovery(self, disk: SimulatedFiles, *, is_kill: bool) -> SimulatedFiles:
        """Begin to recover, and end at some operation of that."""
        left = self.rng.randrange(12)

        def before(operation: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerOffError

        disk.before_operation = before
        try:
            recovered(disk)
        except PowerOffError:
            pass
        disk.before_operation = lambda operation: None
        return disk.after_kill() if is_kill else disk.after_power_cut(self.rng)

    def _judge(self, found: Found, *, must_have_all: bool) -> None:
        for place, bodies in found.items():
            if bodies not in self.published.get(place, ()):
                raise PromiseBrokenError(f"{place} was never published so")
        for topic in self.next_offset:
            offset = 0
            for (_, first), bodies in sorted((place, one) for place, one in found.items() if place[0] == topic):
                if first != offset:
                    raise PromiseBrokenError(f"topic {topic} goes on at {first} behind {offset}")
                offset += len(bodies)
        for place, bodies in self.acknowledged.items():
            if found.get(place, bodies if not must_have_all else None) != bodies:
                raise PromiseBrokenError(
                    f"{place} was acknowledged and is {'lost' if place not in found else 'altered'}"
                )


def recovered(disk: SimulatedFiles) -> tuple[Found, int]:
    """Start on this disk. Returns the batches that it finds, and the end of the log."""
    segments = LogSegments(DIRECTORY, disk)
    segments.load()
    found: Found = {}

    def on_record(header: RecordHeader, position: int, dues: object) -> None:
        try:
            record = segments.read_record(position, header.size)
        except RecordLostError as exc:
            raise PromiseBrokenError(f"{position} was found and can't be read") from exc
        place = header.topic_number, header.first_offset
        if place in found:
            raise PromiseBrokenError(f"{place} is there twice")
        if record.damaged:
            raise PromiseBrokenError(f"{place} is damaged, and nothing damaged it")
        found[place] = tuple(record.body_at(index) for index in range(header.count))

    result = recover_log(segments, files=disk, on_record=on_record)
    segments.close()
    if result.damages:
        raise PromiseBrokenError(f"a tail was taken for damage: {result.damages}")
    return found, result.end


if __name__ == "__main__":
    run_command(__doc__, Script, 100_000)
