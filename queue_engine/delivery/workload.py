"""The work of the next turn: topics with messages to append or to pass on, channels with messages to send or due.

A topic or channel is noted when something happens to it, and handled once a turn, however often it was noted.
"""

import logging

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.channel_deadlines import ChannelDeadlines
from queue_engine.delivery.topic import Topic
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.next_turn import NextTurn
from queue_engine.vocabulary.ticket import Ticket

logger = logging.getLogger(__name__)

# After so long a turn leaves the rest to the next: between two turns the sockets are served.
TURN_NS_MAX = 2 * NS_PER_MS
# A topic or channel that the disk refused is tried again at once, then after these intervals, twice as long each time.
STALL_NS_MIN = 200 * NS_PER_MS
STALL_NS_MAX = 10 * NS_PER_S


class Workload:
    """The work of one engine.

    next_turn: work noted here requests it. publish_error: why the disk refused the last publish; None when it did
    not.
    """

    def __init__(self, clock: Clock, next_turn: NextTurn) -> None:
        self._clock = clock
        self._next_turn = next_turn
        self.publish_error: Exception | None = None
        self.free = next_turn.free
        self._unflushed: list[Topic] = []
        self._woken: dict[Channel, None] = {}
        self._pumping: dict[Topic, None] = {}
        # Refused by the disk: when each is tried again; why, until that succeeds; how long it waited last.
        self._stalled: dict[Topic | Channel, int] = {}
        self._failures: dict[Topic | Channel, StorageError] = {}
        self._waits_ns: dict[Topic | Channel, int] = {}
        self._deadlines: ChannelDeadlines[Channel] = ChannelDeadlines()
        self._slow: dict[Channel, None] = {}  # on a ramp: they deliver some more with each tick

    @property
    def has_rest(self) -> bool:
        """Whether this turn left something for the next."""
        return bool(self._woken or self._pumping or self._unflushed)

    @property
    def error(self) -> StorageError | None:
        """Why some topic or channel can't be read or passed on; None when all can."""
        return next(iter(self._failures.values()), None)

    # Noting.

    def flush_later(self, topic: Topic) -> None:
        """Something was published."""
        self._unflushed.append(topic)
        self._next_turn.request()

    def note_append(self, stored: Ticket) -> None:
        """An append ended; its error is why the disk refuses publishes."""
        self.publish_error = stored.error

    def wake(self, channel: Channel) -> None:
        """There may be something to send."""
        if channel not in self._woken and channel not in self._stalled:
            self._woken[channel] = None
            self._next_turn.request()

    def wake_soon(self, channel: Channel) -> None:
        """The channel may send more with the next tick."""
        self._slow[channel] = None

    def wake_slow(self) -> None:
        """Wake the channels that deliver some more with each tick."""
        if self._slow:
            slow, self._slow = self._slow, {}
            for channel in slow:
                if not channel.is_deleted:
                    self.wake(channel)

    def pump_later(self, topic: Topic) -> None:
        """Messages wait at the topic that its channels may get."""
        if topic not in self._pumping and topic not in self._stalled:
            self._pumping[topic] = None
            self._next_turn.request()

    def schedule(self, channel: Channel) -> None:
        """The channel's earliest deadline may have changed."""
        self._deadlines.note(channel)

    def forget(self, topic: Topic) -> None:
        """The topic and its channels were deleted."""
        for one in list(self._failures):
            if one is topic or (isinstance(one, Channel) and one.is_deleted):
                self._recovered(one)

    # Doing.

    def flush(self) -> None:
        """Append published messages."""
        if self._unflushed:
            unflushed, self._unflushed = self._unflushed, []
            for topic in unflushed:
                topic.flush()

    def turn(self, *, delivers: bool) -> None:
        """Deliver and pump: a bounded amount, the rest in the next turn.

        delivers: False while the engine closes: noted work is dropped.
        """
        if not self._woken and not self._pumping:
            return
        woken, self._woken = self._woken, {}
        pumping, self._pumping = self._pumping, {}
        if not delivers:
            return
        began_ns = now_ns = self._clock.monotonic_ns()
        left = iter(woken)
        for channel in left:
            if channel.is_deleted:
                self._recovered(channel)
            else:
                self._deliver(channel, now_ns)
                now_ns = self._clock.monotonic_ns()
                if now_ns - began_ns > TURN_NS_MAX:
                    # The rest comes first in the next turn, when the sockets have been served.
                    self._woken = dict.fromkeys(left) | self._woken
                    break
        left_topics = iter(pumping)
        for topic in left_topics:
            if not (topic.is_deleted or topic.paused):
                self._pump(topic)
                if self._clock.monotonic_ns() - began_ns > TURN_NS_MAX:
                    self._pumping = dict.fromkeys(left_topics) | self._pumping
                    break

    def _deliver(self, channel: Channel, now_ns: int) -> None:
        try:
            if channel.deliver(now_ns):
                self._woken[channel] = None
        except StorageError as exc:
            self._stall(channel, exc)
        else:
            if self._failures:
                self._recovered(channel)

    def _pump(self, topic: Topic) -> None:
        try:
            if topic.pump():
                self._pumping[topic] = None
        except StorageError as exc:
            self._stall(topic, exc)
        else:
            if self._failures:
                self._recovered(topic)

    def _stall(self, one: Topic | Channel, error: StorageError) -> None:
        """The disk refused: try again soon, then at growing intervals. Each reason is logged once."""
        failure = self._failures.get(one)
        if failure is None or str(failure) != str(error):
            logger.error("%s waits for the disk error=%s", one.title, error)
        self._failures[one] = error
        wait_ns = self._waits_ns.get(one, 0)
        self._waits_ns[one] = min(2 * wait_ns, STALL_NS_MAX) if wait_ns else STALL_NS_MIN
        self._stalled[one] = self._clock.monotonic_ns() + wait_ns

    def _recovered(self, one: Topic | Channel) -> None:
        if self._failures.pop(one, None) is not None and not one.is_deleted:
            logger.info("%s goes on", one.title)
        self._waits_ns.pop(one, None)

    def failure_of(self, one: Topic | Channel) -> StorageError | None:
        """Why the disk refuses `one`; None when it does not."""
        return self._failures.get(one) if self._failures else None

    def retry_stalled(self, *, at_once: Topic | Channel | None = None) -> None:
        """Retry topics and channels that the disk refused, when it is time; at_once: this one in any case."""
        if not self._stalled:
            return
        now_ns = self._clock.monotonic_ns()
        for one in [one for one, at_ns in self._stalled.items() if at_ns <= now_ns or one is at_once]:
            del self._stalled[one]
            if one.is_deleted:
                self._recovered(one)
            elif isinstance(one, Channel):
                self.wake(one)
            else:
                self.pump_later(one)

    def expire_due(self, channels_max: int) -> tuple[int, int]:
        """Time out and release due messages of at most `channels_max` channels, earliest deadline first.

        Returns (channels handled, of these dirty: something moved).
        """
        now_ns = self._clock.monotonic_ns()
        due = self._deadlines.pop_due(now_ns, channels_max)
        dirty = 0
        for channel in due:
            if channel.is_deleted:
                continue
            if channel.expire(now_ns):
                dirty += 1
            self._deadlines.note(channel)
        return len(due), dirty
