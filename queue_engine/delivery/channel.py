"""A channel: shares out one backlog among its consumers, and counts finished, requeued and timed-out messages.

`expire` puts messages that time out, and deferred ones that are due, back into the backlog.

A call that fails unexpectedly fences the channel (`fences.py`): it sends nothing and times nothing out until `retry`.
Fences in this folder's README lists the answer to each command then.
"""

from collections.abc import Generator
from random import random
from typing import Any, Protocol

from queue_engine.delivery.channel_figures import ChannelFigures
from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.fences import Fence, Fences, refusal
from queue_engine.delivery.in_flight import Delivery, InFlightTable
from queue_engine.delivery.latency import LatencyHistogram
from queue_engine.delivery.ramp_pace import RampPace
from queue_engine.delivery.send_limits import SendLimits
from queue_engine.delivery.stats import (
    Outcome,
)
from queue_engine.storage.store import Backlog
from queue_engine.vocabulary.byte_budget import MemoryBudgets
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import RequestError, StorageError
from queue_engine.vocabulary.flow.pause import Pause, Ramp
from queue_engine.vocabulary.flow.redrive import Redrive, RedriveState
from queue_engine.vocabulary.flow.return_reason import ReturnReason
from queue_engine.vocabulary.run import Run, SentRun
from queue_engine.vocabulary.ticket import DONE, Ticket

# One run to one consumer, which takes it whole: large enough that a message costs a slice. A `Sink` may limit it.
RUN_BYTES_MAX = 64 << 10
# Messages that one channel may send in one turn of the loop before the other channels.
TURN_RUNS_MAX = 32
# How much one pass of the scan loop does for one channel.
EXPIRED_DELIVERIES_MAX = 256
DUE_MESSAGES_MAX = 1_000
# How much one step of an act does.
RELEASED_MESSAGES_MAX = 500
# How long a second copy of a message in flight is deferred.
REPEATED_DELAY_NS = 1_000_000_000


class ChannelWork(Protocol):
    """The part of `Workload` that a channel uses."""

    def wake(self, channel: "Channel") -> None:
        """There may be something to deliver: call `deliver` once in this turn."""

    def schedule(self, channel: "Channel") -> None:
        """The earliest deadline may have come nearer: call `expire` when it is due."""

    def wake_soon(self, channel: "Channel") -> None:
        """Call `deliver` again within the next tenths of a second."""

    def free(self, container: list[Any] | dict[Any, Any]) -> None:
        """As `NextTurn.free`."""


