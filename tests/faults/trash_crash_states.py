"""Crash states of a whole engine while channels are emptied, deleted, made anew by clients, and restored.

    python -m tests.faults.trash_crash_states --states 20000 --seed 7

Scripts of random acts run on a disk in memory. Before operations of the disk the process or the power ends, and a real
engine is started on what is left. It restores all that the trash has, in random order, and consumers take everything:

- each channel delivers exactly what was published since it began and is not finished, each message once
- attempts are exact: one more than there were deliveries
- the trash is empty then, and so is every channel after another restart
"""

from collections.abc import Callable
from functools import partial
from random import Random

from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.storage.disk.background import Background, Backgrounds, InlineBackground
from queue_engine.vocabulary import pieces
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.pieces import PIECE_NS
from tests.faults.exploring import PromiseBrokenError, Tally, run_command
from tests.support.clock import ManualClock
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.engine import Client, settle
from tests.support.stores.background import HeldBackground

DIRECTORY = "/nowhere"
STEPS = 25
PER_OPERATION = 0.2  # of the disk's operations, how many are ends of the process or the power
TOPIC = "t"
CHANNELS = ("a", "b")
SEGMENT_BYTES = 1 << 20
# With the tick before, all that was finished is on the disk.
SYNC_MS = 250

Attempts = dict[bytes, int]


