"""Pausing and resuming topics and channels, by an act or by the clock.

A pause records who made it, why, since when, until when, and the depth then (`vocabulary/flow/pause.py`). Pausing
a paused topic or channel again changes the given reason and end, and notes who did that; author and beginning
stay. A value that is not given stays, so nsqd's plain call changes nothing of a present pause.

A pause with an end is resumed by `tick`, through the same durable change as an act, when as much time has passed as was
left when the end was given, or at the start (`vocabulary/steady_time.py`): a clock that is set ends none early. A
resume that the disk refuses is tried again, at growing intervals, and shown as `resume_refused`; the topic or channel
stays paused meanwhile.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import VIA_TIMER, ActRecord, Outcome
from queue_engine.delivery.topic import Topic
from queue_engine.engine.catalog.catalog import Catalog, has_lasting_channels, released_change
from queue_engine.engine.topology.topology import Change, channel_paused, topic_paused
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import PauseError, PenstockError
from queue_engine.vocabulary.flow.pause import PAUSE_MS_MAX, RAMP_MS_MAX, REASON_CHARACTERS_MAX, Pause, Ramp
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.options.durations import format_duration
from queue_engine.vocabulary.ticket import DONE, Ticket

logger = logging.getLogger(__name__)

# A resume that the disk refused is tried again after these intervals, twice as long each time.
RETRY_NS_MIN = NS_PER_S
RETRY_NS_MAX = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class PauseRequest:
    """The request of an act for a pause. by: its author. until_ms: Unix; for_ms: from now on, instead; 0 in either for
    no end. None leaves the value as it is, or empty."""

    by: str = ""
    reason: str | None = None
    until_ms: int | None = None
    for_ms: int | None = None


@dataclass(slots=True)
class _End:
    """The end of one pause. until_ms: Unix, as it was given; due_ns: when that is, monotonic. retry_ns: monotonic time
    before which it is not tried. is_under_way: it is being tried."""

    until_ms: int
    due_ns: int
    retry_ns: int = 0
    wait_ns: int = RETRY_NS_MIN
    is_under_way: bool = False


class Pauses:
    """The pauses of one engine. Belongs to the engine's thread; all acts here begin in the act's turn.

    on_act: gets a record of each resume at a pause's end; None for none.
    """

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self.on_act: Callable[[ActRecord], None] | None = None
        self._catalog = catalog
        self._clock = clock
        self._ends: dict[Topic | Channel, _End] = {}
        self._started_ms = self._now_ms()

    def open(self) -> None:
        """Everything is open: note the ends of the pauses there are."""
        for topic in self._catalog.topics.values():
            self.note(topic)
            for channel in topic.channels.values():
                self.note(channel)

    def _now_ms(self) -> int:
        return self._clock.time_ns() // NS_PER_MS

    # Acts.

    def pause(self, one: Topic | Channel, outcome: Outcome, request: PauseRequest) -> Ticket:
        """Pause a topic or channel, or give its pause another reason or end. The outcome counts messages that wait, are
        in flight and is deferred; `created` is whether it was not paused before. Raises PauseError."""
        now_ms = self._now_ms()
        _check(request, now_ms)
        reason, until_ms = request.reason, request.until_ms
        if request.for_ms is not None:
            until_ms = now_ms + request.for_ms if request.for_ms else 0
        if one.paused and reason is None and until_ms is None:
            _count(one, outcome)
            outcome.already = True
            return DONE
        if one.paused:
            current = one.pause or Pause()
            made = replace(
                current,
                reason=current.reason if reason is None else reason,
                until_ms=current.until_ms if until_ms is None else until_ms,
                changed_by=request.by,
                changed_ms=now_ms,
            )
        else:
            made = Pause(request.by, reason or "", now_ms, until_ms or 0)
        if isinstance(one, Topic):
            return self._pause_topic(one, outcome, made)
        return self._pause_channel(one, outcome, made)

    def _pause_topic(self, topic: Topic, outcome: Outcome, pause: Pause) -> Ticket:
        if is_ephemeral(topic.name):
            self._paused(topic, outcome, self._with_depth(topic, pause))
            return DONE
        if not topic.paused:
            topic.hold()  # the change says up to which offset messages were passed on
        made = self._with_depth(topic, pause)
        offset = topic.store.positions().released
        ticket = self._catalog.write(topic_paused(topic.number, True, made), *released_change(topic, offset))
        ticket.when_done(lambda done: topic.resume() if done.error else self._paused(topic, outcome, made))
        return ticket

    def _pause_channel(self, channel: Channel, outcome: Outcome, pause: Pause) -> Ticket:
        made = self._with_depth(channel, pause)
        topic = self._catalog.topics[channel.topic_name]
        if is_ephemeral(channel.name) or is_ephemeral(topic.name):
            self._paused(channel, outcome, made)
            return DONE
        ticket = self._catalog.write(channel_paused(topic.number, channel.number, True, made))
        ticket.when_done(
            lambda done: None if done.error or channel.is_deleted else self._paused(channel, outcome, made)
        )
        return ticket

    @staticmethod
    def _with_depth(one: Topic | Channel, pause: Pause) -> Pause:
        """A pause that begins now, with the number of waiting messages."""
        if one.paused:
            return pause
        try:
            return replace(pause, depth=_depth_of(one))
        except Exception as exc:
            one.stop("pausing it", exc)
            return pause

    def _paused(self, one: Topic | Channel, outcome: Outcome, pause: Pause) -> None:
        try:
            outcome.created = not one.paused
            one.set_paused(pause)
            _count(one, outcome)
        except Exception as exc:
            one.stop("pausing it", exc)
        self.note(one)

    def resume(self, one: Topic | Channel, outcome: Outcome, *, ramp_ms: int = 0) -> Ticket:
        """Resume a topic or channel that is paused; of one that is not, end the ramp. ramp_ms: how long it delivers
        slowly first; a topic's channels do. The outcome counts waiting messages; `already` is whether there was neither
        a pause nor a ramp to end. Raises PauseError."""
        if not 0 <= ramp_ms <= RAMP_MS_MAX:
            raise PauseError(f"a ramp of {ramp_ms} ms is not between 0 and {format_duration(RAMP_MS_MAX)}")
        now_ms = self._now_ms()
        ramp = Ramp(now_ms, now_ms + ramp_ms) if ramp_ms and one.paused else None
        outcome.already = not one.paused and not (isinstance(one, Channel) and one.ramp_now() is not None)
        if isinstance(one, Topic):
            return self._resume_topic(one, outcome, ramp)
        return self._resume_channel(one, outcome, ramp)

    def _resume_topic(self, topic: Topic, outcome: Outcome, ramp: Ramp | None) -> Ticket:
        slow = [one for one in topic.channels.values() if ramp is not None and not one.paused]

        def in_force() -> None:
            try:
                for channel in slow:
                    if not channel.paused:
                        channel.set_running(ramp)
                topic.set_running()
                outcome.depth = _depth_of(topic)
            except Exception as exc:
                topic.stop("letting it flow", exc)
            self.note(topic)

        if is_ephemeral(topic.name):
            in_force()
            return DONE
        offset = None if has_lasting_channels(topic) else topic.store.positions().released
        changes: list[Change] = [topic_paused(topic.number, False), *released_change(topic, offset)]
        changes += [
            channel_paused(topic.number, channel.number, False, ramp=ramp)
            for channel in slow
            if not is_ephemeral(channel.name)
        ]
        ticket = self._catalog.write(*changes)
        ticket.when_done(lambda done: topic.resume() if done.error else in_force())
        return ticket

    def _resume_channel(self, channel: Channel, outcome: Outcome, ramp: Ramp | None) -> Ticket:
        def in_force() -> None:
            try:
                channel.set_running(ramp)
                _count(channel, outcome)
            except Exception as exc:
                channel.stop("letting it flow", exc)
            self.note(channel)

        topic = self._catalog.topics[channel.topic_name]
        if is_ephemeral(channel.name) or is_ephemeral(topic.name):
            in_force()
            return DONE
        ticket = self._catalog.write(channel_paused(topic.number, channel.number, False, ramp=ramp))
        ticket.when_done(lambda done: None if done.error or channel.is_deleted else in_force())
        return ticket

    # By the clock.

    def note(self, one: Topic | Channel) -> None:
        """Note or forget when the pause of `one` ends."""
        until_ms = one.pause.until_ms if one.paused and one.pause is not None else 0
        scheduled = self._ends.get(one)
        if not until_ms:
            self._ends.pop(one, None)
        elif scheduled is None or scheduled.until_ms != until_ms:
            due_ns = self._clock.monotonic_ns() + until_ms * NS_PER_MS - self._clock.time_ns()
            self._ends[one] = _End(until_ms, due_ns)

    def tick(self, now_ns: int) -> None:
        """Resume due pauses. now_ns: monotonic."""
        if not self._ends or self._catalog.is_closing:
            return
        # An end may be a year away, and a deleted topic takes memory until it is forgotten.
        self._ends = {one: end for one, end in self._ends.items() if not one.is_deleted}
        due = [
            (one, end)
            for one, end in self._ends.items()
            if end.due_ns <= now_ns and now_ns >= end.retry_ns and not end.is_under_way
        ]
        for one, end in due:
            self._end(one, end, now_ns)

    def _end(self, one: Topic | Channel, end: _End, now_ns: int) -> None:
        names = _names_of(one)
        done_by_this: list[Pause] = []

        def begin(outcome: Outcome) -> Ticket:
            # An act before it may have resumed it, given it another end, or deleted it.
            if one.is_deleted or not one.paused or one.pause is None or self._ends.get(one) is not end:
                return DONE
            done_by_this.append(one.pause)
            return self.resume(one, outcome)

        def settled(outcome: Outcome, done: Ticket) -> None:
            end.is_under_way = False
            if done.error is not None:
                self._refused(one, end, str(done.error), now_ns)
            elif done_by_this:
                pause = done_by_this[0]
                late = " while the server was down" if pause.until_ms < self._started_ms else ""
                logger.info(
                    "%s resumed: its pause ended%s by=%s reason=%s",
                    one.title,
                    late,
                    pause.by or "unknown",
                    pause.reason,
                )
                self._tell(names, "", outcome, pause)

        end.is_under_way = True
        try:
            outcome, ticket = self._catalog.act(names[0], begin)
        except PenstockError as exc:
            end.is_under_way = False
            self._refused(one, end, str(exc), now_ns)
            return
        except Exception as exc:
            end.is_under_way = False
            self._refused(one, end, str(one.stop("resuming it", exc)), now_ns)
            return
        ticket.when_done(lambda done: settled(outcome, done))

    def _refused(self, one: Topic | Channel, end: _End, error: str, now_ns: int) -> None:
        """Log a refused resume, once for each reason."""
        end.retry_ns = now_ns + end.wait_ns
        end.wait_ns = min(2 * end.wait_ns, RETRY_NS_MAX)
        if one.resume_refused != error and one.paused and one.pause is not None:
            one.resume_refused = error
            logger.error("%s stays paused beyond its end: it is tried again error=%s", one.title, error)
            self._tell(_names_of(one), error, None, one.pause)

    def _tell(self, names: Sequence[str], error: str, outcome: Outcome | None, pause: Pause) -> None:
        if self.on_act is None:
            return
        topic, channel = names[0], names[1] if len(names) > 1 else ""
        action = "unpause_channel" if channel else "unpause_topic"
        details = {"pause": pause, "was_down": pause.until_ms < self._started_ms}
        self.on_act(ActRecord(action, topic, channel, "", error, outcome, via=VIA_TIMER, details=details))


def _check(request: PauseRequest, now_ms: int) -> None:
    if request.reason is not None and len(request.reason) > REASON_CHARACTERS_MAX:
        raise PauseError(f"the reason has {len(request.reason)} characters and the most is {REASON_CHARACTERS_MAX}")
    if request.for_ms is not None and not 0 <= request.for_ms <= PAUSE_MS_MAX:
        raise PauseError(f"a pause of {request.for_ms} ms is not between 0 and {format_duration(PAUSE_MS_MAX)}")
    if request.until_ms and not now_ms < request.until_ms <= now_ms + PAUSE_MS_MAX:
        raise PauseError(
            f"the end {request.until_ms} is not within {PAUSE_MS_MAX // 86_400_000} days from now, which is {now_ms} "
            "(Unix milliseconds)"
        )


def _names_of(one: Topic | Channel) -> tuple[str, ...]:
    return (one.name,) if isinstance(one, Topic) else (one.topic_name, one.name)


def _depth_of(one: Topic | Channel) -> int:
    return one.store.depth if isinstance(one, Topic) else one.backlog.depth


def _count(one: Topic | Channel, outcome: Outcome) -> None:
    outcome.depth = _depth_of(one)
    if isinstance(one, Channel):
        outcome.in_flight, outcome.deferred = one.in_flight_count, one.backlog.deferred_count
