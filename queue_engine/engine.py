"""The engine: all that can be asked of it, and the work of each turn. Synchronous, one thread, no sockets.

Whoever drives it (service/, or a test with a clock of its own) calls `turn` when `on_work` was called,
`scan_pass` and `tick` now and then, and tells it of clients.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import islice

from queue_engine import cursor_acts, log_acts, topic_acts
from queue_engine.backups import Backups
from queue_engine.catalog import Catalog
from queue_engine.commit_log.sync_place import SyncPlace
from queue_engine.delivery.channel import Channel
from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.fences import Fences
from queue_engine.delivery.stats import CursorStats, EngineSnapshot, InFlightStats, Outcome
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.disk.background import Background
from queue_engine.disk.backup_files import refuse_incomplete
from queue_engine.disk.files import Files
from queue_engine.disk_queue.closing import AT_ONCE, Closing
from queue_engine.fencing import fencing
from queue_engine.figures import Client, Figures
from queue_engine.log_store.log_leases import Lease
from queue_engine.log_store.log_reader import Frames, MessagePage
from queue_engine.log_store.log_store import LogStore
from queue_engine.log_store.log_topic_store import KIND as LOG_KIND
from queue_engine.log_store.record_reader import Records
from queue_engine.readers.holds import Hold
from queue_engine.samples.sample_log import DIRECTORY as SAMPLES_DIRECTORY
from queue_engine.samples.sampler import Sampler
from queue_engine.storage.store import TopicStore
from queue_engine.stores import LOG_DIRECTORY, Stores
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import (
    ClosedError,
    FencedError,
    NoRoomError,
    StorageError,
    TopicChangedError,
    TopicNotFoundError,
)
from queue_engine.vocabulary.faults import Faults
from queue_engine.vocabulary.names import SAMPLES_TOPIC, is_reserved
from queue_engine.vocabulary.options import Options
from queue_engine.vocabulary.stop_progress import StopProgress
from queue_engine.vocabulary.ticket import Ticket, after

logger = logging.getLogger(__name__)

HEALTHY = "OK"
# How often every channel lets go of what only costs memory, and how many do at once: 5,000 have their turn in time.
TIDY_INTERVAL_NS = 5 * NS_PER_S
TIDY_CHANNELS_MAX = 200


class Engine:
    """All queue state of one process.

    on_work: called when `turn` has something to do and had nothing before.
    background: a thread for slow disk work. sync_background: one for the log's syncs alone,
    progress_background: one for those of channels' progress; the same when None.
    sync_place: chooses which of the log's syncs are made on the engine's thread; None: none of them.
    open_store: makes a topic's store; the default is by storage kind in the data directory.
    """

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock,
        files: Files,
        background: Background,
        sync_background: Background | None = None,
        progress_background: Background | None = None,
        sync_place: SyncPlace | None = None,
        on_work: Callable[[], None] = lambda: None,
        open_store: Callable[[str], TopicStore] | None = None,
    ) -> None:
        self.options = options
        self.clients: dict[int, Client] = {}
        self.is_closing = False
        self._is_open = False
        self._publish_error: Exception | None = None  # of the last publish
        self.on_work = on_work
        self._clock = clock
        self.started_at_ns = clock.time_ns()
        self._stores = Stores(
            options,
            clock=clock,
            files=files,
            background=background,
            sync_background=sync_background or background,
            progress_background=progress_background,
            sync_place=sync_place,
            on_work=lambda: self.on_work(),
            on_reserve=lambda: self._catalog.reserve_offsets(),
        )
        self._sampler = Sampler(options, clock=clock, files=files, background=background)
        self._next_client_key = 1
        self._workload = Workload(clock, on_work=lambda: self.on_work())
        self.faults = Faults(clock)
        self._fences = Fences(clock.time_ns)
        self._catalog = Catalog(
            options,
            clock=clock,
            files=files,
            background=background,
            stores=self._stores,
            workload=self._workload,
            fences=self._fences,
            check_open=self._check_open,
            on_appended=self.note_append,
            open_store=open_store,
        )
        self.topics = self._catalog.topics
        self._figures = Figures(
            self._catalog,
            self._stores,
            workload=self._workload,
            faults=self.faults,
            clients=self.clients,
            clock=clock,
            started_at_ns=self.started_at_ns,
            health=lambda: self.health,
        )
        self._backups = Backups(
            options.data_path,
            clock,
            backgrounds=[background, progress_background or background],
            topics=lambda: self.topics.values(),
            logs=self._logs,
            is_over=lambda: self.is_closing,
        )
        self._tidy_at_ns = 0
        self._untidied: Iterator[Channel] = iter(())

    @property
    def health(self) -> str:
        """ "OK", or "NOK - " and why: something that has to be on disk is not, or can't be read."""
        # Want of room is told by the store itself, for as long as it lasts.
        publish_error = None if isinstance(self._publish_error, NoRoomError) else self._publish_error
        stores = self._stores
        error: Exception | str | None = self._catalog.error or stores.error or stores.refusal or publish_error
        error = error or self._workload.error or self._fences.error or self.faults.error
        return HEALTHY if error is None else f"NOK - {error}"

    @property
    def warnings(self) -> Sequence[str]:
        """What the last start found damaged, a sentence each. It is over, so it is no reason to be unhealthy."""
        return self._stores.report.warnings() if self._stores.report is not None else ()

    # Start and stop.

    def open(self) -> None:
        """Load the topology and open every queue it names. Raises TopologyError or StorageError; then nothing on
        disk was changed, and `close` changes nothing either."""
        refuse_incomplete(self.options.data_path)
        self._catalog.open()
        self._is_open = True
        self._backups.open()
        self._catalog.begin()
        if SAMPLES_TOPIC in self.topics:
            # From before the name was reserved. Nothing of it is lost, and nothing is mixed with it.
            logger.warning(
                "topic %s is the server's own name: nobody can publish to this one or subscribe to it, and no samples "
                "are taken until it is deleted; its messages can be read meanwhile",
                SAMPLES_TOPIC,
            )
        self._sampler.open()

    def close(self) -> None:
        """`closing` in one go, with one try for everything."""
        for _ in self.closing(AT_ONCE):
            pass

    def closing(self, how: Closing) -> Generator[StopProgress, None, None]:
        """Put everything on disk. Clients were disconnected before. Yields how far it is; a step with a `reason` is to
        be followed by a pause. Raises StorageError, naming what was not kept, after it has tried everything."""
        self.is_closing = True
        if not self._is_open:
            # What is on disk was not understood, or not all of it: it stays as it is.
            self._stores.abandon()
            self._catalog.abandon()
            return
        self.flush()
        self._sampler.close(None if SAMPLES_TOPIC in self.topics else partial(self.stats, include_clients=False))
        errors: list[str] = []
        for topic in self.topics.values():
            try:
                errors += self._give_back_all_of(topic)
                topic.store.begin_close()
            except Exception as exc:
                # Whatever it is, the other topics are still to be kept.
                logger.exception("topic not closed topic=%s", topic.name)
                errors.append(f"topic {topic.name}: {exc}")
        try:
            yield from self._stores.closing(how)
        except Exception as exc:
            if not isinstance(exc, StorageError):
                logger.exception("stores not closed")
            errors.append(str(exc))
        if error := (yield from self._saving_topology(how)):
            errors.append(str(error))
        if errors:
            raise StorageError("; ".join(errors))

    def _saving_topology(self, how: Closing) -> Generator[StopProgress, None, Exception | None]:
        """Write topology.json for the last time; why the disk refused it to the end."""
        began_ns = self._clock.monotonic_ns()
        while True:
            try:
                self._catalog.close()
            except StorageError as exc:
                if self._clock.monotonic_ns() - began_ns >= how.patience_ns:
                    return exc
                reason = str(exc)
            else:
                return None
            yield StopProgress(0, 0, reason)

    @staticmethod
    def _give_back_all_of(topic: Topic) -> list[str]:
        """What is in flight waits again, so that the store can keep it; returns what could not be kept, and why."""
        lost: list[str] = []
        for channel in topic.channels.values():
            try:
                channel.give_back_everything()
            except FencedError as exc:
                count = channel.in_flight_count
                if topic.store.kind == LOG_KIND:
                    # The log has them, and the progress journal knows which are finished.
                    logger.warning("%s: %d messages that were in flight come again after the next start", exc, count)
                elif not count:
                    logger.warning("%s", exc)  # what it has on disk stays there
                else:
                    lost.append(f"{exc}; {count} messages that were in flight are lost")
        return lost

    # Publishing and subscribing.

    def publish(self, topic_name: str, bodies: Sequence[bytes], *, defer_ms: int = 0) -> Ticket:
        """Publish to a topic, which is created when new. All or nothing; in the store by the end of this turn.

        The ticket is done when OK may be said. Raises InvalidTopicError, LimitError or ClosedError.
        """
        topic = self.topics.get(topic_name)
        if topic is None or self.is_closing:
            ready = self._catalog.topic_ready(topic_name)
            return after(ready, lambda: self._publish(self.topics[topic_name], bodies, defer_ms))
        return self._publish(topic, bodies, defer_ms)

    def _publish(self, topic: Topic, bodies: Sequence[bytes], defer_ms: int) -> Ticket:
        if defer_ms:
            return topic.publish_deferred(bodies, self._clock.monotonic_ns() + defer_ms * NS_PER_MS)
        return topic.publish(bodies)

    def publish_turn(self, topic_name: str, bodies: Sequence[bytes]) -> Ticket:
        """The same for what all of a turn's single messages are: they go to the store at once."""
        topic = self.topics.get(topic_name)
        if topic is None or self.is_closing:
            return self.publish(topic_name, bodies)
        return topic.publish_at_once(bodies)

    def publish_keyed(self, topic_name: str, body: bytes, key: bytes) -> Ticket:
        """`publish` of one message with a key; only a topic of the log keeps one. Raises InvalidStorageError, and as
        `publish`."""
        ready = self._catalog.log_topic_ready(topic_name)
        return after(ready, lambda: log_acts.publish_keyed(self.topics[topic_name], body, key))

    def log_topic_ready(self, topic_name: str) -> Ticket:
        """Done when a topic that keeps keys is there, created when new. Raises as `publish_keyed`."""
        return self._catalog.log_topic_ready(topic_name)

    def write_batch(
        self,
        topic_name: str,
        bodies: Sequence[bytes],
        *,
        batch_key: bytes,
        keys: Sequence[bytes] | None = None,
        is_replayed: bool = False,
        number: int | None = None,
    ) -> tuple[log_acts.WrittenBatch, Ticket]:
        """Publish messages once per `batch_key`, 16 bytes and not zero: as one record, all or nothing. Asked again,
        it answers what the first got. A new topic is created first where that is done at once; otherwise
        TopicNotFoundError is raised (`log_topic_ready`).

        keys: of each message, of no bytes for none. number: of the topic that is meant, None for any. Raises
        TopicChangedError when the topic has another number, BatchKeyConflictError when the key was used for other
        messages, InvalidStorageError for a disk queue, and as `publish`.
        """
        there = self.topics.get(topic_name)
        if number is not None and (there is None or there.number != number):
            now = "does not exist" if there is None else f"has number {there.number}"
            raise TopicChangedError(f"topic {topic_name} {now}, and number {number} is meant")
        ready = self._catalog.log_topic_ready(topic_name)
        if ready.done and ready.error is not None:
            raise ready.error
        if keys is not None and not any(keys):
            keys = None
        return log_acts.write_batch(self.topic(topic_name), bodies, batch_key, keys, is_replayed=is_replayed)

    def note_append(self, ticket: Ticket) -> None:
        """Learn from a settled append whether the disk takes what is published."""
        self._publish_error = ticket.error

    def subscribe(self, topic_name: str, channel_name: str, consumer: Consumer) -> tuple[Channel | None, Ticket]:
        """Make `consumer` one of the channel's; topic and channel are created when new. The channel is None until the
        ticket is done; when that is rejected, nothing was made.

        Raises InvalidTopicError, InvalidChannelError, LimitError or ClosedError.
        """
        return self._catalog.subscribe(topic_name, channel_name, consumer)

    def unsubscribe(self, channel: Channel, consumer: Consumer) -> None:
        """The consumer's connection ended."""
        self._catalog.leave(channel, consumer)

    def add_client(self, client: Client) -> int:
        """Know a connection; returns its key, which is never used again."""
        key = self._next_client_key
        self._next_client_key += 1
        self.clients[key] = client
        return key

    def remove_client(self, key: int) -> None:
        self.clients.pop(key, None)

    # Topics and channels.

    def _check_open(self) -> None:
        if self.is_closing:
            raise ClosedError
        # What was published before comes before what is asked now, though it is the same turn.
        self.flush()

    def topic(self, name: str) -> Topic:
        """The topic `name`. Raises TopicNotFoundError, or ReservedTopicError for the server's own."""
        return self._catalog.topic(name)

    def channel(self, topic_name: str, channel_name: str) -> Channel:
        """One channel. Raises TopicNotFoundError or ChannelNotFoundError."""
        return self._catalog.channel(topic_name, channel_name)

    # Acts. Each returns what it did, and the ticket after which that is durable.

    def create_topic(self, topic: str, *, storage: str = "") -> tuple[Outcome, Ticket]:
        """storage: the kind of a new topic, "" for the default. Raises InvalidStorageError when there is no such
        kind, or the topic exists and has another."""
        return topic_acts.create_topic(self._catalog, topic, storage=storage)

    @fencing
    def create_channel(
        self, topic: str, channel: str, *, start: log_acts.Target | None = None
    ) -> tuple[Outcome, Ticket]:
        """start: where a new channel of a log topic begins; as always when None: with what is published from now on,
        or with what waits at the topic when it is the first. Raises InvalidStorageError."""
        return topic_acts.create_channel(self._catalog, topic, channel, start=start)

    @fencing
    def delete_topic(self, topic: str) -> tuple[Outcome, Ticket]:
        """Drop a topic, its channels and all their messages; their consumers are disconnected."""
        return topic_acts.delete_topic(self._catalog, topic)

    @fencing
    def delete_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Drop a channel with all it holds; its consumers are disconnected."""
        return topic_acts.delete_channel(self._catalog, topic, channel)

    @fencing
    def empty_topic(self, topic: str, *, channels_too: bool = False) -> tuple[Outcome, Ticket]:
        """Drop what waits at the topic itself; with `channels_too` also all that its channels hold."""
        return topic_acts.empty_topic(self._catalog, topic, channels_too=channels_too)

    @fencing
    def empty_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Drop all that a channel holds: waiting, deferred and in flight."""
        return topic_acts.empty_channel(self._catalog, topic, channel)

    @fencing
    def pause_topic(self, topic: str) -> tuple[Outcome, Ticket]:
        """Stop the flow from the topic to its channels."""
        return topic_acts.pause_topic(self._catalog, topic)

    @fencing
    def unpause_topic(self, topic: str) -> tuple[Outcome, Ticket]:
        return topic_acts.unpause_topic(self._catalog, topic)

    @fencing
    def pause_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Stop the flow from the channel to its consumers; what is in flight stays so."""
        return topic_acts.pause_channel(self._catalog, topic, channel)

    @fencing
    def unpause_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        return topic_acts.unpause_channel(self._catalog, topic, channel)

    @fencing
    def requeue_in_flight(
        self, topic: str, channel: str, *, client_key: int | None = None, message_id: str | None = None
    ) -> tuple[Outcome, Ticket]:
        """Put messages in flight back in the queue now: one, one client's, or all."""
        return topic_acts.requeue_in_flight(self._catalog, topic, channel, client_key=client_key, message_id=message_id)

    @fencing
    def release_deferred(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Let all deferred messages of a channel wait like the others now."""
        return topic_acts.release_deferred(self._catalog, topic, channel)

    @fencing
    def retry_topic(self, topic: str) -> tuple[Outcome, Ticket]:
        """Let a fenced topic go on: publishes are taken, and what waits goes on to its channels. Raises FencedError
        when it fails again."""
        return topic_acts.retry_topic(self._catalog, topic, self._workload)

    @fencing
    def retry_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Let a fenced channel go on: what is not finished waits again, what was in flight included. Raises FencedError
        when it fails again."""
        return topic_acts.retry_channel(self._catalog, topic, channel, self._workload)

    # Reading and rewinding, on topics of the log.

    def _readable(self, name: str) -> Topic:
        """The topic `name` for who only reads it, the server's own included. Raises TopicNotFoundError."""
        if not is_reserved(name) or name in self.topics:
            return self.topic(name)
        if self._sampler.topic is None:
            raise TopicNotFoundError(f"topic {name} does not exist: no samples are kept (--samples-interval)")
        return self._sampler.topic

    def read_messages(self, topic: str, target: log_acts.Target, count_max: int) -> MessagePage:
        """Messages from a place of a topic on, without consuming. Raises TopicNotFoundError, InvalidStorageError,
        LimitError or StorageError."""
        return log_acts.read_page(self._readable(topic), target, count_max)

    def read_frames(self, topic: str, offset: int, bytes_max: int) -> Frames:
        """Messages in bulk, in wire form, only what is known to be on the disk. Raises as `read_messages`."""
        return log_acts.read_frames(self._readable(topic), offset, bytes_max)

    def read_records(self, topic: str, offset: int, bytes_max: int) -> Records:
        """A topic's records as the log has them, unchecked; the first may begin before `offset`. Only what is known to
        be on the disk. Raises as `read_messages`."""
        return log_acts.read_records(self._readable(topic), offset, bytes_max)

    def log_place(self, topic: str, time_ns: int | None = None, *, from_offset: int = 0) -> log_acts.LogPlace:
        """Which topic of the log it is, how far it goes, and which offsets from `from_offset` on have messages; with
        `time_ns` (Unix) also where the messages from then on begin. Raises TopicNotFoundError, InvalidStorageError or
        StorageError."""
        return log_acts.log_place(self._readable(topic), time_ns, from_offset)

    def lease_log(
        self, topic: str, offset: int, *, ttl_ms: int, segments_max: int = log_acts.LEASE_SEGMENTS_MAX
    ) -> tuple[Lease, Ticket]:
        """Keep a topic's messages from `offset` on, whoever consumes them, and tell which complete segments they are
        in. Raises TopicNotFoundError, InvalidStorageError, LimitError or StorageError."""
        self._check_open()
        return log_acts.lease(self.topic(topic), offset, ttl_ms, segments_max)

    def renew_lease(
        self, name: str, *, ttl_ms: int, offset: int | None = None, segments_max: int = log_acts.LEASE_SEGMENTS_MAX
    ) -> tuple[Lease, Ticket]:
        """Keep it longer; `offset` moves it. Raises LeaseNotFoundError when it is lost, otherwise as `lease_log`."""
        self._check_open()
        hold = self._stores.hold(name)
        topic = self._topic_of(hold)
        return log_acts.renew_lease(topic, hold, hold.offset if offset is None else offset, ttl_ms, segments_max)

    def topic_of_lease(self, name: str) -> str:
        """The topic that it keeps. Raises LeaseNotFoundError."""
        return self._topic_of(self._stores.hold(name)).name

    def _topic_of(self, hold: Hold) -> Topic:
        topic = next((one for one in self.topics.values() if one.number == hold.topic_number), None)
        assert topic is not None, "a hold ends with its topic"
        return topic

    def renew_leases(self, names: Sequence[str], *, ttl_ms: int) -> Ticket:
        """Keep leases, one at least, as they are: all, or none. Raises LeaseNotFoundError for the first lost one."""
        self._check_open()
        return self._stores.renew_holds(names, ttl_ms)

    def release_lease(self, name: str) -> Ticket:
        """Nothing is kept for it any more. Raises LeaseNotFoundError."""
        self._check_open()
        return self._stores.give_back(name)

    @fencing
    def peek_channel(self, topic: str, channel: str, count_max: int) -> MessagePage:
        """What a channel would deliver next, without consuming. Raises as `read_messages`."""
        return log_acts.peek(self.topic(topic), self.channel(topic, channel), count_max)

    @fencing
    def seek_preview(self, topic: str, channel: str, target: log_acts.Target) -> log_acts.SeekPreview:
        """What `seek_channel` would do. Raises as `read_messages`."""
        return log_acts.seek_preview(self.topic(topic), self.channel(topic, channel), target)

    @fencing
    def seek_channel(
        self, topic: str, channel: str, *, target: log_acts.Target, keep_finished: bool = False
    ) -> tuple[Outcome, Ticket]:
        """Move a channel back or forth. keep_finished: only forth, see `log_acts.seek`. The outcome tells what waits
        then, and what was in flight. Raises as `read_messages`."""
        self._check_open()
        outcome = Outcome()

        def act() -> Ticket:
            places = self.topic(topic), self.channel(topic, channel)
            return log_acts.seek(*places, target, outcome, keep_finished=keep_finished)

        return outcome, self._catalog.in_turn(topic, act)

    # Pipeline cursors, on topics of the log. No act on channels concerns them.

    def create_cursor(self, topic: str, *, cursor: str, start: log_acts.Target | None = None) -> tuple[Outcome, Ticket]:
        """Keep for a reader what it has not passed: everything there is unless `start` names another place. One that
        is there stays as it is. Raises TopicNotFoundError, InvalidStorageError, InvalidCursorError or LimitError."""
        self._check_open()
        owner = self.topic(topic)
        return cursor_acts.create(owner, cursor, start or log_acts.Target(word=log_acts.START))

    def move_cursor(self, topic: str, *, cursor: str, number: int, offset: int) -> tuple[CursorStats, Ticket]:
        """The reader has everything before `offset` for good; `number` is the topic's as it knows it. Raises
        TopicNotFoundError, InvalidStorageError, TopicChangedError, CursorNotFoundError or LimitError."""
        self._check_open()
        return cursor_acts.move(self.topic(topic), cursor, number, offset)

    def delete_cursor(self, topic: str, *, cursor: str) -> tuple[Outcome, Ticket]:
        """Keep nothing for it any more; the outcome tells how many messages it gives up. Raises TopicNotFoundError,
        InvalidStorageError or CursorNotFoundError."""
        self._check_open()
        return cursor_acts.delete(self.topic(topic), cursor)

    def cursor(self, topic: str, cursor: str) -> CursorStats:
        """One cursor at this moment. Raises TopicNotFoundError, InvalidStorageError or CursorNotFoundError."""
        return cursor_acts.cursor_stats(self.topic(topic), cursor)

    def cursors(self, topic: str = "") -> cursor_acts.CursorList:
        """All cursors, or one topic's, and those that are no more."""
        cursors, ended = self._stores.cursors()
        owners = [self.topics[name] for name in sorted({one.topic for one in cursors if topic in ("", one.topic)})]
        return cursor_acts.CursorList(
            tuple(stats for owner in owners for stats in cursor_acts.stats_of_topic(owner)),
            tuple(one for one in ended if topic in ("", one.cursor.topic)),
        )

    @fencing
    def in_flight(self, topic: str, channel: str, limit: int = 100) -> list[InFlightStats]:
        """The first messages in flight of a channel, earliest deadline first."""
        return self.channel(topic, channel).in_flight_stats(self._clock.monotonic_ns(), limit)

    # The work of each turn.

    @property
    def has_work(self) -> bool:
        return self._workload.is_waiting or self._stores.has_work

    def flush(self) -> None:
        """Append what was published in this turn; their tickets are settled now or when the store says."""
        self._workload.flush()
        self._stores.commit()

    def turn(self) -> None:
        """Append what was published and deliver what can be delivered; a bounded amount, the rest is left for the
        next turn (`has_work`)."""
        try:
            self.flush()
            self._workload.turn(delivers=not self.is_closing)
        finally:
            # What was done is noted and written, whatever failed.
            self._stores.end_turn()

    def scan_pass(self) -> tuple[int, int]:
        """One pass of the scan loop over at most `queue_scan_selection_count` channels that have something due.

        Returns (channels handled, of these dirty). The channels are picked by earliest deadline.
        """
        return self._workload.expire_due(self.options.queue_scan_selection_count)

    def is_pass_dirty(self, handled: int, dirty: int) -> bool:
        """Whether another pass should follow at once (nsqd's dirty percent)."""
        return handled > 0 and dirty * 100 > self.options.queue_scan_dirty_percent * handled

    def tick(self) -> None:
        """Start the syncs whose time has come, and try again what the disk refused."""
        now_ns = self._clock.monotonic_ns()
        for what, step in (
            ("looking after the stores", self._stores.tick),
            ("looking after topology.json", self._catalog.tick),
            ("trying again what the disk refused", lambda _: self._workload.retry_stalled()),
            ("looking after the samples", self._sampler.tick),
            ("looking after backups", self._backups.tick),
            ("tidying up", self._tidy),
        ):
            try:
                step(now_ns)
            except Exception as exc:
                self.faults.note(what, exc)
            else:
                self.faults.ended(what)

    def _logs(self) -> dict[str, LogStore]:
        """By their directories in the data directory."""
        found = {LOG_DIRECTORY: self._stores.log, SAMPLES_DIRECTORY: self._sampler.log}
        return {name: log for name, log in found.items() if log is not None}

    def _tidy(self, now_ns: int) -> None:
        """Tidy every channel once per TIDY_INTERVAL_NS, a few at a time."""
        if now_ns >= self._tidy_at_ns:
            self._tidy_at_ns = now_ns + TIDY_INTERVAL_NS
            self._untidied = iter([channel for topic in self.topics.values() for channel in topic.channels.values()])
        for channel in islice(self._untidied, TIDY_CHANNELS_MAX):
            channel.tidy()

    # Figures.

    def stats(self, *, topic: str = "", channel: str = "", include_clients: bool = True) -> EngineSnapshot:
        """All figures, or those of one topic or channel, at this moment."""
        return self._figures.now(topic=topic, channel=channel, include_clients=include_clients)

    def stats_in_slices(
        self, wants_clients: Callable[[str, str], bool], *, topic: str = "", channel: str = ""
    ) -> Generator[None, None, EngineSnapshot]:
        """The same in short steps: yields between them, returns the snapshot.

        A channel's figures agree among themselves; those of different slices are moments apart.
        wants_clients(topic, channel): whether that channel's clients are listed.
        """
        return self._figures.in_slices(wants_clients, topic=topic, channel=channel)

    def offer_sample(self, snapshot: EngineSnapshot) -> None:
        """Whoever makes snapshots of all topics hands them in, each second: from some of them samples are made."""
        if SAMPLES_TOPIC not in self.topics:
            self._sampler.offer(snapshot)
