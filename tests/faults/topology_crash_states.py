"""Crash states of topology.json and its changes: what a start finds after an end at any step, with faults between.

    python -m tests.faults.topology_crash_states --states 200000 --seed 7

Topics of both kinds are made, deleted, paused with an author and an end, resumed and merged on a disk in memory; those
of the log go to the trash, and come back under a name of their own.
Before each operation of the disk the process or the power ends, and a real start is judged by what it finds to exist:

- exactly what is in force; while an act is being written, that with it or without it
- after an act whose outcome is unknown, that with it or without it, until the disk has been written anew
- what was refused is never there, and a start is never stopped
"""

import errno
from random import Random

from queue_engine.engine.topology.change_log import RETRY_NS, ChangeLog
from queue_engine.engine.topology.entries import TopicEntry
from queue_engine.engine.topology.files import TopologyFiles
from queue_engine.engine.topology.topology import (
    Change,
    topic_created,
    topic_deleted,
    topic_paused,
    topic_restored,
    topic_trashed,
)
from queue_engine.engine.topology.trash_entry import TrashEntry
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.vocabulary.errors import OutcomeUnknownError, TopologyError
from queue_engine.vocabulary.flow.pause import Pause
from tests.faults.exploring import PromiseBrokenError, Tally, run_command
from tests.support.disks.simulated_disk import SimulatedFiles

STEPS = 40
DIRECTORY = "/data"
_IN_TRASH = " in the trash: "
ERRORS = (errno.ENOSPC, errno.EIO)

Names = frozenset[str]  # what exists: the names of topics, with what is known of the pause of each, or of its trash


