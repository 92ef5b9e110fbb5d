"""Crash states of the whole log store: topics, two channels, their progress, merges and removed segments.

    python -m tests.faults.store_crash_states --states 100000 --seed 7

As in `log_crash_states`, an end of the process or of the power is tried at operations all through a script, and a real
start is judged by what its channels then deliver:

- what was acknowledged and not settled comes: always after the end of the process, after a power cut with `always`
- what was settled, and noted on the disk, never comes again; nothing comes twice, altered, or from nowhere
- attempts never go down: exact after the end of the process, after a power cut what the last sync knew
- what is deferred is not delivered before its time, and depth and deferred count are what is then delivered
- what is quarantined is so after the end of the process, is not delivered, and counts; after a power cut it is so, or
  it is delivered as before; waiting, deferred and quarantined messages are all that are not settled
- what an operator finished one by one is settled as by a FIN; what was released or looked at comes as before
- a lease that was taken is there, and so is all that it keeps
- a channel that was rewound or emptied is so, or as it was while nobody was told; a topic that was deleted has left
  nothing to the next one of its name; what waits at a paused topic waits for all its channels
"""

import copy
import errno
import os
from random import Random

from queue_engine.engine.messages.log_messages import LogMessages
from queue_engine.engine.messages.rows import DEFERRED, WAITING
from queue_engine.engine.messages.rows import QUARANTINED as QUARANTINED_STATE
from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.disk.background import Background, Backgrounds, InlineBackground
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogOpening, LogStore
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.errors import OutcomeUnknownError, StorageError
from queue_engine.vocabulary.flow.return_reason import ReturnReason
from queue_engine.vocabulary.run import Run
from queue_engine.vocabulary.ticket import Ticket
from tests.faults.exploring import PowerOffError, PromiseBrokenError, Tally, run_command
from tests.support.clock import ManualClock
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.background import HeldBackground

SEGMENT_BYTES = 4_096
CHECKPOINT_PATH = "/log/checkpoint"
STEPS = 70
READER = "reader"
MAX_ATTEMPTS = 2  # of each first channel
RESERVED = 10_000  # offsets a start goes on at, above all that a script gives

# body → (deliveries made, due Unix ns or 0, offset); due QUARANTINED: it is set aside
Known = dict[bytes, tuple[int, int, int]]
QUARANTINED = -1


def new_store(
    files: SimulatedFiles, clock: ManualClock, policy: SyncPolicy, sync: Background, worker: Background
) -> LogStore:
    settings = LogSettings(
        policy=policy,
        sync_interval_ms=50,
        sync_interval_bytes=1_500,
        segment_bytes=SEGMENT_BYTES,
        memory_count_max=1_000,
        journal_reserve_bytes=0,
        checkpoint_interval_ms=30,
        block_bytes=64,
    )
    return LogStore("/log", settings, files=files, clock=clock, backgrounds=Backgrounds(worker, sync, worker))


class ChannelBook:
    """The acts of a channel, and how many of them are certainly on the disk."""

    def __init__(self, number: int, backlog: LogBacklog) -> None:
        self.number = number
        self.backlog = backlog
        self.held: list[Run] = []
        self.attempts: dict[bytes, int] = {}
        self.delivered: dict[bytes, int] = {}  # the same, and what a full disk kept from being noted
        self.due: dict[bytes, int] = {}  # of those deferred now
        self.settled: set[bytes] = set()
        self.noted: set[bytes] = set()  # settled, and written
        self.synced: set[bytes] = set()  # settled, and on the disk whatever happens
        self.synced_attempts: dict[bytes, int] = {}
        self.aside: set[bytes] = set()  # quarantined
        self.noted_aside: set[bytes] = set()  # quarantined when all entries were written last
        self.moved: set[bytes] = set()  # settled until a rewind that the disk may not know
        self.unsure: set[bytes] = set()  # there before a rewind whose outcome is unknown, until a later sync

    def forget_from(self, offset: int, offset_of: dict[bytes, int]) -> None:
        """Note a rewind: messages from there on come as if for the first time, those before are settled."""
        before = {body for body, its_offset in offset_of.items() if its_offset < offset}
        self.moved |= self.settled - before
        self.settled = set(before)
        self.noted &= before
        self.synced &= before
        self.attempts = {body: made for body, made in self.attempts.items() if body in before}
        self.delivered = {body: made for body, made in self.delivered.items() if body in before}
        self.synced_attempts = {body: made for body, made in self.synced_attempts.items() if body in before}
        self.held.clear()
        self.due.clear()
        self.aside.clear()


