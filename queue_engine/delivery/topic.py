"""A topic: takes published messages, and has channels that each get all of them.

A call that fails unexpectedly fences the topic (`fences.py`): it refuses publishes and passes nothing on until
`retry`. Its channels deliver the messages that they have.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from queue_engine.delivery.channel import Channel, ChannelWork
from queue_engine.delivery.fences import Fence, Fences, refusal
from queue_engine.delivery.latency_window import NO_CHANNELS, LatencyWindow, TopicWindow
from queue_engine.delivery.stats import ChannelStats, Figures, Outcome, TopicStats, age_ms
from queue_engine.storage.store import TopicStore
from queue_engine.vocabulary.byte_budget import MemoryBudgets, deferred_limit_reached
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import FencedError, LimitError, StorageError
from queue_engine.vocabulary.figures import TOPIC, field_reader, stats_reader
from queue_engine.vocabulary.flow.pause import Pause
from queue_engine.vocabulary.options.options import MPUB_SIZE_BYTES
from queue_engine.vocabulary.run import Batch
from queue_engine.vocabulary.ticket import DONE, Ticket, failed
from queue_engine.wire.cursor import CursorStats

logger = logging.getLogger(__name__)

# Messages that one turn of the loop moves from the topic to its channels.
PUMP_MESSAGES_MAX = 2_000
# So many messages are appended without waiting for the end of the turn.
GATHERED_MESSAGES_MAX = 4_096

_own_figures = stats_reader(TOPIC)
_own_fields = field_reader(TOPIC)


class TopicWork(ChannelWork, Protocol):
    """The part of `Workload` that a topic uses."""

    def pump_later(self, topic: "Topic") -> None:
        """Messages wait that could go on to the channels: call `pump` once in each turn until it returns False."""

    def flush_later(self, topic: "Topic") -> None:
        """The first publish of a turn has come: call `flush` at the turn's end."""

    def note_append(self, stored: Ticket) -> None:
        """An append is settled, well or not."""


