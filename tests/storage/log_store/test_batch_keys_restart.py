"""Whatever ends the process, a batch key is known when its record is there."""

import os
from random import Random

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.log_store.batch_keys import (
    decode_batch_keys,
)
from queue_engine.vocabulary.errors import BatchKeyConflictError
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.background import HeldBackground
from tests.support.stores.batch_keys import EVERY_OFFSET, KeysBench, file_of, filled, key_of, offsets
from tests.support.stores.log_store import everything

# Lives by chance; more of them on demand.
SEEDS = range(int(os.environ.get("TEST_KEY_SEEDS", "4")))


def test_a_key_is_known_after_a_kill_with_and_without_a_checkpoint_behind_it() -> None:
    bench = filled()
    again = KeysBench(bench.files.after_kill(), 1)
    assert offsets(again) == EVERY_OFFSET
    assert again.opening.log.scanned_records == 2, "those behind the checkpoint"
    with pytest.raises(BatchKeyConflictError):
        again.offset(3, b"other")
    with pytest.raises(BatchKeyConflictError):
        again.offset(8, b"other", b"more")


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_batch_of_which_nothing_came_to_the_disk_is_new_after_a_power_cut(is_synced: bool) -> None:
    bench = filled()
    disk = bench.files.after_kill()
    bench = KeysBench(disk, 1, is_held=True)
    ticket = bench.write(9, b"a")
    bench.log.end_turn()
    if is_synced:
        assert isinstance(bench.sync, HeldBackground)
        bench.sync.work()
    assert not ticket.done
    again = KeysBench(disk.after_power_cut(Random(1)), 1)
    assert again.offset(9, b"a") == (16 if is_synced else None)
    again.written(9, b"a")
    assert list(again.in_log().values()).count(16) == 1


def test_where_no_sync_is_waited_for_a_power_cut_takes_keys_with_their_records() -> None:
    for seed in range(20):
        bench = KeysBench(SimulatedFiles(), policy=SyncPolicy.INTERVAL)
        bench.make(1)
        bench.written(1, b"1")
        bench.checkpoint()
        bench.written(2, b"2")
        bench.checkpoint()
        bench.written(3, b"3")
        assert bench.offset(3, b"3") == 2
        files = bench.files
        assert isinstance(files, SimulatedFiles)
        again = KeysBench(files.after_power_cut(Random(seed)), 1, policy=SyncPolicy.INTERVAL)
        assert again.offset(1, b"1") == 0
        assert (again.offset(3, b"3") is not None) == (key_of(3) in again.in_log())


@pytest.mark.parametrize("has_file", [False, True])
def test_a_checkpoint_writes_no_key_whose_record_is_not_synced(has_file: bool) -> None:
    lost = 0
    for seed in range(20):
        disk = SimulatedFiles()
        bench = KeysBench(disk, policy=SyncPolicy.INTERVAL, is_held=True)
        assert isinstance(bench.sync, HeldBackground)
        assert isinstance(bench.worker, HeldBackground)
        bench.make(1)
        bench.checkpoint()
        bench.worker.finish()
        bench.written(1, b"1")
        bench.clock.advance(ms=200)
        bench.log.tick(bench.clock.monotonic_ns())
        bench.sync.finish()
        if has_file:
            bench.checkpoint()
            bench.worker.finish()
        bench.written(2, b"2")
        bench.checkpoint()
        bench.worker.finish()
        entries, _ = decode_batch_keys(file_of(disk))
        assert [one[0][4:] for one in entries if one is not None] == [key_of(1)]
        again = KeysBench(disk.after_power_cut(Random(seed)), 1, policy=SyncPolicy.INTERVAL)
        assert again.offset(1, b"1") == 0
        assert (again.offset(2, b"2") is not None) == (key_of(2) in again.in_log())
        lost += again.offset(2, b"2") is None
    assert lost > 3


class PromiseBrokenError(BaseException):
    """Something promised does not hold; nobody takes it for trouble with the disk."""


