"""A topic: what is published to it, and the channels that each get all of it."""

from collections.abc import Callable, Sequence

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import ChannelStats, CursorStats, Outcome, TopicStats
from queue_engine.errors import LimitError
from queue_engine.run import Batch
from queue_engine.storage.store import TopicStore
from queue_engine.ticket import DONE, Ticket

# What one turn of the loop moves from the topic to its channels.
PUMP_MESSAGES_MAX = 2_000
# So many messages are appended without waiting for the end of the turn.
GATHERED_MESSAGES_MAX = 4_096
GATHERED_BYTES_MAX = 1 << 20


class Topic:
    """One topic. Synchronous; belongs to the engine.

    pump_later: called when messages wait at the topic that could go on to its channels; the owner then calls
    `pump` once in each turn until it returns False.
    flush_later: called with the first publish of a turn; the owner then calls `flush` at the turn's end.
    on_appended: told of every append, once it is settled, well or not. time_ns: the wall clock.
    """

    def __init__(
        self,
        name: str,
        number: int,
        store: TopicStore,
        *,
        deferred_max: int,
        wake: Callable[[Channel], None],
        schedule: Callable[[Channel], None],
        pump_later: Callable[["Topic"], None],
        flush_later: Callable[["Topic"], None],
        on_appended: Callable[[Ticket], None],
        time_ns: Callable[[], int],
    ) -> None:
        self.name = name
        self.number = number
        self.store = store
        self.paused = False
        self.is_deleted = False
        self.created = DONE  # belongs to the engine: done when the topology on disk knows this topic
        self.channels: dict[str, Channel] = {}
        self._deferred_max = deferred_max
        self._wake = wake
        self._schedule = schedule
        self._pump_later = pump_later
        self._flush_later = flush_later
        self._on_appended = on_appended
        self._time_ns = time_ns
        self._gathered: list[bytes] | None = None  # bodies of this turn
        self._gathered_bytes = 0
        self._gathered_ticket = DONE
        self.message_count = 0
        self.message_bytes = 0
        store.set_flowing(True)

    def publish(self, bodies: Sequence[bytes]) -> Ticket:
        """Take messages for all channels, all or nothing, at the end of this turn (`flush`).

        What comes in one turn, from however many connections, becomes one batch with one publish time: then a
        message costs its place in a list. The ticket, which they share, is done when OK may be said, and
        rejected with StorageError when it may not.
        """
        size = len(bodies[0]) if len(bodies) == 1 else sum(map(len, bodies))
        gathered = self._gathered
        if gathered is not None and self._gathered_bytes + size > GATHERED_BYTES_MAX:
            # What a client sent at once stays whole, and alone where it is large: it must fit a file of the log.
            self.flush()
            gathered = None
        if gathered is None:
            self._gathered = [*bodies]
            self._gathered_bytes = size
            self._gathered_ticket = Ticket()
            self._flush_later(self)
            return self._gathered_ticket
        gathered += bodies
        self._gathered_bytes += size
        ticket = self._gathered_ticket
        if len(gathered) >= GATHERED_MESSAGES_MAX:
            self.flush()
        return ticket

    def publish_at_once(self, bodies: Sequence[bytes]) -> Ticket:
        """The same for what a whole turn brought: nothing is waited for."""
        self.flush()  # what came before comes before
        return self._append(bodies)

    def publish_alone(self, bodies: Sequence[bytes], append: Callable[[Batch], Ticket]) -> Ticket:
        """The same for what may not become one batch with anything else; `append` gives it to the store."""
        self.flush()  # what came before comes before
        batch = self.store.make_batch(bodies)
        stored = append(batch)
        stored.when_done(lambda settled: self._appended(batch, settled))
        return stored

    def flush(self) -> None:
        """Append what this turn brought."""
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
        batch = self.store.make_batch(bodies)
        stored = self.store.append(batch)
        if stored is DONE:
            self._appended(batch, stored)
        else:
            stored.when_done(lambda settled: self._appended(batch, settled))
        return stored

    def _appended(self, batch: Batch, stored: Ticket) -> None:
        self._on_appended(stored)
        if stored.error is None:
            self._published(batch, is_deferred=False)

    def publish_deferred(self, bodies: Sequence[bytes], due_ns: int) -> Ticket:
        """Take messages that no channel may deliver before `due_ns` (monotonic). Raises LimitError beyond the
        deferred limit; otherwise as `publish`, but at once."""
        # Those that wait here are for each channel to come.
        withheld = self.store.deferred_count
        if withheld >= self._deferred_max:
            raise LimitError(f"{withheld} messages are deferred in {self.name}: the most is {self._deferred_max}")
        for channel in self.channels.values():
            waiting = withheld + channel.backlog.deferred_count
            if waiting >= self._deferred_max:
                raise LimitError(
                    f"{waiting} messages are deferred in {self.name}/{channel.name}: the most is {self._deferred_max}"
                )
        self.flush()  # what came before comes before
        batch = self.store.make_batch(bodies)
        ticket = self.store.append(batch, due_ns)
        ticket.when_done(self._on_appended)
        ticket.when_done(lambda settled: None if settled.error else self._published(batch, is_deferred=True))
        return ticket

    def _published(self, batch: Batch, *, is_deferred: bool) -> None:
        self.message_count += len(batch.ids)
        self.message_bytes += batch.body_bytes
        for channel in self.channels.values():
            if is_deferred:
                self._schedule(channel)
            elif channel.consumers:
                self._wake(channel)  # one without consumers is woken by the first
        if self.channels and not self.paused and self.store.depth:
            self._pump_later(self)

    def open_channel(self, name: str, number: int) -> Channel:
        """The channel `name`, which must be new, with what its backlog has kept."""
        assert name not in self.channels, name
        channel = Channel(
            self.name,
            name,
            number,
            self.store.open_channel(name, number),
            deferred_max=self._deferred_max,
            wake=self._wake,
            schedule=self._schedule,
            time_ns=self._time_ns,
        )
        self.channels[name] = channel
        self._schedule(channel)  # what it kept over a restart may be deferred
        if not self.paused and self.store.depth:
            self._pump_later(self)
        return channel

    def delete_channel(self, name: str, durable: Ticket = DONE) -> Outcome:
        """Drop a channel with all it holds; its consumers are disconnected. durable: that it is gone."""
        channel = self.channels.pop(name)
        channel.is_deleted = True
        clients = len(channel.consumers)
        for consumer in list(channel.consumers.values()):
            consumer.sink.close_consumer()
        dropped = channel.empty()
        self.store.delete_channel(name, durable)
        return Outcome(depth=dropped.depth, in_flight=dropped.in_flight, deferred=dropped.deferred, clients=clients)

    def pump(self) -> bool:
        """Move what waits here on to the channels; returns whether there is more to move. Raises StorageError."""
        try:
            moved = self.store.pump(PUMP_MESSAGES_MAX)
        finally:
            # Also when the disk refused in the middle: what was moved before is there.
            for channel in self.channels.values():
                self._wake(channel)
                self._schedule(channel)
        return moved > 0 and self.store.depth > 0

    def pause(self) -> None:
        """Hold what is published from now on here, instead of giving it to the channels."""
        self.paused = True
        self.store.set_flowing(False)

    def unpause(self) -> None:
        self.paused = False
        self.store.set_flowing(True)
        if self.channels and self.store.depth:
            self._pump_later(self)

    def stats(self, channels: tuple[ChannelStats, ...], cursors: tuple[CursorStats, ...] = ()) -> TopicStats:
        return TopicStats(
            topic_name=self.name,
            storage=self.store.kind,
            depth=self.store.depth,
            backend_depth=self.store.backend_depth,
            message_count=self.message_count,
            message_bytes=self.message_bytes,
            paused=self.paused,
            oldest_ns=self.store.oldest_ns(),
            disk_bytes=self.store.disk_bytes(),
            channels=channels,
            cursors=cursors,
            number=self.number,
        )