class Topic:
    """One topic. Synchronous; belongs to the engine.

    fences: stops the topic or a channel when something in it fails unexpectedly.
    """

    def __init__(
        self,
        name: str,
        number: int,
        store: TopicStore,
        *,
        budgets: MemoryBudgets,
        workload: TopicWork,
        clock: Clock,
        fences: Fences,
    ) -> None:
        self.name = name
        self.number = number
        self.store = store
        self.paused = False
        self.pause: Pause | None = None  # of the present pause, where its record exists
        self.resume_refused = ""  # why a pause whose end has come goes on
        self.is_deleted = False
        self.fence: Fence | None = None
        self.channels: dict[str, Channel] = {}
        self.on_channels: Callable[[], None] = lambda: None  # called when a channel has come or gone
        self._budgets = budgets
        self._gathered_bytes_max = budgets.gathered_bytes_max
        self._workload = workload
        self._clock = clock
        self._fences = fences
        self._gathered: list[bytes] | None = None  # bodies of this turn
        self._gathered_bytes = 0
        self._gathered_ticket = DONE
        self._deferring_count = 0  # being appended
        self.message_count = 0
        self.message_bytes = 0
        self._counts = (0, 0)  # the last that could be read
        self._window = NO_CHANNELS
        store.watch(self.stop)
        store.set_flowing(True)

    @property
    def title(self) -> str:
        return f"topic {self.name}"

    def stop(self, doing: str, error: Exception) -> FencedError:
        """`doing` failed unexpectedly: publishes are refused and nothing is passed on until `retry`."""
        return self._fences.stop(self, doing, error)

    def retry(self) -> Outcome:
        """Let a fenced topic go on. Raises FencedError when it fails again."""
        if self.fence is not None:
            try:
                self.store.start_over()
                self.store.set_flowing(not self.paused)
                depth = self.store.depth
            except Exception as exc:
                raise self._fences.stop_anew(self, "trying it again", exc) from exc
            self._fences.lift(self)
            for channel in self.channels.values():
                channel.has_moved()
            if self.channels and not self.paused and depth:
                self._workload.pump_later(self)
            return Outcome(depth=depth)
        return Outcome()

    def publish(self, bodies: Sequence[bytes]) -> Ticket:
        """Take messages for all channels, all or nothing, at the end of this turn (`flush`).

        All messages of one turn, from however many connections, become one batch with one publish time, so that a
        message costs one place in a list. They share the ticket: it is done when the clients may get their OK, and
        rejected with StorageError when the disk refuses.
        """
        size = (len(bodies[0]) if len(bodies) == 1 else sum(map(len, bodies))) + MPUB_SIZE_BYTES * len(bodies)
        gathered = self._gathered
        if gathered is not None and self._gathered_bytes + size > self._gathered_bytes_max:
            # The messages of one command stay in one batch, which must fit into a segment of the log.
            self.flush()
            gathered = None
        if gathered is None:
            self._gathered = [*bodies]
            self._gathered_bytes = size
            self._gathered_ticket = Ticket()
            self._workload.flush_later(self)
            return self._gathered_ticket
        gathered += bodies
        self._gathered_bytes += size
        ticket = self._gathered_ticket
        if len(gathered) >= GATHERED_MESSAGES_MAX:
            self.flush()
        return ticket

    def publish_at_once(self, bodies: Sequence[bytes]) -> Ticket:
        """Publish all single messages of a turn: they are appended now, not at the turn's end."""
        self.flush()  # earlier messages come first
        return self._append(bodies)

    def publish_alone(self, bodies: Sequence[bytes], append: Callable[[Batch], Ticket]) -> Ticket:
        """Publish messages that need a batch of their own; `append` gives it to the store."""
        self.flush()  # earlier messages come first
        return self._store(bodies, append, lambda batch, stored: self._appended(batch, stored))

    def flush(self) -> None:
        """Append the messages published in this turn."""
        bodies = self._gathered
        if bodies is None:
            return
        self._gathered = None
        ticket = self._gathered_ticket
        stored = self._append(bodies)
        if stored is DONE:
            ticket.resolve()
        else:
            stored.when_done(lambda settled: ticket.reject(settled.error) if settled.error else ticket.resolve())

    def _append(self, bodies: Sequence[bytes]) -> Ticket:
        return self._store(bodies, self.store.append, self._appended)

    def _store(
        self,
        bodies: Sequence[bytes],
        append: Callable[[Batch], Ticket],
        then: Callable[[Batch, Ticket], None],
    ) -> Ticket:
        """Have a batch of `bodies` appended, and call `then` with it and the settled ticket, which is returned."""
        if self.fence is not None:
            return failed(refusal(self))
        try:
            batch = self.store.make_batch(bodies)
            stored = append(batch)
        except StorageError as exc:
            return failed(exc)
        except Exception as exc:
            return failed(self.stop("appending published messages", exc))
        if stored is DONE:
            then(batch, stored)
        else:
            stored.when_done(lambda settled: then(batch, settled))
        return stored

    def _appended(self, batch: Batch, stored: Ticket) -> None:
        self._workload.note_append(stored)
        if stored.error is None:
            self._published(batch, is_deferred=False)

    def publish_deferred(self, bodies: Sequence[bytes], due_ns: int) -> Ticket:
        """Publish messages that no channel may deliver before `due_ns` (monotonic). They are appended now. Raises
        LimitError beyond the deferred limit; otherwise as `publish`."""
        if self.fence is not None:
            return failed(refusal(self))
        # Deferred messages that wait at the topic will be deferred in each channel.
        try:
            withheld = self.store.deferred_count + self._deferring_count
            cost = self.store.deferral_cost(bodies) * max(1, len(self.channels))
        except Exception as exc:
            return failed(self.stop("counting deferred messages", exc))
        self._check_deferred(self.name, withheld, cost)
        for channel in self.channels.values():
            try:
                waiting = withheld + channel.backlog.deferred_count
            except Exception as exc:
                channel.stop("counting deferred messages", exc)
                continue
            self._check_deferred(f"{self.name}/{channel.name}", waiting, cost)
        self.flush()  # earlier messages come first
        # Counted here until it is in its channels, which count it then.
        self._budgets.deferred.add(cost)
        self._deferring_count += len(bodies)
        ticket = self._store(bodies, lambda batch: self.store.append(batch, due_ns), self._appended_deferred)
        ticket.when_done(lambda _: self._deferral_ended(len(bodies), cost))
        return ticket

    def _deferral_ended(self, count: int, cost: int) -> None:
        self._deferring_count -= count
        self._budgets.deferred.free(cost)

    def _appended_deferred(self, batch: Batch, stored: Ticket) -> None:
        self._workload.note_append(stored)
        if stored.error is None:
            self._published(batch, is_deferred=True)

    def _check_deferred(self, where: str, count: int, cost: int) -> None:
        budgets = self._budgets
        if count >= budgets.deferred_count_max or not budgets.deferred.has_room_for(cost):
            raise LimitError(f"{where}: {deferred_limit_reached(budgets, count)}; the message is not taken")

    def _published(self, batch: Batch, *, is_deferred: bool) -> None:
        self.message_count += len(batch.ids)
        self.message_bytes += batch.body_bytes
        try:
            self._pass_on(is_deferred=is_deferred)
        except Exception as exc:
            # The messages are published, though the channels do not have them yet.
            self.stop("passing messages on to its channels", exc)

    def _pass_on(self, *, is_deferred: bool) -> None:
        for channel in self.channels.values():
            if is_deferred:
                self._workload.schedule(channel)
            elif channel.consumers:
                self._workload.wake(channel)  # one without consumers is woken by the first
        if self.channels and not self.paused and self.store.depth:
            self._workload.pump_later(self)

    def open_channel(self, name: str, number: int, start: int | None = None) -> Channel:
        """Open the channel `name`, which the topic must not have yet, with the messages of its backlog. start: where a
        new one begins, from `plan_channel` of the store."""
        assert name not in self.channels, name
        channel = Channel(
            self.name,
            name,
            number,
            self.store.open_channel(name, number, start),
            budgets=self._budgets,
            workload=self._workload,
            clock=self._clock,
            fences=self._fences,
        )
        self.channels[name] = channel
        self.on_channels()
        self._workload.schedule(channel)  # after a restart it may have deferred messages
        try:
            if not self.paused and self.store.depth:
                self._workload.pump_later(self)
        except Exception as exc:
            self.stop("counting waiting messages", exc)
        return channel

    def delete_channel(self, name: str, *, keep: Callable[[str], None] | None = None) -> Outcome:
        """Drop a channel with all it holds; its consumers are disconnected. topology.json does not name it any more.

        keep: the store retains its messages instead; the outcome counts them."""
        channel = self.channels.pop(name)
        channel.is_deleted = True
        self.on_channels()
        clients = len(channel.consumers)
        for consumer in list(channel.consumers.values()):
            consumer.sink.close_consumer()
        try:
            dropped = channel.let_go()
        except Exception as exc:
            # A channel that can't be counted is deleted nevertheless.
            logger.error("channel deleted uncounted topic=%s channel=%s error=%s", self.name, name, exc)
            dropped = Outcome()
        self._fences.lift(channel)
        (keep or self.store.delete_channel)(name)
        self._workload.schedule(channel)  # nothing is due any more
        return Outcome(
            depth=dropped.depth,
            in_flight=dropped.in_flight,
            deferred=dropped.deferred,
            clients=clients,
            quarantined=dropped.quarantined,
        )

    def counts(self) -> Outcome:
        """Counts of the topic with its channels: waiting, in flight, deferred; its channels and their consumers."""
        outcome = Outcome(channels=len(self.channels))
        try:
            outcome.depth = self.store.depth
        except Exception as exc:
            self.stop("counting waiting messages", exc)
        for channel in self.channels.values():
            outcome.add(channel.counts())
            outcome.clients += len(channel.consumers)
        return outcome

    def pump(self) -> bool:
        """Move waiting messages on to the channels; returns whether more wait. Raises StorageError."""
        if self.fence is not None:
            return False
        moved = 0
        try:
            moved = self.store.pump(PUMP_MESSAGES_MAX)
        except StorageError:
            raise
        except Exception as exc:
            self.stop("passing messages on to its channels", exc)
        finally:
            # Also when the disk refused in the middle: the channels have the messages moved before.
            for channel in self.channels.values():
                self._workload.wake(channel)
                self._workload.schedule(channel)
        return self.fence is None and moved > 0 and self.store.depth > 0

    def hold(self) -> None:
        """Stop the flow to the channels until an act has taken effect or was refused."""
        self.store.set_flowing(False)

    def resume(self) -> None:
        """The act has ended: let messages flow again unless the topic is paused."""
        if not self.paused:
            self.set_running()

    def set_paused(self, pause: Pause | None) -> None:
        """Let messages published from now on wait at the topic, instead of passing them on to the channels. pause: its
        record; None without one."""
        self.paused, self.pause, self.resume_refused = True, pause, ""
        self.store.set_flowing(False)

    def set_running(self) -> None:
        """Let messages flow to the channels."""
        self.paused, self.pause, self.resume_refused = False, None, ""
        self.store.set_flowing(True)
        if self.channels and self.store.depth:
            self._workload.pump_later(self)

    def stats(
        self,
        channels: tuple[ChannelStats, ...],
        cursors: tuple[CursorStats, ...] = (),
        unreadable: str = "",
        windows: tuple[LatencyWindow, ...] = (),
    ) -> TopicStats:
        """windows: of all its channels, in an order that stays. Never fails, as `ChannelFigures.stats`."""
        oldest_ns, disk_bytes, unreadable = self._stored(unreadable)
        return TopicStats(
            depth=self._counts[0],
            backend_depth=self._counts[1],
            oldest_ns=oldest_ns,
            disk_bytes=disk_bytes,
            channels=channels,
            window=self._window_of(windows),
            cursors=cursors,
            number=self.number,
            fenced="" if self.fence is None else self.fence.reason,
            unreadable=unreadable,
            **_own_fields(self),
        )

    def plain(
        self,
        channels: list[Figures],
        *,
        cursors: tuple[CursorStats, ...],
        unreadable: str,
        windows: tuple[LatencyWindow, ...],
        now_ns: int,
    ) -> Figures:
        """The topic's figures for `/stats`, at this moment. now_ns: wall time, to which its age runs.
        Never fails, as `stats`."""
        oldest_ns, disk_bytes, unreadable = self._stored(unreadable)
        figures = _own_figures(self)
        figures["channels"] = channels
        figures["depth"], figures["backend_depth"] = self._counts
        figures["e2e_processing_latency"] = self._window_of(windows) if windows else NO_CHANNELS
        figures["oldest_age_ms"] = age_ms(oldest_ns, now_ns)
        figures["disk_bytes"] = disk_bytes
        figures["fenced"] = "" if self.fence is None else self.fence.reason
        figures["unreadable"] = unreadable
        figures["cursors"] = cursors
        return figures

    def _stored(self, unreadable: str) -> tuple[int | None, int | None, str]:
        """Age and bytes of the messages that wait here, and the error of the disk; the counts go to `_counts`."""
        store = self.store
        try:
            self._counts = store.depth, store.backend_depth
        except Exception as exc:
            self.stop("counting waiting messages", exc)
        try:
            return store.oldest_ns(), store.disk_bytes(), unreadable
        except StorageError as exc:
            return None, None, unreadable or str(exc)
        except Exception as exc:
            self.stop("making its stats", exc)
            return None, None, unreadable

    def _window_of(self, windows: tuple[LatencyWindow, ...]) -> TopicWindow:
        """The same object as before while nothing was finished in any channel."""
        if self._window.parts != windows:
            self._window = TopicWindow(windows) if windows else NO_CHANNELS
        return self._window