class Script:
    """A life by chance, ended at many of its moments, and what must hold then."""

    def __init__(self, seed: int, policy: SyncPolicy) -> None:
        self.rng = Random(seed)
        self.policy = policy
        self.disk = SimulatedFiles()
        self.bench = KeysBench(self.disk, policy=policy, is_held=True)
        self.acknowledged: set[tuple[int, int]] = set()  # topic and key
        self.deleted: set[int] = set()
        self.positions: dict[tuple[int, int], int] = {}  # of their records
        self.gone = 0  # keys that were known without their record
        self.states = 0
        for number in (1, 2):
            self.bench.make(number)
        self.end_rng = Random(seed)  # of its own: how often the disk is asked does not change the script
        self.disk.before_operation = lambda operation: self.maybe_end() if self.end_rng.random() < 0.03 else None

    def run(self, steps: int) -> None:
        bench, rng = self.bench, self.rng
        backlogs = {number: topic.open_channel("c", number) for number, topic in bench.topics.items()}
        for _ in range(steps):
            act = rng.random()
            topic = rng.choice(sorted(set(bench.topics) - self.deleted))
            if act < 0.4:
                self.write(rng.randrange(1, 40), topic)
            elif act < 0.5:
                store = bench.topics[topic]
                store.append(store.make_batch([b"plain"]))
            elif act < 0.6:
                bench.log.end_turn()
            elif act < 0.75:
                self.work(bench.sync)
            elif act < 0.85:
                self.work(bench.worker)
            elif act < 0.93:
                bench.checkpoint()
            elif act < 0.98:
                if backlogs[topic].depth:
                    list(everything(backlogs[topic]))
            elif len(bench.topics) - len(self.deleted) < 3:
                number = max(bench.topics) + 1
                backlogs[number] = bench.make(number).open_channel("c", number)
            else:
                bench.topics[topic].delete()
                self.deleted.add(topic)
            bench.log.end_turn()
            if rng.random() < 0.1:
                self.maybe_end()

    def work(self, background: HeldBackground | InlineBackground) -> None:
        assert isinstance(background, HeldBackground)
        background.work()
        background.answer()

    def write(self, key: int, topic: int) -> None:
        def settled(done: Ticket) -> None:
            if done.error is not None:
                raise PromiseBrokenError(done.error)
            self.acknowledged.add((topic, key))

        position = self.bench.log.log.end
        ticket = self.bench.write(key, b"%d" % key, b"of %d" % topic * 20, topic=topic)
        if self.bench.log.log.end != position:
            self.positions[topic, key] = position
        ticket.when_done(settled)

    def maybe_end(self) -> None:
        """The process or the machine ends here: what the next one knows."""
        before, self.disk.before_operation = self.disk.before_operation, lambda operation: None
        is_kill = self.end_rng.random() < 0.4
        left = self.disk.after_kill() if is_kill else self.disk.after_power_cut(self.end_rng)
        self.states += 1
        alive = sorted(set(self.bench.topics) - self.deleted)
        for _ in range(2):
            clock = ManualClock()
            clock.advance(ms=10_000_000)
            again = KeysBench(left, *alive, policy=self.policy, clock=clock)
            self.judge(again, alive, must_have_all=is_kill or self.policy is SyncPolicy.ALWAYS)
            left = left.after_power_cut(self.end_rng)
        self.disk.before_operation = before

    def judge(self, again: KeysBench, alive: list[int], *, must_have_all: bool) -> None:
        if again.opening.log.damages:
            raise PromiseBrokenError(again.opening.log.damages)
        for topic in alive:
            in_log = again.in_log(topic)
            for key in range(1, 40):
                offset = again.offset(key, b"%d" % key, b"of %d" % topic * 20, topic=topic)
                # Of what was being removed the segment may still be there.
                is_gone = offset is not None and (
                    again.log.segments.segment_of(self.positions[topic, key]) is None
                    or offset < again.topics[topic].oldest_offset
                )
                if offset != in_log.get(key_of(key)) and not is_gone:
                    raise PromiseBrokenError(f"{key} of {topic} is known at {offset}, in the log {in_log}")
                if must_have_all and offset is None and (topic, key) in self.acknowledged:
                    raise PromiseBrokenError(f"{key} of {topic} was acknowledged and is not known")
                self.gone += is_gone


@pytest.mark.parametrize("policy", list(SyncPolicy))
@pytest.mark.slow(reason="ends at every operation")
def test_whenever_the_end_comes_a_key_is_known_when_its_record_is_there(policy: SyncPolicy) -> None:
    scripts = [Script(seed, policy) for seed in SEEDS]
    for script in scripts:
        script.run(220)
        assert len(script.bench.log.segments.list) > 2
        assert len(script.acknowledged) > 20
    assert sum(script.states for script in scripts) > 10 * len(scripts)
    assert sum(script.gone for script in scripts) > 0, "keys outlive segments"
