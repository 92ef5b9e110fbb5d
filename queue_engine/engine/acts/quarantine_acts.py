"""Acts on the quarantine of a channel of the log: the most attempts of a message, and redrives.

A redrive lets quarantined messages wait again in their own channel, so many a second, and goes on behind a restart:
topology.json has it until it is done or cancelled. A message quarantined after it began is not part of it, so a message
that fails again is not redriven a second time.
"""

import logging
from collections import deque
from dataclasses import dataclass

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import Outcome
from queue_engine.engine.acts.fence_on_failure import fence_on_failure
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.topology.topology import channel_redriven, max_attempts_set
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.vocabulary.acts.table import check
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import PenstockError, QuarantineError
from queue_engine.vocabulary.flow.redrive import MAX_ATTEMPTS_MOST, RATE_DEFAULT, RATE_MAX, Redrive, RedriveState
from queue_engine.vocabulary.steady_time import SteadyTime
from queue_engine.vocabulary.ticket import DONE, Ticket, after

logger = logging.getLogger(__name__)

# How often the age of quarantined messages is looked at, and how many of a channel wait again then at most.
AGE_INTERVAL_NS = 10 * NS_PER_S
AGED_MAX = 1_000
END_AGAIN_NS = 5 * NS_PER_S


@dataclass(slots=True)
class _Job:
    """A redrive under way. left: the offsets, in their order. credit: messages that the rate allows now."""

    redrive: Redrive
    left: deque[int]
    looked_ns: int
    credit: float = 0.0
    is_ending: bool = False
    end_at_ns: int = 0  # not before, after the disk refused to note the end