class Worker(HeldBackground):
    """Does each job at once, until it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = False

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        super().submit(job, done)
        if not self.is_held:
            self.finish()


def new_engine(files: SimulatedFiles, clock: ManualClock, worker: Background | None = None) -> Engine:
    options = Options(
        data_path=DIRECTORY, storage="log", samples_interval_ms=0, log_segment_bytes=SEGMENT_BYTES, max_msg_size=60_000,
        max_body_size=60_000,
    )  # fmt: skip
    engine = Engine(options, clock=clock, files=files, backgrounds=Backgrounds.of(worker or InlineBackground()))
    engine.open()
    return engine


class TrashScript:
    """One process's life. open: channel → body → deliveries, of all that is not finished."""

    def __init__(self, seed: int, tally: Tally, states_max: int) -> None:
        self.rng = Random(seed)
        self.tally = tally
        self.states_max = states_max
        self.files = SimulatedFiles()
        self.files.make_directory(DIRECTORY)
        self.clock = ManualClock()
        self.worker = Worker()
        self.engine = new_engine(self.files, self.clock, self.worker)
        self.count = 0
        self.open: dict[str, Attempts] = {name: {} for name in CHANNELS}
        self.engine.acts.create_topic(TOPIC)
        for name in CHANNELS:
            self.engine.acts.create_channel(TOPIC, name)
        self._sync()

    def run(self) -> None:
        self.tally.scripts += 1
        self.files.before_operation = self._before
        steps = [self._publish, self._consume, self._empty, self._delete, self._make, self._restore, self._rewind]
        steps += [self._rest, self._delete_topic, self._empty_topic, self._finish_meanwhile]
        for _ in range(STEPS):
            if self.tally.states >= self.states_max:
                return
            self.rng.choices(steps, [4, 4, 3, 3, 2, 3, 1, 2, 1, 1, 3])[0]()

    def _sync(self) -> None:
        settle(self.engine)
        self.clock.advance(ms=SYNC_MS)
        self.engine.tick()
        settle(self.engine)
        self.engine.tick()

    # Steps. While messages move nothing ends: what is then on the disk is the store's own promise.

    def _quietly(self) -> None:
        self.files.before_operation = lambda operation: None

    def _loudly(self) -> None:
        self._sync()
        self.files.before_operation = self._before

    def _publish(self) -> None:
        self._quietly()
        bodies = [b"%d" % number for number in range(self.count, self.count + self.rng.randint(1, 6))]
        self.count += len(bodies)
        if self.rng.random() < 0.3:
            self.engine.publish(TOPIC, bodies, defer_ms=self.rng.choice([1, 3_600_000]))
        else:
            self.engine.publish(TOPIC, bodies)
        for attempts in self.open.values():
            attempts.update(dict.fromkeys(bodies, 0))
        self._loudly()

    def _consume(self) -> None:
        """Some are finished, some deferred, some left in flight."""
        name = self.rng.choice(CHANNELS)
        if name not in self.engine.topics[TOPIC].channels:
            return
        self._quietly()
        client = Client(self.engine, TOPIC, name, ready=self.rng.randint(1, 5))
        client.ready(0)
        for one in client.sink.received:
            before = self.open[name].get(one.body)
            if before is None:
                raise PromiseBrokenError(f"{name} delivers {one.body!r}, which is finished")
            if one.attempts != before + 1:
                raise PromiseBrokenError(f"{name}: {one.body!r} has {one.attempts} attempts after {before} deliveries")
            self.open[name][one.body] = one.attempts
            chance = self.rng.random()
            if chance < 0.5:
                client.finish(one.id)
                del self.open[name][one.body]
            elif chance < 0.7:
                due_ns = self.rng.choice([1, 3_600_000]) * NS_PER_MS
                client.channel.requeue(client.consumer, one.id, due_ns, self.clock.monotonic_ns())
        if self.rng.random() < 0.5:
            client.leave()
        self._loudly()

    def _empty(self) -> None:
        self._act(lambda name: self.engine.acts.empty_channel(TOPIC, name))

    def _delete(self) -> None:
        self._act(lambda name: self.engine.acts.delete_channel(TOPIC, name))

    def _act(self, act: object) -> None:
        name = self.rng.choice(CHANNELS)
        if name in self.engine.topics[TOPIC].channels:
            act(name)
            settle(self.engine)

    def _delete_topic(self) -> None:
        """It is restored at once."""
        outcome, _ = self.engine.acts.delete_topic(TOPIC)
        settle(self.engine)
        restore(self.engine, outcome.trash)

    def _empty_topic(self) -> None:
        """With its channels; paused, so that messages wait at the topic, too."""
        if len(self.engine.topics[TOPIC].channels) < len(CHANNELS):
            return
        self.engine.acts.pause_topic(TOPIC)
        self._publish()
        self.engine.acts.empty_topic(TOPIC, channels_too=self.rng.random() < 0.5)
        self.engine.acts.unpause_topic(TOPIC)
        settle(self.engine)

    def _make(self) -> None:
        """A client makes a channel anew."""
        self.engine.acts.create_channel(TOPIC, self.rng.choice(CHANNELS))
        settle(self.engine)

    def _rewind(self) -> None:
        """Back to the first message that is not finished: nothing finished comes again, and all else does, once."""
        name = self.rng.choice(CHANNELS)
        channel = self.engine.topics[TOPIC].channels.get(name)
        if channel is not None and not any(one.channel == name for one in self.engine.trash.list()):
            offset = channel.backlog.progress.floor
            self.engine.acts.rewind_channel(TOPIC, name, target=Target(offset=offset), keep_finished=True)
            settle(self.engine)

    def _rest(self) -> None:
        """So long that the journal is merged."""
        self.clock.advance(ms=3_000)
        for _ in range(3):
            self.engine.tick()
            settle(self.engine)

    def _restore(self) -> None:
        entries = self.engine.trash.list()
        if entries:
            restore(self.engine, self.rng.choice(entries).id)

    def _finish_meanwhile(self) -> None:
        """Consumers take and finish messages while an act is on its way to the disk, a step of it with each turn."""
        name = self.rng.choice(CHANNELS)
        if name not in self.engine.topics[TOPIC].channels:
            return
        self._quietly()
        client = Client(self.engine, TOPIC, name, ready=self.rng.randint(1, 5))
        for one in client.sink.received:
            self.open[name][one.body] = one.attempts
        entries = [one for one in self.engine.trash.list() if one.channel in ("", name)]
        acts: list[Callable[[], object]] = [
            lambda: self.engine.acts.empty_channel(TOPIC, name),
            lambda: self.engine.acts.delete_channel(TOPIC, name),
            *(partial(self.engine.trash.restore_trash, TOPIC, trash=one.id) for one in entries),
        ]
        self.worker.is_held, pieces.PIECE_NS = True, 0
        self.rng.choice(acts)()
        for turn in range(self.rng.choice([2, 5, 10])):
            if turn:
                self.engine.turn()
            self._finish_one(client, name)
            if self.rng.random() < 0.3 and self.tally.states < self.states_max:
                self.tally.states += 1
                self.tally.kinds["kill while an act waits"] += 1
                judge(self.files.after_kill(), self.open, self.rng)
            if self.rng.random() < 0.4:
                self.worker.work()
                self.worker.answer()
        self.worker.is_held = False
        while self.worker.is_busy or self.engine.has_work:
            self.worker.finish()
            settle(self.engine)
        for one in client.sink.received:
            self.open[name][one.body] = max(self.open[name][one.body], one.attempts)
        pieces.PIECE_NS = PIECE_NS
        client.leave()
        self._loudly()

    def _finish_one(self, client: Client, name: str) -> None:
        """A message that was taken before the act, or since."""
        received = client.sink.received
        if received:
            one = received.pop(self.rng.randrange(len(received)))
            if not client.channel.finish(client.consumer, [one.id]):
                del self.open[name][one.body]
        self.engine.turn()
        for one in received:
            self.open[name][one.body] = max(self.open[name].get(one.body, 0), one.attempts)

    # Ends.

    def _before(self, operation: str) -> None:
        if self.tally.states >= self.states_max or self.rng.random() >= PER_OPERATION:
            return
        is_kill = self.rng.random() < 0.5
        disk = self.files.after_kill() if is_kill else self.files.after_power_cut(self.rng)
        self.tally.states += 1
        self.tally.kinds["kill" if is_kill else "power cut"] += 1
        judge(disk, self.open, self.rng)


