"""A channel: one backlog shared out among its consumers, what they hold, and what became of it."""

from collections.abc import Callable

from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.in_flight import Delivery, InFlightTable
from queue_engine.delivery.latency import LatencyHistogram
from queue_engine.delivery.stats import ChannelStats, ClientStats, InFlightStats, Outcome
from queue_engine.errors import LimitError, RequestError
from queue_engine.message import ATTEMPTS_AT, FRAME_HEADER_BYTES, TIMESTAMP_AT, unpack_attempts, unpack_timestamp
from queue_engine.run import Run
from queue_engine.storage.store import Backlog
from queue_engine.ticket import DONE

# One run to one consumer: large enough that a message costs a slice, small enough that a consumer that stops
# reading costs little beyond its output buffer.
RUN_BYTES_MAX = 64 << 10
# What one channel may send in one turn of the loop before others get theirs.
TURN_RUNS_MAX = 32
# How much one pass of the scan loop does for one channel.
EXPIRED_DELIVERIES_MAX = 256
DUE_MESSAGES_MAX = 1_000
# How long a second copy of a message in flight is put aside.
REPEATED_DELAY_NS = 1_000_000_000


class Channel:
    """One channel of one topic. Synchronous; the caller says what time it is (monotonic ns).

    wake: called when there may be something to deliver; the owner then calls `deliver` once in this turn.
    schedule: called when the earliest deadline may have come nearer. time_ns: the wall clock, for latencies.
    """

    def __init__(
        self,
        topic_name: str,
        name: str,
        number: int,
        backlog: Backlog,
        *,
        deferred_max: int,
        wake: Callable[["Channel"], None],
        schedule: Callable[["Channel"], None],
        time_ns: Callable[[], int],
    ) -> None:
        self.topic_name = topic_name
        self.name = name
        self.number = number
        self.backlog = backlog
        self.paused = False
        self.is_deleted = False
        self.created = DONE  # belongs to the engine: done when the topology on disk knows this channel
        self.consumers: dict[int, Consumer] = {}
        self.scheduled_ns: int | None = None  # belongs to the DeadlineIndex
        self._latency = LatencyHistogram(time_ns)
        self._in_flight = InFlightTable(self._latency)
        self._deferred_max = deferred_max
        self._wake = wake
        self._schedule = schedule
        self._turn = 0  # which consumer is served first; moves on, so that none is always last
        # Counters since the process started.
        self.finish_count = 0
        self.requeue_count = 0
        self.timeout_count = 0
        self.disconnect_count = 0

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    # Consumers.

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers[consumer.key] = consumer
        self._wake(self)

    def remove_consumer(self, consumer: Consumer, *, gives_back: bool) -> int:
        """Forget a consumer that went away; returns how many messages it gave back.

        gives_back: its messages wait again at once, attempts kept; otherwise they wait for their timeout.
        """
        if self.consumers.pop(consumer.key, None) is None or not gives_back:
            return 0
        count = self._give_back_all(self._in_flight.pop_all(consumer))
        self.disconnect_count += count
        return count

    def set_ready(self, consumer: Consumer, ready_count: int) -> None:
        """RDY."""
        consumer.ready_count = ready_count
        if consumer.credit > 0:
            self._wake(self)

    # From the backlog to the consumers.

    def deliver(self, now_ns: int) -> bool:
        """Send what waits to whoever has credit; returns whether there is more to do in a next turn.

        Raises StorageError when what waits can't be read now; nothing is lost, a later call goes on.
        """
        if self.paused or not self.consumers or self.backlog.depth == 0:
            return False
        consumers = [c for c in self.consumers.values() if c.ready_count > c.in_flight_count and c.sink.is_writable]
        if not consumers:
            return False
        self._turn += 1
        if len(consumers) > 1:
            first = self._turn % len(consumers)
            consumers = consumers[first:] + consumers[:first]
        runs_left = TURN_RUNS_MAX
        is_more = True
        try:
            while consumers and is_more and runs_left > 0:
                # What waits is shared out evenly, so that the first does not take it all.
                share = -(-self.backlog.depth // len(consumers))
                still_ready: list[Consumer] = []
                for consumer in consumers:
                    if not self._send(consumer, min(share, consumer.credit), now_ns):
                        is_more = False
                        break
                    runs_left -= 1
                    if consumer.credit > 0 and consumer.sink.is_writable:
                        still_ready.append(consumer)
                else:
                    consumers = still_ready
                is_more = is_more and self.backlog.depth > 0
        finally:
            self._schedule(self)
        return bool(consumers) and is_more

    def _send(self, consumer: Consumer, count_max: int, now_ns: int) -> bool:
        run = self.backlog.take(count_max, RUN_BYTES_MAX)
        if run is None:
            return False
        if not self._in_flight.may_add(run.ids):
            run = self._without_repeated(run, now_ns)
            if run is None:
                return True
        consumer.in_flight_count += len(run)
        consumer.message_count += len(run)
        self._in_flight.add(consumer, run, now_ns)
        self.backlog.sent(run)
        consumer.sink.send_run(run)
        return True

    def _without_repeated(self, run: Run, now_ns: int) -> Run | None:
        """The part of a run that may be sent. An id that is in flight already waits for a while, aside, so that
        it does not hold up what is behind it.

        A disk queue whose process was killed may hold a message twice.
        """
        seen: set[bytes] = set()
        fresh: list[int] = []
        repeated: list[int] = []
        for index, message_id in enumerate(run.ids):
            is_repeated = message_id in seen or message_id in self._in_flight
            (repeated if is_repeated else fresh).append(index)
            seen.add(message_id)
        later = run.select(repeated)
        self.backlog.give_back(later, later.ids, counted=False, due_ns=now_ns + REPEATED_DELAY_NS)
        return run.select(fresh) if fresh else None

    # From the consumers back.

    def finish(self, consumer: Consumer, ids: list[bytes]) -> list[tuple[bytes, RequestError]]:
        """FIN of one or many; returns those that could not be finished, each with its error."""
        done, errors = self._in_flight.finish(consumer, ids)
        count = len(done)
        self.backlog.settle(done)
        self.finish_count += count
        consumer.finish_count += count
        consumer.in_flight_count -= count
        if consumer.ready_count > consumer.in_flight_count:
            self._wake(self)
        return errors

    def requeue(self, consumer: Consumer, message_id: bytes, delay_ns: int, now_ns: int) -> None:
        """REQ: wait again, at once or after a delay. Raises NotInFlightError, NotOwnerError or LimitError."""
        if delay_ns and self.backlog.deferred_count >= self._deferred_max:
            self._in_flight.owned(consumer, message_id)
            raise LimitError(
                f"{self.backlog.deferred_count} messages are deferred in {self.topic_name}/{self.name}: "
                f"the most is {self._deferred_max}"
            )
        delivery = self._in_flight.remove(consumer, message_id)
        consumer.in_flight_count -= 1
        consumer.requeue_count += 1
        self.requeue_count += 1
        due_ns = now_ns + delay_ns if delay_ns else None
        self.backlog.give_back(delivery.run, delivery.ids, counted=True, due_ns=due_ns)
        if due_ns is not None:
            self._schedule(self)
        self._wake(self)

    def touch(self, consumer: Consumer, message_id: bytes, now_ns: int) -> None:
        """TOUCH. Raises NotInFlightError or NotOwnerError."""
        self._in_flight.touch(consumer, message_id, now_ns)

    # Time.

    def next_deadline_ns(self) -> int | None:
        """The earliest of all deadlines, in flight or deferred; None when there is none."""
        in_flight_ns = self._in_flight.next_deadline_ns()
        due_ns = self.backlog.next_due_ns()
        if in_flight_ns is None or due_ns is None:
            return due_ns if in_flight_ns is None else in_flight_ns
        return min(in_flight_ns, due_ns)

    def expire(self, now_ns: int) -> int:
        """Time out and release what is due, up to a bound; returns how many messages moved."""
        moved = 0
        for delivery, ids in self._in_flight.pop_expired(now_ns, EXPIRED_DELIVERIES_MAX):
            delivery.consumer.in_flight_count -= len(ids)
            delivery.consumer.timeout_count += len(ids)
            self.timeout_count += len(ids)
            self.backlog.give_back(delivery.run, ids, counted=True)
            moved += len(ids)
        moved += self.backlog.release_due(now_ns, DUE_MESSAGES_MAX)
        if moved:
            self._wake(self)
        return moved

    def tidy(self) -> None:
        """Let go of what only costs memory. Called every few seconds."""
        self._in_flight.shed()

    # Acts of operators.

    def pause(self) -> None:
        self.paused = True

    def unpause(self) -> None:
        self.paused = False
        self._wake(self)

    def empty(self) -> Outcome:
        """Drop all that waits, is deferred or is in flight."""
        in_flight = len(self._in_flight)
        for delivery, ids in self._in_flight.pop_all():
            delivery.consumer.in_flight_count -= len(ids)
            self.backlog.settle(ids)
        dropped = self.backlog.empty()
        self._schedule(self)  # nothing is due any more; a deleted channel is not even remembered
        self._wake(self)
        return Outcome(depth=dropped.depth, in_flight=in_flight, deferred=dropped.deferred)

    def forget_in_flight(self) -> None:
        """What is in flight is in flight no more; the backlog is told apart what becomes of it."""
        for delivery, ids in self._in_flight.pop_all():
            delivery.consumer.in_flight_count -= len(ids)

    def has_moved(self) -> None:
        """The backlog was changed: other messages wait, and other ones are due."""
        self._schedule(self)
        self._wake(self)

    def requeue_in_flight(self, *, client_key: int | None = None, message_id: bytes | None = None) -> Outcome:
        """Put messages in flight back now: one, one client's, or all. Raises NotInFlightError for one that is
        not in flight."""
        if message_id is not None:
            delivery = self._in_flight.remove(None, message_id)
            popped = [(delivery, delivery.ids)]
        else:
            consumer = None if client_key is None else self._holder(client_key)
            if client_key is not None and consumer is None:
                return Outcome()
            popped = self._in_flight.pop_all(consumer)
        count = self._give_back_all(popped)
        self.requeue_count += count
        return Outcome(in_flight=count)

    def _holder(self, client_key: int) -> Consumer | None:
        """The consumer with this key: connected, or gone while its messages wait for their timeout."""
        found = self.consumers.get(client_key)
        if found is None:
            holders = (delivery.consumer for delivery in self._in_flight.deliveries())
            found = next((consumer for consumer in holders if consumer.key == client_key), None)
        return found

    def release_deferred(self) -> Outcome:
        """Let all deferred messages wait like the others now."""
        count = self.backlog.release_all_deferred()
        self._wake(self)
        return Outcome(deferred=count)

    def give_back_everything(self) -> int:
        """Before a stop: what is in flight waits again, so that the store can keep it."""
        return self._give_back_all(self._in_flight.pop_all())

    def _give_back_all(self, popped: list[tuple[Delivery, list[bytes]]]) -> int:
        count = 0
        for delivery, ids in popped:
            delivery.consumer.in_flight_count -= len(ids)
            self.backlog.give_back(delivery.run, ids, counted=True)
            count += len(ids)
        if count:
            self._wake(self)
        return count

    # Figures.

    def stats(self, clients: tuple[ClientStats, ...] | None = None) -> ChannelStats:
        backlog = self.backlog
        ready_count = 0
        for consumer in self.consumers.values():
            ready_count += consumer.ready_count
        return ChannelStats(
            topic_name=self.topic_name,
            channel_name=self.name,
            depth=backlog.depth,
            backend_depth=backlog.backend_depth,
            in_flight_count=len(self._in_flight),
            deferred_count=backlog.deferred_count,
            message_count=backlog.message_count,
            finish_count=self.finish_count,
            requeue_count=self.requeue_count,
            timeout_count=self.timeout_count,
            disconnect_count=self.disconnect_count,
            client_count=len(self.consumers),
            ready_count=ready_count,
            paused=self.paused,
            oldest_ns=backlog.oldest_ns(),
            next_due_ns=backlog.next_due_ns(),
            disk_bytes=backlog.disk_bytes(),
            clients=clients,
            number=self.number,
            latency=self._latency.lend(),
        )

    def in_flight_stats(self, now_ns: int, limit: int) -> list[InFlightStats]:
        """The first messages in flight, earliest deadline first."""
        listed: list[InFlightStats] = []
        for delivery in self._in_flight.deliveries():
            index_of = {message_id: index for index, message_id in enumerate(delivery.run.ids)}
            for message_id in self._in_flight.remaining_ids(delivery):
                if len(listed) == limit:
                    return listed
                one = delivery.run.frame_at(index_of[message_id])
                listed.append(
                    InFlightStats(
                        message_id=message_id.decode("ascii", "replace"),
                        client_key=delivery.consumer.key,
                        attempts=unpack_attempts(one, ATTEMPTS_AT)[0],
                        body_bytes=len(one) - FRAME_HEADER_BYTES,
                        published_at_ns=unpack_timestamp(one, TIMESTAMP_AT)[0],
                        held_ms=(now_ns - delivery.sent_ns) // 1_000_000,
                        deadline_in_ms=(delivery.deadline_ns - now_ns) // 1_000_000,
                    )
                )
        return listed