class Era:
    """The life of one topic: the next one of its name has nothing of it.

    frozen: what topology.json may say of `released`, one of these.
    """

    def __init__(self, number: int, topic: LogTopicStore) -> None:
        self.number = number
        self.id_base = number << 40
        self.topic = topic
        self.books = [
            ChannelBook(channel, topic.open_channel(f"c{channel}", channel))
            for channel in (10 * number, 10 * number + 1)
        ]
        quarantine = self.books[0].backlog.quarantine
        assert quarantine is not None
        quarantine.max_attempts = MAX_ATTEMPTS
        self.published: dict[bytes, int] = {}  # body → due Unix ns, 0 for none
        self.offset_of: dict[bytes, int] = {}
        self.acknowledged: set[bytes] = set()
        self.frozen: list[int | None] = [None]
        self.is_paused = False
        self.lease_offsets: list[list[int]] = []  # of the lease on the disk, and of those that may be there
        self.is_leased = False

    def opening(self, rng: Random) -> TopicOpening:
        """One of the states of the topic that topology.json may have."""
        channels = {book.number: 0 for book in self.books}
        return TopicOpening(self.topic.name, self.number, self.id_base, RESERVED, rng.choice(self.frozen), channels)


class StoreScript:
    """One process's life."""

    def __init__(
        self,
        seed: int,
        tally: Tally,
        states_max: int,
        *,
        policy: SyncPolicy | None = None,
        files: SimulatedFiles | None = None,
    ) -> None:
        """policy: None for one by chance. files: an empty disk, None for one without faults of its own."""
        self.rng = Random(seed)
        self.tally = tally
        self.states_max = states_max
        self.policy = policy or self.rng.choice([SyncPolicy.ALWAYS, SyncPolicy.ALWAYS, SyncPolicy.OS])
        self.files = SimulatedFiles() if files is None else files
        self.clock = ManualClock()
        self.sync = HeldBackground()
        self.worker = HeldBackground()
        self.store = new_store(self.files, self.clock, self.policy, self.sync, self.worker)
        self.store.open([])
        self.batch_count = 0
        # Another topic, of which only these scripts know: a start takes it for one that was deleted.
        self.beside = self.store.open_topic("beside", 900, id_base=900 << 40)
        self.beside.set_flowing(True)
        self.beside_channel = self.beside.open_channel("c900", 9_000)
        self.era = self._new_era(1)
        self.files.before_operation = self._before
        self.fault: tuple[str, int] | None = None
        self._is_judging = False

    def _new_era(self, number: int, name: str = "t") -> Era:
        topic = self.store.open_topic(name, number, id_base=number << 40)
        topic.set_flowing(True)
        return Era(number, topic)

    def _before(self, operation: str) -> None:
        # A rename is where one truth takes the place of another.
        if self.rng.random() < (0.6 if operation == "rename" else 0.25):
            self.take_state()
        if self.fault is not None and self.fault[0] == operation:
            error = self.fault[1]
            self.fault = None
            raise OSError(error, os.strerror(error))

    def run(self) -> None:
        for _ in range(STEPS):
            if self.tally.states >= self.states_max:
                return
            self._step()
            if self.rng.random() < 0.3:
                self.take_state()
        self.tally.scripts += 1

    def _step(self) -> None:
        rng = self.rng
        act = rng.random()
        book = rng.choice(self.era.books)
        if act < 0.05 and book.aside:
            self._redrive(book)
        elif 0.05 <= act < 0.075:
            self._do_by_hand(book)
        elif act < 0.23:
            self._publish()
        elif act < 0.25:
            self._punch()
        elif act < 0.45:
            self._take(book)
        elif act < 0.65 and book.held:
            self._answer(book)
        elif act < 0.78:
            self._end_turn()
            self.sync.finish()
        elif act < 0.9:
            self.clock.advance(ms=rng.choice([5, 150, 2_500, 2_500, 2_500]))
            for one in self.era.books:
                one.backlog.release_due(self.clock.monotonic_ns(), 100)
            self.store.tick(self.clock.monotonic_ns())
            self._note_written()
            if rng.random() < 0.7:
                self.worker.finish()
        elif act < 0.92:
            self._sync_progress()
        elif act < 0.935:
            self.files.bytes_free = rng.choice([None, None, 200, 2_000])
        elif act < 0.945:
            self.fault = rng.choice([("write", errno.ENOSPC), ("rename", errno.ENOSPC), ("create", errno.ENOSPC)])
        elif act < 0.955:
            self._hold()
        elif act < 0.965:
            self._drain()
        elif act < 0.985:
            rng.choice([self._seek, self._empty, self._pause, self._pause, self._recreate])(book)
        else:
            self.worker.work()

    def _publish(self) -> None:
        rng, era = self.rng, self.era
        self.batch_count += 1
        bodies = [
            b"%d-%d-" % (self.batch_count, index) + rng.randbytes(rng.choice([0, 9, 90]))
            for index in range(rng.randrange(1, 6))
        ]
        due_ns = self.clock.monotonic_ns() + 1_000_000_000 if rng.random() < 0.2 else None
        batch = era.topic.make_batch(bodies)
        for body, one in zip(bodies, batch.ids, strict=True):
            era.published[body] = 0 if due_ns is None else self.clock.time_ns() + 1_000_000_000
            era.offset_of[body] = int(one, 16) - era.id_base
        ticket = era.topic.append(batch, due_ns)

        def settled(one: Ticket) -> None:
            if one.error is None:
                era.acknowledged.update(bodies)
            else:
                for body in bodies:
                    del era.offset_of[body]

        ticket.when_done(settled)
        if rng.random() < 0.7:
            self._end_turn()

    def _hold(self) -> None:
        self._lease_from(self.rng.randrange(self.era.topic.oldest_offset, self.era.topic.end_offset + 1))

    def _lease_from(self, offset: int) -> None:
        """Lease the topic from there on, or move the lease there."""
        era = self.era
        mine = [offset]
        era.lease_offsets.append(mine)
        _, ticket = self.store.leases.take(f"{READER} of {era.topic.name}", era.number, mine[0], 1 << 40)

        def settled(one: Ticket) -> None:
            if one.error is None:
                era.is_leased = True
                del era.lease_offsets[: next(index for index, other in enumerate(era.lease_offsets) if other is mine)]

        ticket.when_done(settled)

    def _drain(self) -> None:
        """Everything that waits is consumed, and maybe leased no longer, so that segments can go."""
        for book in self.era.books:
            for _ in range(20):
                self._take(book)
            while book.held:
                run = book.held.pop()
                book.settled.update(bodies_of(run))
                book.backlog.settle(run.ids)
        self._end_turn()
        self.sync.finish()
        if self.era.lease_offsets and self.rng.random() < 0.7:
            self._lease_from(self.era.topic.end_offset)
        self.clock.advance(ms=2_500)
        self.store.tick(self.clock.monotonic_ns())
        self._note_written()
        self.worker.finish()

    def _punch(self) -> None:
        """Another topic's messages come between and are consumed; segments get old; what is needed of them stays."""
        for _ in range(self.rng.randrange(4, 16)):
            self.beside.append(self.beside.make_batch([self.rng.randbytes(300)] * 2))
            if self.rng.random() < 0.5:
                self._publish()
        self._end_turn()
        self.sync.finish()
        self._drain_beside()
        self._end_turn()
        for ms in (61_000, 11_000, 11_000):
            self.clock.advance(ms=ms)
            self.store.tick(self.clock.monotonic_ns())
            self._note_written()
            if self.rng.random() < 0.8:
                self.worker.finish()

    def _drain_beside(self) -> None:
        channel = self.beside_channel
        try:
            while (run := channel.take(100, 1 << 20)) is not None:
                channel.sent(run)
                channel.settle(run.ids)
        except StorageError:
            pass

    def _seek(self, book: ChannelBook) -> None:
        topic = self.era.topic
        offset = self.rng.randrange(topic.oldest_offset, topic.released + 1)
        before = copy.deepcopy(vars(book) | {"backlog": None})
        book.forget_from(offset, self.era.offset_of)
        prepared = book.backlog.prepare_seek(offset)
        self.worker.finish()
        self.sync.finish()
        if not prepared.done or prepared.error is not None:
            # Refused: it is as it was.
            backlog, moved = book.backlog, book.moved
            vars(book).update(before | {"backlog": backlog})
            book.moved |= moved if not prepared.done else set()
            if isinstance(prepared.error, OutcomeUnknownError):
                book.unsure |= self.era.published.keys()
            return
        book.backlog.seek(offset)
        moved = set(book.moved)
        ticket = self.store.journal.synced()

        def settled(one: Ticket) -> None:
            if one.error is None:
                book.moved -= moved

        ticket.when_done(settled)

    def _empty(self, book: ChannelBook) -> None:
        released = self.era.topic.released
        book.settled |= {body for body, offset in self.era.offset_of.items() if offset < released}
        book.held.clear()
        book.due.clear()
        book.aside.clear()
        book.backlog.empty()

    def _pause(self, book: ChannelBook) -> None:
        """Pause the topic; or empty what waits at it; or let it flow again."""
        era = self.era
        topic = era.topic
        before = era.frozen[-1]
        if not era.is_paused:
            era.is_paused = True
            topic.set_flowing(False)
        elif self.rng.random() < 0.4:
            dropped = {body for body, offset in era.offset_of.items() if topic.released <= offset < topic.end_offset}
            topic.empty()
            for one in era.books:
                one.settled |= dropped
        else:
            era.is_paused = False
            topic.set_flowing(True)
            while topic.pump(1_000):
                pass
        era.frozen = [before, topic.released if era.is_paused else None]
        if self.rng.random() < 0.5:
            del era.frozen[0]  # topology.json was written at once

    def _recreate(self, book: ChannelBook) -> None:
        """Delete the topic, as topology.json has it already, and create another of its name."""
        old = self.era
        self.era = self._new_era(old.number + 1)
        for one in old.books:
            old.topic.delete_channel(f"c{one.number}")
        old.topic.delete()

    def _take(self, book: ChannelBook) -> None:
        try:
            run = book.backlog.take(self.rng.randrange(1, 9), 4_096)
        except StorageError:
            return
        if run is None:
            return
        for body in bodies_of(run):
            if body in book.settled:
                raise PromiseBrokenError(f"{body!r} was settled and comes again without a restart")
            if body in book.aside:
                raise PromiseBrokenError(f"{body!r} is quarantined and comes")
            book.due.pop(body, None)
        book.backlog.sent(run)
        book.delivered |= zip(bodies_of(run), attempts_of(run), strict=True)
        if self.store.journal.error is None:
            # Now the bytes leave: from here on the attempt counts. A full disk may keep it from being noted.
            book.attempts |= zip(bodies_of(run), attempts_of(run), strict=True)
        self._note_written()
        book.held.append(run)

    def _answer(self, book: ChannelBook) -> None:
        run = book.held.pop(self.rng.randrange(len(book.held)))
        bodies = bodies_of(run)
        cut = self.rng.randrange(len(run) + 1)
        book.settled.update(bodies[:cut])
        book.backlog.settle(run.ids[:cut])
        if run.ids[cut:]:
            due_ns = self.clock.monotonic_ns() + 700_000_000 if self.rng.random() < 0.3 else None
            if due_ns is not None:
                for body in bodies[cut:]:
                    book.due[body] = self.clock.time_ns() + 700_000_000
            book.backlog.give_back(run, run.ids[cut:], counted=True, due_ns=due_ns, reason=ReturnReason.REQUEUED)
            self._note_aside(book)

    def _note_aside(self, book: ChannelBook) -> None:
        """Take over what the channel set aside: exactly what was delivered so often."""
        aside = {body for body, offset in self.era.offset_of.items() if offset in book.backlog.progress.quarantined}
        for body in aside - book.aside:
            if book is not self.era.books[0] or book.delivered.get(body, MAX_ATTEMPTS) < MAX_ATTEMPTS:
                raise PromiseBrokenError(f"{body!r} is quarantined after {book.delivered.get(body)} deliveries")
            book.due.pop(body, None)
        book.aside = aside

    def _redrive(self, book: ChannelBook) -> None:
        offsets = list(book.backlog.progress.quarantined)
        chosen = self.rng.sample(offsets, self.rng.randrange(len(offsets) + 1))
        keeps = self.rng.random() < 0.3
        book.backlog.redrive(chosen, keeps_attempts=keeps)
        redriven = {body for body in book.aside if self.era.offset_of[body] in set(chosen)}
        if not keeps:
            # They start anew, also where the disk does not know that yet.
            for known in (book.attempts, book.delivered, book.synced_attempts):
                for body in redriven:
                    known.pop(body, None)
        self._note_aside(book)

    def _do_by_hand(self, book: ChannelBook) -> None:
        """An operator looks at single messages, and finishes or releases some of them."""
        rng, era = self.rng, self.era
        held = {one for run in book.held for one in run.ids}
        messages = LogMessages(era.topic, book.backlog, held, 0)
        bodies = {offset: body for body, offset in era.offset_of.items()}
        offsets = sorted(rng.sample(sorted(bodies), min(len(bodies), rng.choice([1, 3, 9]))))
        states = {bodies[offset]: state for offset, state in messages.states_of(offsets).items()}
        if wrong := [body for body, state in states.items() if (state == QUARANTINED_STATE) != (body in book.aside)]:
            raise PromiseBrokenError(f"{wrong[:3]} are shown as quarantined, or are and are not shown so")
        if returned := [
            body for body, state in states.items() if body in book.settled and state in (WAITING, DEFERRED)
        ]:
            raise PromiseBrokenError(f"{returned[:3]} were settled and are shown as {states[returned[0]]}")
        if rng.random() < 0.8:
            chosen = [body for body, state in states.items() if state in (WAITING, DEFERRED)]
            before = book.backlog.depth + book.backlog.deferred_count
            if chosen:
                messages.finish([era.offset_of[body] for body in chosen])
            if before - book.backlog.depth - book.backlog.deferred_count != len(chosen):
                raise PromiseBrokenError(
                    f"{len(chosen)} of {before} were finished by hand, and the figures say otherwise"
                )
            book.settled.update(chosen)
        else:
            # What was deferred at publication is known by its due time, and stays.
            chosen = [body for body, state in states.items() if state == DEFERRED and not era.published[body]]
            messages.release([era.offset_of[body] for body in chosen])
        for body in chosen:
            book.due.pop(body, None)

    def _end_turn(self) -> None:
        self.store.end_turn()
        self._note_written()

    def _note_written(self) -> None:
        """The journal was flushed, if the disk let it."""
        journal = self.store.journal
        if journal.error is None and not journal.entries.waiting and journal._file is not None:
            for book in self.era.books:
                book.noted = set(book.settled)
                book.noted_aside = set(book.aside)

    def _sync_progress(self) -> None:
        ticket = self.store.journal.synced()
        books = [(book, set(book.settled), dict(book.attempts)) for book in self.era.books]

        def synced(one: object) -> None:
            if ticket.error is None:
                for book, settled, attempts in books:
                    book.unsure.clear()
                    # What was rewound meanwhile is another matter.
                    book.synced |= settled & book.settled
                    book.synced_attempts |= {body: made for body, made in attempts.items() if body in book.attempts}

        self._note_written()
        ticket.when_done(synced)
        self.worker.finish()
        if self.rng.random() < 0.5:
            del self.era.frozen[:-1]

    # States.

    def take_state(self) -> None:
        if self.tally.states >= self.states_max or self._is_judging:
            return
        self._is_judging = True
        try:
            self._take_state()
        finally:
            self._is_judging = False

    def _take_state(self) -> None:
        rng = self.rng
        is_kill = rng.random() < 0.3
        disk = self.files.after_kill() if is_kill else self.files.after_power_cut(rng)
        self.tally.states += 1
        self.tally.kinds[f"{self.policy.value}, {'kill' if is_kill else 'power cut'}"] += 1
        if rng.random() < 0.2:
            self.tally.nested += 1
            disk = self._cut_start(disk, is_kill=is_kill)
        era = self.era
        opening = era.opening(rng)
        topics, found = self._start(disk, opening)
        for book in era.books:
            self._judge(era, book, found[book.number], is_kill=is_kill)
        if era is self.era:
            self._judge_lease(topics[era.number])
        disk_again = disk.after_kill()
        without_derived = rng.random() < 0.5
        if without_derived and disk_again.size_of(CHECKPOINT_PATH) is not None:
            disk_again.unlink(CHECKPOINT_PATH)
        _, again = self._start(disk_again, opening)
        # Where the log begins is in the checkpoint. A start that reads the whole log finds what lies before it: that is
        # finished for all channels, and comes again where the journal that says so was not synced.
        for book in era.books:
            for body in (again[book.number].keys() - found[book.number].keys()) & book.settled:
                del again[book.number][body]
        if again != found and era is self.era:
            why = " without a checkpoint" if without_derived else ""
            raise PromiseBrokenError(f"another start{why} finds something else")

    def _cut_start(self, disk: SimulatedFiles, *, is_kill: bool) -> SimulatedFiles:
        left = self.rng.randrange(25)

        def before(operation: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerOffError

        disk.before_operation = before
        era = self.era
        try:
            self._open(disk, era.opening(self.rng))
        except PowerOffError:
            pass
        disk.before_operation = lambda operation: None
        return disk.after_kill() if is_kill else disk.after_power_cut(self.rng)

    def _open(
        self, disk: SimulatedFiles, *told: TopicOpening
    ) -> tuple[dict[int, LogTopicStore], dict[int, LogBacklog]]:
        clock = ManualClock(monotonic_ns=self.clock.monotonic_ns(), time_ns=self.clock.time_ns())
        _, opening, backlogs = start_store(disk, clock, *told)
        if opening.log.damages or opening.progress.damages:
            raise PromiseBrokenError(f"taken for damage: {opening.log.damages} {opening.progress.damages}")
        return opening.topics, backlogs

    def _start(self, disk: SimulatedFiles, *told: TopicOpening) -> tuple[dict[int, LogTopicStore], dict[int, Known]]:
        """The messages of each channel after a start: all that it would deliver, now and when they are due."""
        topics, backlogs = self._open(disk, *told)
        return topics, {
            number: everything_of(backlogs[number], self.clock, one.id_base) for one in told for number in one.channels
        }

    def _judge(self, era: Era, book: ChannelBook, found: Known, *, is_kill: bool) -> None:
        alien = found.keys() - era.published.keys()
        if alien:
            raise PromiseBrokenError(f"{alien} was never published")
        if era is not self.era:
            return  # somebody asked for its deletion: what of it comes again is right, and so is what does not
        if is_kill or self.policy is SyncPolicy.ALWAYS:
            lost = era.acknowledged - book.settled - book.moved - book.unsure - found.keys()
            if lost:
                raise PromiseBrokenError(f"{len(lost)} acknowledged messages are lost: {sorted(lost)[:3]}")
        again = (found.keys() & (book.noted if is_kill else book.synced)) - book.unsure
        if again:
            raise PromiseBrokenError(f"{again} was settled and comes again")
        aside = {body for body, (_, due_ns, _) in found.items() if due_ns == QUARANTINED}
        if is_kill and not book.unsure and book.aside == book.noted_aside and aside != book.aside:
            raise PromiseBrokenError(f"{sorted(book.aside ^ aside)[:3]} is quarantined, or not, before or after a kill")
        known_attempts = book.attempts if is_kill else book.synced_attempts
        for body, (made, due_ns, offset) in found.items():
            if offset != era.offset_of.get(body, offset):
                raise PromiseBrokenError(f"{body!r} was given offset {era.offset_of[body]} and comes with {offset}")
            if body not in book.unsure and made < known_attempts.get(body, 0):
                raise PromiseBrokenError(f"{body!r} was delivered {known_attempts[body]} times and says {made}")
            due = era.published[body]
            if due > self.clock.time_ns() and not made and due_ns != due:
                raise PromiseBrokenError(f"{body!r} is due at {due} and would come at {due_ns}")

    def _judge_lease(self, topic: LogTopicStore) -> None:
        leased = topic.readers.leases.least_offset(topic.number)
        if leased is None:
            if self.era.is_leased:
                raise PromiseBrokenError("the lease is lost")
        elif [leased] not in self.era.lease_offsets:
            raise PromiseBrokenError(f"the lease keeps from {leased} on, not from one of {self.era.lease_offsets}")
        elif topic.oldest_offset > leased:
            raise PromiseBrokenError(f"{leased} is leased and {topic.oldest_offset} is the oldest offset")


def start_store(
    disk: SimulatedFiles, clock: ManualClock, *told: TopicOpening, policy: SyncPolicy = SyncPolicy.OS
) -> tuple[LogStore, LogOpening, dict[int, LogBacklog]]:
    """A start on this disk, and the channels by number; what waits at topics that flow has gone on to them."""
    store = new_store(disk, clock, policy, InlineBackground(), InlineBackground())
    opening = store.open(told)
    backlogs: dict[int, LogBacklog] = {}
    for one in told:
        topic = opening.topics[one.number]
        topic.set_flowing(True)
        backlogs |= {number: topic.open_channel(f"c{number}", number) for number in one.channels}
        while topic.pump(1_000):
            pass
    return store, opening, backlogs


def everything_of(backlog: LogBacklog, clock: ManualClock, id_base: int, *, has_damage: bool = False) -> Known:
    """All that a channel delivers, now and when it is due; each once, and as many as its figures say.

    has_damage: messages may be lost, which the figures count until they are met."""
    known: Known = {}
    expected = backlog.depth, backlog.deferred_count, backlog.quarantined_count
    counts = [0, 0, 0]

    def take_all(due_ns: int) -> None:
        while (run := backlog.take(50, 1 << 20)) is not None:
            for one, body, made in zip(run.ids, bodies_of(run), attempts_of(run), strict=True):
                if body in known:
                    raise PromiseBrokenError(f"{body!r} comes twice")
                counts[0 if not due_ns else 2 if due_ns == QUARANTINED else 1] += 1
                known[body] = made - 1, due_ns, int(one, 16) - id_base

    take_all(0)
    while (next_due_ns := backlog.next_due_ns()) is not None:
        backlog.release_due(next_due_ns, backlog.deferred_count)
        take_all(clock.time_ns() - clock.monotonic_ns() + next_due_ns)
    backlog.redrive(list(backlog.progress.quarantined), keeps_attempts=True)
    take_all(QUARANTINED)
    if expected != tuple(counts) and not (has_damage and sum(expected) == sum(counts) + backlog.damaged_count):
        raise PromiseBrokenError(f"waiting, deferred, quarantined were {expected}, and {counts} came")
    return known


def bodies_of(run: Run) -> list[bytes]:
    return [run.frame_at(index)[34:] for index in range(len(run))]


def attempts_of(run: Run) -> list[int]:
    return [int.from_bytes(run.frame_at(index)[16:18], "big") for index in range(len(run))]


if __name__ == "__main__":
    run_command(__doc__, StoreScript, 20_000)
