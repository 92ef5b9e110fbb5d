"""The engine: it starts, stops, publishes, and does the work of each turn. Synchronous, one thread, no sockets.

Its owner (service/, or a test with its own clock) calls `turn` after `on_work`, calls `scan_pass` and `tick` at
intervals, and adds and removes clients.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import islice

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.fences import Fences
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.engine.acts.cursor_acts import CursorActs
from queue_engine.engine.acts.log_acts import LogActs
from queue_engine.engine.acts.pauses import Pauses
from queue_engine.engine.acts.quarantine_acts import QuarantineActs
from queue_engine.engine.acts.recent_acts import RecentActs
from queue_engine.engine.acts.topic_acts import TopicActs
from queue_engine.engine.acts.trash_acts import TrashActs
from queue_engine.engine.aside_files import AsideFiles
from queue_engine.engine.backups import Backups, EngineFiles
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.catalog.stores import Stores
from queue_engine.engine.data_formats import DataFormats
from queue_engine.engine.figures.engine_stats import Client, EngineStats
from queue_engine.engine.messages.message_acts import MessageActs
from queue_engine.engine.messages.message_reads import MessageReads
from queue_engine.engine.messages.message_search import MessageSearch
from queue_engine.engine.running_config import RunningConfig
from queue_engine.engine.samples.disk_watch import DiskWatch
from queue_engine.engine.samples.sampler import Sampler
from queue_engine.storage.commit_log.thread_choice import ThreadChoice
from queue_engine.storage.disk.background import Backgrounds
from queue_engine.storage.disk.backup_files import refuse_incomplete
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.closing import AT_ONCE, Closing
from queue_engine.storage.log_store.log_topic_store import KIND as LOG_KIND
from queue_engine.storage.progress.journal import RESERVE_BYTES
from queue_engine.storage.store import TopicStore
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import (
    FencedError,
    StorageError,
)
from queue_engine.vocabulary.faults import Faults
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from queue_engine.vocabulary.next_turn import NextTurn
from queue_engine.vocabulary.options.durations import format_duration
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.pieces import WorkInPieces
from queue_engine.vocabulary.start_progress import StartProgress
from queue_engine.vocabulary.steady_time import SteadyTime
from queue_engine.vocabulary.stop_progress import StopProgress
from queue_engine.vocabulary.ticket import Ticket, after

logger = logging.getLogger(__name__)

# How often every channel frees memory that it does not need, and how many do so in one tick: enough for 5,000.
TIDY_INTERVAL_NS = 5 * NS_PER_S
TIDY_CHANNELS_MAX = 200
# How long a stop tries to write topology.json.
TOPOLOGY_PATIENCE_NS = 5 * NS_PER_S


class Engine:
    """All queue state of one process.

    catalog: its topics and channels. acts: acts on them. log: reads, leases and keyed writes of topics of the log.
    pauses: those of topics and channels, which end by themselves where they have an end. quarantine: acts on
    quarantined messages. cursors: acts on pipeline cursors. messages: reads of the single messages of a channel.
    message_acts: acts on them. message_search: finds a text in their bodies. trash: restores deleted or emptied topics
    and channels. recent_acts: the latest acts, and who did them; refuses acts that were decided on an older state.
    stats: snapshots of all counts, and the health. config: the options as they are now.

    on_work: called when `turn` has something to do and had nothing before. progress: `open` says there where it is.
    thread_choice: chooses which of the log's syncs
    run on the engine's thread; None: none of them. open_store: makes a topic's store; the default is by storage
    kind in the data directory.
    """

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock,
        files: Files,
        backgrounds: Backgrounds,
        thread_choice: ThreadChoice | None = None,
        on_work: Callable[[], None] = lambda: None,
        progress: StartProgress | None = None,
        open_store: Callable[[str], TopicStore] | None = None,
    ) -> None:
        self.options = options
        self.config = RunningConfig(options)
        self.clients: dict[int, Client] = {}
        self._next_client_key = 1
        self._is_open = False
        self.clock = clock
        self.started_at_ns = clock.time_ns()
        self._steady = SteadyTime(clock)
        self.turned_at_ns = clock.monotonic_ns()  # the last turn
        self.faults = Faults(clock)
        self._fences = Fences(clock.time_ns)
        self._next_turn = NextTurn(on_work)
        progress = progress or StartProgress()
        self._workload = Workload(clock, self._next_turn)
        self._pieces = WorkInPieces(clock, self._next_turn)
        self._stores = Stores(
            options,
            clock=clock,
            files=files,
            backgrounds=backgrounds,
            thread_choice=thread_choice,
            next_turn=self._next_turn,
            progress=progress,
        )
        self._formats = DataFormats(options.data_path, files)
        self._sampler = Sampler(options, clock=clock, files=files, background=backgrounds.disk)
        self.catalog = Catalog(
            options,
            clock=clock,
            files=files,
            background=backgrounds.disk,
            stores=self._stores,
            workload=self._workload,
            fences=self._fences,
            pieces=self._pieces,
            progress=progress,
            open_store=open_store,
        )
        self.topics = self.catalog.topics
        self.pauses = Pauses(self.catalog, clock)
        self.quarantine = QuarantineActs(self.catalog, clock, self._steady)
        self.acts = TopicActs(self.catalog, self._workload, self.pauses, self._pieces)
        self.log = LogActs(self.catalog, self._stores, self._sampler)
        self.cursors = CursorActs(self.catalog, self._stores)
        self.messages = MessageReads(self.catalog, self.clients, clock)
        self.message_acts = MessageActs(options, self.catalog, self.messages)
        self.message_search = MessageSearch(self.catalog, clock, backgrounds.disk)
        self.trash = TrashActs(self.catalog, self._stores, self.pauses, options, clock, self._pieces)
        self.recent_acts = RecentActs(self.catalog, clock)
        self.stats = EngineStats(
            self.catalog,
            self._stores,
            workload=self._workload,
            fences=self._fences,
            faults=self.faults,
            clients=self.clients,
            clock=clock,
            started_at_ns=self.started_at_ns,
        )
        self._backups = Backups(
            options.data_path,
            clock,
            backgrounds=[backgrounds.disk, backgrounds.progress],
            files=EngineFiles(self.catalog, self._stores, self._sampler),
        )
        self._aside = AsideFiles(
            options.data_path,
            options.set_aside_retention_ms,
            files=files,
            clock=clock,
            background=backgrounds.disk,
            on_scan=self.stats.note_aside,
        )
        self._disk_watch = DiskWatch(
            options.data_path,
            files=files,
            clock=clock,
            background=backgrounds.disk,
            reserve_bytes=2 * RESERVE_BYTES,  # which the log leaves free, and needs to go on after the disk was full
            own_bytes=self.stats.own_bytes,
            on_space=self.stats.note_disk,
        )
        self._tidy_at_ns = 0
        self._untidied: Iterator[Channel] = iter(())

    @property
    def is_closing(self) -> bool:
        """Whether the engine refuses publishes and acts because it stops."""
        return self.catalog.is_closing

    @property
    def warnings(self) -> Sequence[str]:
        """Damage that the last start found, a sentence each. The start has dealt with it, so the engine is healthy."""
        return self._stores.report.warnings() if self._stores.report is not None else ()

    # Start and stop.

    def open(self) -> None:
        """Load the topology and open every queue it names. Raises TopologyError or StorageError; then nothing on
        disk was changed, and `close` changes nothing either."""
        refuse_incomplete(self.options.data_path)
        self._formats.refuse_newer()
        self.catalog.open()
        self._formats.note()  # before the first write of a format that an older version can't read
        self._is_open = True
        self._backups.open()
        self.catalog.begin()
        self.pauses.open()
        self.quarantine.open()
        if SAMPLES_TOPIC in self.topics:
            # From before the name was reserved. Nothing of it is lost, and nothing is mixed with it.
            logger.warning(
                "topic %s has a name that is reserved for samples: clients can't publish to it or subscribe to it, and "
                "no samples are taken until it is deleted; its messages can be read meanwhile",
                SAMPLES_TOPIC,
            )
        self._sampler.open()

    def begin_closing(self) -> None:
        """Refuse publishes and acts from now on; the next turn appends and answers those that came before."""
        self.catalog.is_closing = True

    def close(self) -> None:
        """`closing` in one go, with one try for everything."""
        for _ in self.closing(AT_ONCE):
            pass

    def closing(self, how: Closing) -> Generator[StopProgress, None, None]:
        """Write everything to the disk. Clients were disconnected before. Yields the progress; after a step with a
        `reason` the caller pauses. Raises StorageError, naming the files that could not be written, after trying
        all."""
        self.begin_closing()
        if not self._is_open:
            # The start failed: the files stay as they are.
            self._stores.abandon()
            self.catalog.abandon()
            return
        self.catalog.append_published()
        self._pieces.finish()
        self._sampler.close(None if SAMPLES_TOPIC in self.topics else partial(self.stats.now, include_clients=False))
        errors: list[str] = []
        for topic in self.topics.values():
            try:
                errors += self._give_back_all_of(topic)
                topic.store.begin_close()
            except Exception as exc:
                # The other topics are still to be written.
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
        """Write topology.json for the last time; returns the disk's last refusal, None when it was written. Nothing is
        lost without it, as with kill -9: the changes since are in a file beside it."""
        began_ns = self.clock.monotonic_ns()
        patience_ns = min(how.patience_ns, TOPOLOGY_PATIENCE_NS)
        while True:
            try:
                self.catalog.close()
            except StorageError as exc:
                if self.clock.monotonic_ns() - began_ns >= patience_ns:
                    return exc
                reason = str(exc)
            else:
                return None
            yield StopProgress(0, 0, reason)

    @staticmethod
    def _give_back_all_of(topic: Topic) -> list[str]:
        """Let messages in flight wait again, so that the store can write them; returns a sentence for each channel that
        loses messages."""
        lost: list[str] = []
        for channel in topic.channels.values():
            try:
                channel.give_back_everything()
            except FencedError as exc:
                count = channel.in_flight_count
                if topic.store.kind == LOG_KIND:
                    # The log has them, and the progress journal says which are finished.
                    logger.warning("%s: %d messages that were in flight come again after the next start", exc, count)
                elif not count:
                    logger.warning("%s", exc)  # its files stay on the disk
                else:
                    lost.append(f"{exc}; {count} messages that were in flight are lost")
        return lost

    # Publishing, and clients.

    def publish(self, topic_name: str, bodies: Sequence[bytes], *, defer_ms: int = 0, key: bytes = b"") -> Ticket:
        """Publish to a topic, which is created when new. All or nothing; in the store by the end of this turn.

        The ticket is done when the client may get its OK. key: of the one message; then it is not deferred, and the
        topic must be one of the log. Raises InvalidTopicError, InvalidStorageError, LimitError or ClosedError.
        """
        if key:
            return self.log.publish_keyed(topic_name, bodies[0], key)
        topic = self.topics.get(topic_name)
        if topic is None or self.catalog.is_closing:
            ready = self.catalog.topic_ready(topic_name)
            return after(ready, lambda: self._publish(self.topics[topic_name], bodies, defer_ms))
        return self._publish(topic, bodies, defer_ms)

    def _publish(self, topic: Topic, bodies: Sequence[bytes], defer_ms: int) -> Ticket:
        if defer_ms:
            return topic.publish_deferred(bodies, self.clock.monotonic_ns() + defer_ms * NS_PER_MS)
        return topic.publish(bodies)

    def publish_turn(self, topic_name: str, bodies: Sequence[bytes]) -> Ticket:
        """Publish all single messages of a turn to one topic: they go to the store at once."""
        topic = self.topics.get(topic_name)
        if topic is None or self.catalog.is_closing:
            return self.publish(topic_name, bodies)
        return topic.publish_at_once(bodies)

    def add_client(self, client: Client) -> int:
        """Add a connection; returns its key, which is never used again."""
        key = self._next_client_key
        self._next_client_key += 1
        self.clients[key] = client
        return key

    def remove_client(self, key: int) -> None:
        self.clients.pop(key, None)

    # The work of each turn.

    @property
    def has_work(self) -> bool:
        return self._next_turn.is_requested

    def turn(self) -> None:
        """Append published messages and deliver: a bounded amount, the rest in the next turn
        (`has_work`)."""
        self.turned_at_ns = self.clock.monotonic_ns()
        try:
            self._workload.flush()
            if self._stores.log is not None:
                self._stores.log.commit()
            self._workload.turn(delivers=not self.catalog.is_closing)
            if self._pieces.has_rest:
                self._pieces.turn()
            elif self._next_turn.has_unfreed:
                self._next_turn.free_some()
        finally:
            # Work that is noted from here on is for the next turn. The log writes this turn's even after an error.
            has_rest = self._workload.has_rest or self._pieces.has_rest or self._next_turn.has_unfreed
            self._next_turn.is_requested = has_rest
            if self._stores.log is not None and self._next_turn.has_log_work:
                self._stores.log.end_turn()

    def scan_pass(self) -> tuple[int, int]:
        """One pass of the scan loop over at most `queue_scan_selection_count` channels that have something due.

        Returns (channels handled, of these dirty). The channels are picked by earliest deadline.
        """
        return self._workload.expire_due(self.options.queue_scan_selection_count)

    def is_pass_dirty(self, handled: int, dirty: int) -> bool:
        """Whether another pass should follow at once (nsqd's dirty percent)."""
        return handled > 0 and dirty * 100 > self.options.queue_scan_dirty_percent * handled

    def tick(self) -> None:
        """Start the syncs that are due, and retry work that the disk refused."""
        now_ns = self.clock.monotonic_ns()
        for task, step in (
            ("looking at the clock", self._look_at_clock),
            ("looking after the stores", self._stores.tick),
            ("looking after topology.json", self.catalog.tick),
            ("looking after the trash", self.trash.tick),
            ("retrying work that the disk refused", lambda _: self._workload.retry_stalled()),
            ("ending pauses", self.pauses.tick),
            ("redriving quarantined messages", self.quarantine.tick),
            ("going on with ramps", lambda _: self._workload.wake_slow()),
            ("looking after the samples", self._sampler.tick),
            ("looking after backups", self._backups.tick),
            ("looking after files set aside", self._aside.tick),
            ("looking at the disk", self._disk_watch.tick),
            ("tidying up", self._tidy),
        ):
            try:
                step(now_ns)
            except Exception as exc:
                self.faults.note(task, exc)
            else:
                self.faults.ended(task)

    def _look_at_clock(self, now_ns: int) -> None:
        jump = self._steady.look()
        if jump is not None:
            self.stats.clock_jump = jump
            logger.warning(
                "the wall clock was set %s by %s: pauses, ramps, the trash, leases and the age in quarantine go on by "
                "the time that passes; times that are shown are the new clock's",
                "forward" if jump.step_ms > 0 else "back",
                format_duration(abs(jump.step_ms)),
            )

    def _tidy(self, now_ns: int) -> None:
        """Tidy every channel once per TIDY_INTERVAL_NS, a few at a time."""
        if now_ns >= self._tidy_at_ns:
            self._tidy_at_ns = now_ns + TIDY_INTERVAL_NS
            self._untidied = iter([channel for topic in self.topics.values() for channel in topic.channels.values()])
        for channel in islice(self._untidied, TIDY_CHANNELS_MAX):
            channel.tidy()

    def offer_sample(self, snapshot: EngineSnapshot) -> None:
        """Hand in a snapshot of all topics, each second; the sampler makes samples from some of them."""
        if SAMPLES_TOPIC not in self.topics:
            self._sampler.offer(snapshot)

    def append_sample(self, body: bytes) -> None:
        """Write the sample of another node (`samples/sample_format.py`). Raises StorageError; then it was not
        written."""
        if SAMPLES_TOPIC in self.topics:
            raise StorageError(f"no samples are stored while there is a topic {SAMPLES_TOPIC}")
        self._sampler.append(body)