class QuarantineActs:
    """The quarantines of one engine. Belongs to the engine's thread."""

    def __init__(self, catalog: Catalog, clock: Clock, steady: SteadyTime) -> None:
        self.topics = catalog.topics
        self._catalog = catalog
        self._clock = clock
        self._steady = steady
        self._jobs: dict[Channel, _Job] = {}
        self._age_at_ns = 0

    def open(self) -> None:
        """Everything is open: go on with the redrives there are."""
        for topic in self._catalog.topics.values():
            for channel in topic.channels.values():
                state = channel.redrive
                if state is not None:
                    self._begin(channel, state.redrive)
                    logger.info("redrive goes on: %s left=%d", channel.title, len(self._jobs[channel].left))

    # Acts.

    @fence_on_failure
    def set_max_attempts(self, topic: str, channel: str, *, max_attempts: int) -> tuple[Outcome, Ticket]:
        """Set after how many deliveries a message that comes back is quarantined; 0: never. Raises InvalidStorageError
        or QuarantineError."""
        if not 0 <= max_attempts <= MAX_ATTEMPTS_MOST:
            raise QuarantineError(f"max_attempts={max_attempts} is not between 0 and {MAX_ATTEMPTS_MOST}")

        def act(outcome: Outcome) -> Ticket:
            one, backlog = self._found("set_max_attempts", topic, channel)
            current = 0 if backlog.quarantine is None else backlog.quarantine.max_attempts
            outcome.already = current == max_attempts

            def in_force() -> Ticket:
                one.backlog.set_max_attempts(max_attempts)
                return DONE

            change = max_attempts_set(self.topics[topic].number, one.number, max_attempts)
            return after(self._catalog.write(change), in_force)

        return self._catalog.act(topic, act)

    @fence_on_failure
    def redrive_channel(
        self, topic: str, channel: str, *, rate: int = RATE_DEFAULT, keeps_attempts: bool = False, by: str = ""
    ) -> tuple[Outcome, Ticket]:
        """Begin to redrive all that is quarantined now. The outcome counts it. rate: messages a second.
        keeps_attempts: their deliveries count on, so the next failure quarantines them again. Raises
        InvalidStorageError or QuarantineError."""
        if not 1 <= rate <= RATE_MAX:
            raise QuarantineError(f"rate={rate} is not between 1 and {RATE_MAX} messages a second")

        def act(outcome: Outcome) -> Ticket:
            one, backlog = self._found("redrive_channel", topic, channel)
            if one in self._jobs:
                raise QuarantineError(f"{topic}/{channel} is being redriven already: cancel that first")
            outcome.quarantined = backlog.quarantined_count
            if not backlog.quarantined_count:
                outcome.already = True
                return DONE
            # After the newest of them, also where the clock was set back since: this time decides which ones they are.
            newest_ns = max(one.since_ns for one in backlog.progress.quarantined.values())
            began_ms = max(self._clock.time_ns(), newest_ns) // NS_PER_MS + 1
            redrive = Redrive(rate, backlog.quarantined_count, began_ms, keeps_attempts, by)

            def in_force() -> Ticket:
                if not one.is_deleted:
                    self._begin(one, redrive)
                return DONE

            change = channel_redriven(self.topics[topic].number, one.number, redrive)
            return after(self._catalog.write(change), in_force)

        return self._catalog.act(topic, act)

    @fence_on_failure
    def cancel_redrive(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Stop a redrive: the rest stays quarantined. The outcome counts the rest, and has one channel when
        there was a redrive. Raises InvalidStorageError."""

        def act(outcome: Outcome) -> Ticket:
            one, backlog = self._found("cancel_redrive", topic, channel)
            job = self._jobs.get(one)
            outcome.quarantined = backlog.quarantined_count
            if job is None:
                outcome.already = True
                return DONE

            def in_force() -> Ticket:
                self._jobs.pop(one, None)
                outcome.quarantined, outcome.channels = backlog.quarantined_count, 1
                one.redrive = RedriveState(job.redrive, len(job.left), "cancelled")
                return DONE

            change = channel_redriven(self.topics[topic].number, one.number, None)
            return after(self._catalog.write(change), in_force)

        return self._catalog.act(topic, act)

    def _found(self, act: str, topic: str, channel: str) -> tuple[Channel, LogBacklog]:
        one = self._catalog.channel(topic, channel)
        check(act, self.topics[topic].store.kind, topic, channel)
        assert isinstance(one.backlog, LogBacklog)
        return one, one.backlog

    # The work.

    def _begin(self, channel: Channel, redrive: Redrive) -> None:
        backlog = channel.backlog
        assert isinstance(backlog, LogBacklog)
        upto_ns = redrive.began_ms * NS_PER_MS
        held = backlog.progress.quarantined
        left = deque(sorted(offset for offset, one in held.items() if one.since_ns < upto_ns))
        self._jobs[channel] = _Job(redrive, left, self._clock.monotonic_ns())
        channel.redrive = RedriveState(redrive, len(left))

    def tick(self, now_ns: int) -> None:
        """Go on with redrives, and let messages wait again that were quarantined too long ago. now_ns: monotonic."""
        if self._catalog.is_closing:
            return
        for channel, job in list(self._jobs.items()):
            self._go_on(channel, job, now_ns)
        if now_ns >= self._age_at_ns:
            self._age_at_ns = now_ns + AGE_INTERVAL_NS
            self._look_around()

    def _go_on(self, channel: Channel, job: _Job, now_ns: int) -> None:
        if channel.is_deleted:
            del self._jobs[channel]
            return
        if channel.fence is not None:
            return
        rate = job.redrive.rate
        # Never more than a second's share at once, also after a stall.
        job.credit = min(job.credit + rate * (now_ns - job.looked_ns) / NS_PER_S, rate)
        job.looked_ns = now_ns
        count = 0
        backlog = channel.backlog
        assert isinstance(backlog, LogBacklog)
        try:
            while job.left and job.credit >= 1:
                # Those that were finished or redriven by hand meanwhile cost nothing.
                if backlog.redrive([job.left.popleft()], keeps_attempts=job.redrive.keeps_attempts):
                    job.credit -= 1
                    count += 1
        except Exception as exc:
            channel.stop("redriving messages", exc)
            return
        if count:
            channel.has_moved()
        channel.redrive = RedriveState(job.redrive, len(job.left))
        if not job.left and not job.is_ending and now_ns >= job.end_at_ns:
            self._end(channel, job, now_ns)

    def _end(self, channel: Channel, job: _Job, now_ns: int) -> None:
        """Note that it is done. Where the disk refuses that, it is tried again; a start finds nothing left to do."""
        job.is_ending = True
        job.end_at_ns = now_ns + END_AGAIN_NS
        topic = self._catalog.topics[channel.topic_name]

        def settled(done: Ticket) -> None:
            job.is_ending = False
            if done.error is None and self._jobs.pop(channel, None) is not None:
                channel.redrive = RedriveState(job.redrive, 0, "done")
                logger.info("redrive is done: %s messages=%d", channel.title, job.redrive.total)

        try:
            self._catalog.write(channel_redriven(topic.number, channel.number, None)).when_done(settled)
        except PenstockError:
            job.is_ending = False

    def _look_around(self) -> None:
        """Let too old messages wait again, and go on with redrives of topics that were restored."""
        now_ns = self._steady.never_early_ns()
        for topic in self._catalog.topics.values():
            for channel in topic.channels.values():
                backlog = channel.backlog
                if channel.fence is not None or not isinstance(backlog, LogBacklog) or backlog.quarantine is None:
                    continue
                if channel.redrive is not None and not channel.redrive.ended and channel not in self._jobs:
                    self._begin(channel, channel.redrive.redrive)
                aged = backlog.quarantine.due_by_age(now_ns, AGED_MAX)
                if aged:
                    backlog.redrive(aged)
                    channel.has_moved()
                    logger.warning(
                        "quarantined longer than --quarantine-max-age, they wait again: %s messages=%d",
                        channel.title,
                        len(aged),
                    )