class Channel:
    """One channel of one topic. Synchronous; the caller passes the time (monotonic ns).

    fences: stops the channel when something in here fails unexpectedly.
    """

    # Stats read thousands of channels, and wait for memory more than for the processor: so one takes fewer cache lines.
    __slots__ = (
        "_budgets",
        "_clock",
        "_fences",
        "_forgotten",
        "_in_flight",
        "_limits",
        "_pace",
        "_stranded",
        "_turn",
        "_workload",
        "backlog",
        "consumers",
        "disconnect_count",
        "fence",
        "figures",
        "finish_count",
        "is_deleted",
        "name",
        "number",
        "pause",
        "paused",
        "ramp",
        "redrive",
        "requeue_count",
        "resume_refused",
        "scheduled_ns",
        "timeout_count",
        "topic_name",
    )

    def __init__(
        self,
        topic_name: str,
        name: str,
        number: int,
        backlog: Backlog,
        *,
        budgets: MemoryBudgets,
        workload: ChannelWork,
        clock: Clock,
        fences: Fences,
    ) -> None:
        self.topic_name = topic_name
        self.name = name
        self.number = number
        self.backlog = backlog
        self.paused = False
        self.pause: Pause | None = None  # of the present pause, where its record exists
        self.resume_refused = ""  # why a pause whose end has come goes on
        self.ramp: Ramp | None = None
        self._pace: RampPace | None = None  # of the ramp
        self.is_deleted = False
        self.fence: Fence | None = None
        self.redrive: RedriveState | None = None  # the last one
        self.consumers: dict[int, Consumer] = {}
        self.scheduled_ns: int | None = None  # belongs to the ChannelDeadlines
        self._clock = clock
        latency = LatencyHistogram(clock.time_ns)
        self._budgets = budgets
        self._in_flight = InFlightTable(latency, budgets.in_flight, keeps_ages=not backlog.can_reread)
        self._limits = SendLimits(backlog, self._in_flight, budgets)
        self._workload = workload
        self._fences = fences
        # Messages that left the backlog or the in-flight table and could not be put anywhere: they wait for `retry`.
        self._stranded: list[tuple[Run, list[bytes]]] = []
        self._forgotten = 0  # how often acts dropped or moved all that it held
        self._turn = 0  # which consumer is served first; moves on, so that none is always last
        # Counters since the process started.
        self.finish_count = 0
        self.requeue_count = 0
        self.timeout_count = 0
        self.disconnect_count = 0
        self.figures = ChannelFigures(self, self._in_flight, latency, self._limits, clock.time_ns)
        backlog.watch(self.stop)

    @property
    def title(self) -> str:
        return f"channel {self.topic_name}/{self.name}"

    @property
    def in_flight_count(self) -> int:
        """Messages that consumers hold, and those that a fence stranded."""
        if not self._stranded:
            return len(self._in_flight)
        return len(self._in_flight) + sum(len(ids) for _, ids in self._stranded)

    @property
    def held(self) -> InFlightTable:
        """The messages in flight."""
        return self._in_flight

    # Fences.

    def stop(self, doing: str, error: Exception) -> RequestError:
        """`doing` failed unexpectedly: nothing moves until `retry`. Returns the error for the caller of the request."""
        return self._fences.stop(self, doing, error)

    def retry(self) -> Outcome:
        """Let a fenced channel go on: unfinished messages wait again, those in flight included, with their attempts.

        The outcome counts the messages that were in flight. Raises FencedError when it fails again."""
        if self.fence is None:
            self._workload.wake(self)
            return Outcome()
        try:
            self._stranded += self._in_flight.take_apart()
            in_flight = sum(len(ids) for _, ids in self._stranded)
            if self.backlog.start_over():
                self._stranded.clear()
            while self._stranded:
                run, ids = self._stranded[0]
                self.backlog.give_back(run, ids, counted=True)
                del self._stranded[0]
            for consumer in self.consumers.values():
                consumer.in_flight_count = 0
            depth = self.backlog.depth
        except Exception as exc:
            raise self._fences.stop_anew(self, "trying it again", exc) from exc
        self._fences.lift(self)
        self.has_moved()
        return Outcome(depth=depth, in_flight=in_flight)

    # Consumers.

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers[consumer.key] = consumer
        self._workload.wake(self)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Forget a consumer that left; its messages wait for their timeout, or for `taking_back`."""
        if self.consumers.pop(consumer.key, None) is not None:
            self.figures.failures.note_gone(consumer)

    def taking_back(self, consumer: Consumer) -> Generator[None, None, Ticket]:
        """Let the messages of a consumer that left wait again, with their attempts, a delivery with each step. On a
        fenced channel it stays in flight."""
        if self.fence is not None:
            return DONE
        try:
            for delivery, ids in self._in_flight.popping(consumer):
                self.disconnect_count += self._give_back_all([(delivery, ids)], ReturnReason.DISCONNECTED)
                yield
                if self.fence is not None or self.is_deleted:
                    break
        except Exception as exc:
            # The connection is gone; its messages stay in flight.
            self.stop("taking back a consumer's messages", exc)
        return DONE

    def set_ready(self, consumer: Consumer, ready_count: int) -> None:
        """RDY."""
        consumer.ready_count = ready_count
        if consumer.credit > 0:
            self._workload.wake(self)

    def set_closing(self, consumer: Consumer) -> None:
        """CLS: no message is sent to it from now on."""
        consumer.is_closing = True
        consumer.ready_count = 0

    # From the backlog to the consumers.

    def deliver(self, now_ns: int) -> bool:
        """Send waiting messages to consumers with credit; returns whether there is more to do in a next turn.

        Raises StorageError when the backlog can't be read now; nothing is lost, a later call goes on.
        """
        if self.paused or not self.consumers or self.fence is not None:
            return False
        try:
            return self._deliver(now_ns)
        except StorageError:
            raise
        except Exception as exc:
            self.stop("delivering", exc)
            return False

    def _deliver(self, now_ns: int) -> bool:
        if self.backlog.depth == 0:
            return False
        if self._limits.has_spent_in_flight():
            self._budgets.in_flight.when_free(self._wake_again)
            return False
        if self._limits.has_too_many_deferred():
            # A deferred message that is due wakes the channel, too.
            self._budgets.deferred.when_free(self._wake_again)
            return False
        consumers = [c for c in self.consumers.values() if c.ready_count > c.in_flight_count and c.sink.is_writable]
        if not consumers:
            return False
        if self._pace is not None and (pace := self._pace_at(now_ns)) is not None:
            return self._deliver_slowly(pace, consumers, now_ns)
        self._turn += 1
        if len(consumers) > 1:
            first = self._turn % len(consumers)
            consumers = consumers[first:] + consumers[:first]
        runs_left = TURN_RUNS_MAX
        is_more = True
        try:
            while consumers and is_more and runs_left > 0 and not self._limits.has_spent_in_flight():
                # Each consumer gets an even share, so that the first does not take it all.
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
            self._workload.schedule(self)
        return bool(consumers) and is_more

    def ramp_now(self) -> Ramp | None:
        """The ramp that still lasts. The first look behind its end ends it: no delivery may come for long."""
        if self._pace is not None:
            self._pace_at(self._clock.monotonic_ns())
        return self.ramp

    def _pace_at(self, now_ns: int) -> RampPace | None:
        """The pace of the ramp; None when it is over."""
        if self._pace is not None and self._pace.is_over(now_ns):
            self.ramp = self._pace = None
        return self._pace

    def _deliver_slowly(self, pace: RampPace, consumers: list[Consumer], now_ns: int) -> bool:
        """Send as many messages as the ramp allows now, a consumer after the other; the rest soon."""
        self._turn += 1
        first = self._turn % len(consumers)
        try:
            allowed = pace.allowance(self.backlog.depth, now_ns)
            for consumer in consumers[first:] + consumers[:first]:
                share = -(-allowed // len(consumers))
                while allowed > 0 and share > 0 and consumer.credit > 0 and consumer.sink.is_writable:
                    before = consumer.message_count
                    if not self._send(consumer, min(share, allowed, consumer.credit), now_ns):
                        return False
                    sent = consumer.message_count - before
                    if not sent:
                        break  # all of them were deferred: they are in flight already
                    pace.spend(sent)
                    allowed, share = allowed - sent, share - sent
        finally:
            self._workload.schedule(self)
            self._workload.wake_soon(self)
        return False

    def _wake_again(self) -> None:
        self._workload.wake(self)

    def _send(self, consumer: Consumer, count_max: int, now_ns: int) -> bool:
        run = self.backlog.take(count_max, consumer.sink.run_bytes_max)
        if run is None:
            return False
        taken = run
        try:
            if not self._in_flight.may_add(run.ids):
                run = self._without_repeated(run, now_ns)
                if run is None:
                    return True
            if consumer.sample_rate:
                run = self._drawn(run, consumer.sample_rate)
                if run is None:
                    return True
            # Messages of the log are read again from the log; the table needs their ids alone.
            self._in_flight.add(consumer, SentRun.of(run) if self.backlog.can_reread else run, now_ns)
        except Exception:
            self._stranded.append((taken, [one for one in taken.ids if one not in self._in_flight]))
            raise
        consumer.in_flight_count += len(run)
        consumer.message_count += len(run)
        try:
            self.backlog.sent(run)
        except Exception as exc:
            # It is in flight, and not sent: it waits for `retry`, not for its timeout.
            self.stop("noting a delivery", exc)
            return False
        consumer.sink.send_run(run)
        return True

    def _without_repeated(self, run: Run, now_ns: int) -> Run | None:
        """The part of a run that may be sent. A message whose id is in flight already is deferred for a while, so that
        those behind it need not wait.

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

    def _drawn(self, run: Run, sample_rate: int) -> Run | None:
        """The messages of a consumer that wants a sample, `sample_rate` in IDENTIFY: percent, each message by a draw of
        its own. The rest is finished for the whole channel, as with nsqd."""
        selected: list[int] = []
        lost: list[bytes] = []
        share = sample_rate / 100
        for index, message_id in enumerate(run.ids):
            if random() < share:  # noqa: S311 - a sample is no secret
                selected.append(index)
            else:
                lost.append(message_id)
        if lost:
            self.backlog.settle(lost)
        return run.select(selected) if selected else None

    # From the consumers back.

    def finish(self, consumer: Consumer, ids: list[bytes]) -> list[tuple[bytes, RequestError]]:
        """FIN of one or many messages; returns those that could not be finished, each with its error."""
        try:
            done, errors = self._in_flight.finish(consumer, ids)
            self.backlog.settle(done)
        except Exception as exc:
            # A message may be finished or not: one that is not comes again when the channel goes on.
            error = self.stop("finishing messages", exc)
            return [(one, error) for one in ids]
        count = len(done)
        self.finish_count += count
        consumer.finish_count += count
        consumer.in_flight_count -= count
        if consumer.ready_count > consumer.in_flight_count:
            self._workload.wake(self)
        return errors

    def requeue(self, consumer: Consumer, message_id: bytes, delay_ns: int, now_ns: int) -> None:
        """REQ: wait again, at once or after a delay. Never refused when memory is full: the message would only stay in
        flight.
        Raises NotInFlightError, NotOwnerError or FencedError."""
        if self.fence is not None:
            self._in_flight.owned(consumer, message_id)
            raise refusal(self)
        try:
            self._requeue(consumer, message_id, delay_ns, now_ns)
        except RequestError:
            raise
        except Exception as exc:
            raise self.stop("requeuing", exc) from exc

    def _requeue(self, consumer: Consumer, message_id: bytes, delay_ns: int, now_ns: int) -> None:
        delivery = self._in_flight.remove(consumer, message_id)
        consumer.in_flight_count -= 1
        consumer.requeue_count += 1
        self.requeue_count += 1
        due_ns = now_ns + delay_ns if delay_ns else None
        try:
            self.backlog.give_back(
                delivery.run,
                delivery.ids,
                counted=True,
                due_ns=due_ns,
                reason=ReturnReason.REQUEUED,
                consumer=consumer.label,
            )
        except Exception:
            self._stranded.append((delivery.run, delivery.ids))
            raise
        if due_ns is not None:
            self._workload.schedule(self)
        self._workload.wake(self)

    def touch(self, consumer: Consumer, message_id: bytes, now_ns: int) -> None:
        """TOUCH. Raises NotInFlightError or NotOwnerError. A fenced channel takes it, too; nothing times out there."""
        try:
            self._in_flight.touch(consumer, message_id, now_ns)
        except RequestError:
            raise
        except Exception as exc:
            raise self.stop("giving a message more time", exc) from exc

    # Time.

    def next_deadline_ns(self) -> int | None:
        """The earliest of all deadlines, in flight or deferred; None without one, and while the channel is fenced."""
        if self.fence is not None:
            return None
        try:
            in_flight_ns = self._in_flight.next_deadline_ns()
            due_ns = self.backlog.next_due_ns()
        except Exception as exc:
            self.stop("looking for the next deadline", exc)
            return None
        if in_flight_ns is None or due_ns is None:
            return due_ns if in_flight_ns is None else in_flight_ns
        return min(in_flight_ns, due_ns)

    def expire(self, now_ns: int) -> int:
        """Time out and release due messages, up to a bound; returns how many moved."""
        if self.fence is not None:
            return 0
        try:
            expired = self._in_flight.pop_expired(now_ns, EXPIRED_DELIVERIES_MAX)
            for delivery, ids in expired:
                delivery.consumer.timeout_count += len(ids)
                self.timeout_count += len(ids)
            moved = self._put_back(expired, ReturnReason.TIMED_OUT)
            moved += self.backlog.release_due(now_ns, DUE_MESSAGES_MAX)
        except Exception as exc:
            self.stop("timing out due messages", exc)
            return 0
        if moved:
            self._workload.wake(self)
        return moved

    def tidy(self) -> None:
        """Free memory that is not needed. Called every few seconds."""
        try:
            self._in_flight.shed()
            self.backlog.tidy()
        except Exception as exc:
            self.stop("tidying up", exc)

    # Acts of operators.

    def set_paused(self, pause: Pause | None) -> None:
        """Deliver nothing from now on. pause: its record; None without one."""
        self.paused, self.pause, self.resume_refused = True, pause, ""
        self.ramp = self._pace = None

    def set_running(self, ramp: Ramp | None = None) -> None:
        """Deliver again, slowly at first with a ramp."""
        self.paused, self.pause, self.resume_refused = False, None, ""
        self.ramp, self._pace = ramp, None
        if ramp is not None:
            # From here on the time that passes counts, and no clock that is set.
            now_ns = self._clock.monotonic_ns()
            self._pace = RampPace(ramp, self._clock.time_ns() // NS_PER_MS, now_ns)
            self._pace_at(now_ns)  # it may have ended while the server was stopped
        self._workload.wake(self)

    def set_quarantine(self, max_attempts: int, redrive: Redrive | None) -> None:
        """Set the values of topology.json. A kind without a quarantine has neither."""
        self.backlog.set_max_attempts(max_attempts)
        self.redrive = None if redrive is None else RedriveState(redrive, redrive.total)

    def empty(self) -> Outcome:
        """Drop all that waits, is deferred or is in flight."""
        in_flight = len(self._in_flight)
        self.forget_in_flight()
        dropped = self.backlog.empty()
        self._workload.schedule(self)  # nothing is due any more
        self._workload.wake(self)
        return Outcome(
            depth=dropped.depth, in_flight=in_flight, deferred=dropped.deferred, quarantined=dropped.quarantined
        )

    def counts(self) -> Outcome:
        """Counts: waiting, in flight, deferred, quarantined; the last ones where counting fails."""
        depth, deferred = self.figures.backlog_stats.waiting_and_deferred()
        quarantined = self.backlog.quarantine_stats().count
        return Outcome(depth=depth, in_flight=self.in_flight_count, deferred=deferred, quarantined=quarantined)

    def let_go(self) -> Outcome:
        """Count its messages, and leave them to the backlog."""
        outcome = self.counts()
        self.forget_in_flight()
        return outcome

    def forget_in_flight(self) -> None:
        """Empty the in-flight table; the caller moves the messages in the backlog."""
        self._forgotten += 1
        for dropped in self._in_flight.drop_all():
            self._workload.free(dropped)

    def has_moved(self) -> None:
        """The backlog was changed by an act: other messages wait, and other ones are due."""
        self._workload.schedule(self)
        self._workload.wake(self)

    def requeue_in_flight(self, message_id: bytes) -> None:
        """Put one message in flight back now. Raises NotInFlightError for one that is not in flight."""
        delivery = self._in_flight.remove(None, message_id)
        self._requeue_now(delivery, delivery.ids)

    def requeuing(self, outcome: Outcome, client_key: int | None = None) -> Generator[None, None, Ticket]:
        """Put messages in flight back, one client's or all, a delivery with each step. The outcome counts them."""
        consumer = None if client_key is None else self._holder(client_key)
        if client_key is None or consumer is not None:
            for delivery, ids in self._in_flight.popping(consumer):
                self._requeue_now(delivery, ids)
                outcome.in_flight += len(ids)
                yield
                if self.fence is not None or self.is_deleted:
                    break
        return DONE

    def _requeue_now(self, delivery: Delivery, ids: list[bytes]) -> None:
        try:
            self.requeue_count += self._give_back_all([(delivery, ids)], ReturnReason.BY_OPERATOR)
        except Exception as exc:
            raise self.stop("requeuing messages in flight", exc) from exc

    def _holder(self, client_key: int) -> Consumer | None:
        """The consumer with this key: connected, or gone while its messages wait for their timeout."""
        found = self.consumers.get(client_key)
        if found is None:
            holders = (delivery.consumer for delivery in self._in_flight.deliveries())
            found = next((consumer for consumer in holders if consumer.key == client_key), None)
        return found

    def releasing(self, outcome: Outcome) -> Generator[None, None, Ticket]:
        """Let all deferred messages wait like the others now, some with each step. The outcome counts them.

        Messages deferred meanwhile and due before the last of them are released, too; at most as many again."""
        backlog, forgotten = self.backlog, self._forgotten
        try:
            latest_ns, left = backlog.latest_due_ns(), 2 * backlog.deferred_count
            while self.fence is None and not self.is_deleted and self._forgotten == forgotten:
                count = backlog.release_deferred(RELEASED_MESSAGES_MAX)
                outcome.deferred += count
                left -= count
                self._workload.wake(self)
                next_ns = backlog.next_due_ns()
                if next_ns is None or latest_ns is None or next_ns > latest_ns or left <= 0:
                    break
                yield
        except StorageError:
            raise
        except Exception as exc:
            raise self.stop("releasing deferred messages", exc) from exc
        return DONE

    def give_back_everything(self) -> int:
        """Before a stop: messages in flight wait again, so that the store can write them. Raises FencedError where that
        fails."""
        if self.fence is not None:
            return self.retry().in_flight
        try:
            return self._give_back_all(self._in_flight.pop_all(), ReturnReason.UNKNOWN)
        except Exception as exc:
            raise self.stop("taking back messages in flight", exc) from exc

    def _give_back_all(self, popped: list[tuple[Delivery, list[bytes]]], reason: ReturnReason) -> int:
        count = self._put_back(popped, reason)
        if count:
            self._workload.wake(self)
        return count

    def _put_back(self, popped: list[tuple[Delivery, list[bytes]]], reason: ReturnReason) -> int:
        """Put popped messages back into the backlog; from the first that fails on, they are stranded until `retry`."""
        count = at = 0
        try:
            for at, (delivery, ids) in enumerate(popped):  # noqa: B007  (needed where it fails)
                delivery.consumer.in_flight_count -= len(ids)
                self.backlog.give_back(delivery.run, ids, counted=True, reason=reason, consumer=delivery.consumer.label)
                count += len(ids)
        except Exception:
            self._stranded += [(delivery.run, ids) for delivery, ids in popped[at:]]
            raise
        return count