class TopologyScript:
    """One run. in_force: names after the acknowledged acts. allowed: the sets of names that a start may find at this
    moment."""

    def __init__(self, seed: int, tally: Tally, states_max: int) -> None:
        self.rng = Random(seed)
        self.tally = tally
        self.states_max = states_max
        self.files = SimulatedFiles()
        self.files.make_directory(DIRECTORY)
        self.in_force: Names = frozenset()
        self.allowed = {self.in_force}
        self.numbers: dict[str, int] = {}
        self.logs: set[int] = set()  # the numbers of those of the log
        self.now_ns = 0
        self.faults_in = -1  # operations until one fails; -1: none does
        self.log = self._open()

    def _open(self) -> ChangeLog:
        log = ChangeLog(DIRECTORY, self.files, InlineBackground())
        log.read()
        return log

    def run(self) -> None:
        self.tally.scripts += 1
        self.files.before_operation = self._before
        self._begin()
        for _ in range(STEPS):
            if self.tally.states >= self.states_max:
                return
            self.faults_in = self.rng.randrange(12) if self.rng.random() < 0.25 else -1
            self.rng.choices([self._act, self._tick, self._merge, self._restart], [10, 3, 2, 1])[0]()
            self.faults_in = -1
            self._settle()
            self._judge()

    def _begin(self) -> None:
        try:
            self.log.begin([])
        except TopologyError:
            pass

    def _act(self) -> None:
        chance = self.rng.random()
        if self.in_force and chance < 0.3:
            listed = self.rng.choice(sorted(self.in_force))
            change, then = topic_deleted(self.numbers[_name_of(listed)]), self.in_force - {listed}
        elif self.in_force and chance < 0.6:
            listed = self.rng.choice(sorted(self.in_force))
            name = _name_of(listed)
            if _IN_TRASH in listed or (chance < 0.45 and self.numbers[name] in self.logs):
                self._trash(listed)
                return
            # Paused, paused for longer, or resumed.
            pause = Pause("ada", "a repair", 1, self.rng.randrange(2, 9)) if self.rng.random() < 0.7 else None
            change = topic_paused(self.numbers[name], pause is not None, pause)
            then = self.in_force - {listed} | {_listed(TopicEntry(name, paused=pause is not None, pause=pause))}
        else:
            number = len(self.numbers) + 1
            name = f"t{number}"
            self.numbers[name] = number
            # Of a disk queue a clean stop tells nsqd, in a file that is none of the others.
            is_log = self.rng.random() < 0.5
            entry = (
                TopicEntry(name, number=number, storage="log", id_base=1) if is_log else TopicEntry(name, number=number)
            )
            if is_log:
                self.logs.add(number)
            change, then = topic_created(entry), self.in_force | {name}
        self._make(change, then)

    def _trash(self, listed: str) -> None:
        """A topic goes to the trash, or comes back from there; paused ones come back paused."""
        name, rest = _name_of(listed), self.in_force - {listed}
        number = self.numbers[name]
        if _IN_TRASH in listed:
            again = f"{name}.r"
            self.numbers[again] = number
            paused = listed.removeprefix(name).partition(_IN_TRASH)[0]
            self._make(topic_restored(number, again), rest | {again + paused})
            return
        entry = TrashEntry(number, "delete_topic", "ada", 1, self.rng.randrange(2, 9), waiting=3, channels=1)
        self._make(topic_trashed(number, entry), rest | {listed + _IN_TRASH + str(entry)})

    def _make(self, change: Change, then: Names) -> None:
        before = set(self.allowed)
        self.allowed |= {then}
        ticket = self.log.append(change)
        if ticket.error is None:
            self.in_force = then
            self.allowed = {then}
        elif not isinstance(ticket.error, OutcomeUnknownError):
            self.allowed = before
        self._settle()

    def _settle(self) -> None:
        """Once the disk was written anew there is only what is in force."""
        if self.log.error is None:
            self.allowed = {self.in_force}

    def _tick(self) -> None:
        self.now_ns += 2 * RETRY_NS
        self.log.tick(self.now_ns)

    def _merge(self) -> None:
        self._restart(is_clean=True)

    def _restart(self, *, is_clean: bool = False) -> None:
        """A stop, or an end of the process; then a start."""
        self.faults_in = -1 if is_clean else self.faults_in
        if is_clean:
            try:
                self.log.close(lambda state: None)
            except TopologyError:
                pass
        else:
            self.log.abandon()
        if self.log.error is not None:
            # What the next one finds is what there is from then on, once it could sync it.
            self.in_force = names_on(self.files)
        self.log = self._open()
        self._begin()
        self._settle()

    def _before(self, operation: str) -> None:
        self._judge()
        if self.faults_in == 0:
            self.faults_in = -1
            raise OSError(self.rng.choice(ERRORS), operation)
        if self.faults_in > 0:
            self.faults_in -= 1

    def _judge(self) -> None:
        if self.tally.states >= self.states_max:
            return
        is_kill = self.rng.random() < 0.4
        disk = self.files.after_kill() if is_kill else self.files.after_power_cut(self.rng)
        self.tally.states += 1
        self.tally.kinds["kill" if is_kill else "power cut"] += 1
        try:
            found = names_on(disk)
        except TopologyError as exc:
            raise PromiseBrokenError(f"the start is stopped: {exc}") from exc
        if found not in self.allowed:
            allowed = " or ".join(str(sorted(one)) for one in self.allowed)
            raise PromiseBrokenError(f"a start finds {sorted(found)}, and {allowed} is in force")
        again = ChangeLog(DIRECTORY, disk, InlineBackground())
        again.read()
        again.begin([])
        if again.error is not None or names_on(disk) != found:
            raise PromiseBrokenError("a start changes what there is")


def names_on(disk: SimulatedFiles) -> Names:
    """The topics a start on this disk would find. Raises TopologyError."""
    return frozenset(map(_listed, TopologyFiles(DIRECTORY, disk).read().state.topics.values()))


def _listed(topic: TopicEntry) -> str:
    paused = f" {topic.pause}" if topic.paused else ""
    return topic.name + paused + ("" if topic.trash is None else _IN_TRASH + str(topic.trash))


def _name_of(listed: str) -> str:
    return listed.partition(" ")[0]


if __name__ == "__main__":
    run_command(__doc__, TopologyScript, 20_000)