def restore(engine: Engine, trash: int) -> None:
    _, ticket = engine.trash.restore_trash(TOPIC, trash=trash)
    settle(engine)
    if not ticket.done or ticket.error is not None:
        raise PromiseBrokenError(f"entry {trash} is not restored: {ticket.error}")


def judge(disk: SimulatedFiles, wanted: dict[str, Attempts], rng: Random) -> None:
    clock = ManualClock()
    clock.advance(ms=3_000)
    try:
        engine = new_engine(disk, clock)
    except PenstockError as exc:
        raise PromiseBrokenError(f"the start is stopped: {exc}") from exc
    entries = list(engine.trash.list())
    rng.shuffle(entries)
    entries.sort(key=lambda one: one.act != "delete_topic")  # its channels can't be restored before it
    for one in entries:
        restore(engine, one.id)
    if left := engine.trash.list():
        raise PromiseBrokenError(f"the trash still has {left}")
    engine.acts.unpause_topic(TOPIC)
    clock.advance(ms=2 * 3_600_000)
    for name in CHANNELS:
        engine.acts.create_channel(TOPIC, name)
        settle(engine)
        client = Client(engine, TOPIC, name, ready=2_500)
        while engine.is_pass_dirty(*engine.scan_pass()):
            pass
        settle(engine)
        found = sorted((one.body, one.attempts) for one in client.sink.received)
        expected = sorted((body, made + 1) for body, made in wanted[name].items())
        if found != expected:
            raise PromiseBrokenError(
                f"{name} delivers {_beside(found, expected)} too much, {_beside(expected, found)} is missing"
            )
        client.finish(*[one.id for one in client.sink.received])
        client.leave()
    engine.close()
    again = new_engine(disk, clock)
    for name in CHANNELS:
        stats = again.topics[TOPIC].channels[name].figures.stats()
        if stats.depth or stats.deferred_count:
            raise PromiseBrokenError(f"{name} has {stats.depth} finished messages again")
    again.close()


def _beside(some: list[tuple[bytes, int]], others: list[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    return [one for one in some if one not in others]


if __name__ == "__main__":
    run_command(__doc__, TrashScript, 5_000)
