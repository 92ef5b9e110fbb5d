"""Acts on topics and channels of either storage kind, named as in the audit list.

Each returns its outcome, and a ticket that is done when it is durable. Raises ClosedError, TopicNotFoundError or
ChannelNotFoundError. An unexpected error fences the topic or channel (`fence_on_failure.py`).
"""

from collections.abc import Generator, Sequence

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import Outcome
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.engine.acts.fence_on_failure import fence_on_failure
from queue_engine.engine.acts.log_acts import Target, channel_log, log_store_of, resolved
from queue_engine.engine.acts.pauses import PauseRequest, Pauses
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.catalog.stores import KINDS
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.errors import CountsChangedError, InvalidStorageError
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.pieces import WorkInPieces
from queue_engine.vocabulary.ticket import DONE, Ticket, after, or_unknown

# An act may remove so many messages more than its caller saw, or a tenth: messages go on coming.
COUNTS_TOLERANCE = 1_000


class TopicActs:
    """All acts on the topics of one engine, and on their channels."""

    def __init__(
        self,
        catalog: Catalog,
        workload: Workload,
        pauses: Pauses,
        pieces: WorkInPieces,
    ) -> None:
        self.topics = catalog.topics
        self._catalog = catalog
        self._pauses = pauses
        self._workload = workload
        self._pieces = pieces

    def create_topic(self, topic: str, *, storage: str = "") -> tuple[Outcome, Ticket]:
        """storage: the kind of a new topic, "" for the default. Raises InvalidStorageError when there is no such
        kind, or the topic exists and has another."""
        if storage and storage not in KINDS:
            raise InvalidStorageError(f"storage kind {storage!r} does not exist: it can be {' or '.join(KINDS)}")

        def act(outcome: Outcome) -> Ticket:
            existing = self.topics.get(topic)
            if existing is not None and storage and not is_ephemeral(topic) and existing.store.kind != storage:
                raise InvalidStorageError(
                    f"topic {topic} exists with storage kind {existing.store.kind} and can't become {storage}"
                )
            outcome.created = existing is None
            return self._catalog.create_topic(topic, storage)

        return self._catalog.act(topic, act)

    @fence_on_failure
    def create_channel(self, topic: str, channel: str, *, start: Target | None = None) -> tuple[Outcome, Ticket]:
        """start: where a new channel of a log topic begins; as always when None: with messages published from now on,
        or with those that wait at the topic when it is the first. Raises InvalidStorageError."""

        def act(outcome: Outcome) -> Ticket:
            owner = self._catalog.topic(topic)
            outcome.created = channel not in owner.channels
            offset = None if start is None else resolved(log_store_of(owner, "rewind_channel"), start)
            return self._catalog.create_channel(owner, channel, offset)

        return self._catalog.act(topic, act)

    @fence_on_failure
    def delete_topic(self, topic: str, *, by: str = "", expected: int | None = None) -> tuple[Outcome, Ticket]:
        """Drop a topic, its channels and all their messages; their consumers are disconnected. Of the log it can be
        restored. by: who asks for it. expected: how many messages the caller knows of. Raises CountsChangedError when
        there are many more."""
        catalog = self._catalog

        def act(outcome: Outcome) -> Ticket:
            one = catalog.topic(topic)
            check_counts(one.counts(), expected, topic)
            return catalog.delete_topic(one, outcome, by)

        return catalog.act(topic, act)

    @fence_on_failure
    def delete_channel(
        self, topic: str, channel: str, *, by: str = "", expected: int | None = None
    ) -> tuple[Outcome, Ticket]:
        """Drop a channel with all it holds; its consumers are disconnected. Of the log it can be restored. by: who asks
        for it. expected: how many messages the caller knows of. Raises CountsChangedError when there are many more."""
        catalog = self._catalog

        def act(outcome: Outcome) -> Ticket:
            one = catalog.channel(topic, channel)
            check_counts(one.counts(), expected, f"{topic}/{channel}")
            return catalog.delete_channel(one, outcome, by)

        return catalog.act(topic, act)

    @fence_on_failure
    def empty_topic(
        self, topic: str, *, channels_too: bool = False, by: str = "", expected: int | None = None
    ) -> tuple[Outcome, Ticket]:
        """Drop the messages that wait at the topic itself; with `channels_too` also those of its channels. As
        `delete_topic`."""

        def act(outcome: Outcome) -> Ticket:
            owner = self._catalog.topic(topic)
            check_counts(owner.counts() if channels_too else Outcome(depth=owner.store.depth), expected, topic)
            if self._catalog.trash.takes(owner):
                return self._catalog.trash.empty_topic(owner, outcome, channels_too=channels_too, by=by)
            store = owner.store
            upto = store.end_offset if isinstance(store, LogTopicStore) else None
            channels = list(owner.channels.values()) if channels_too else []
            is_frozen = upto is not None and store.positions().released is not None

            def written() -> Ticket:
                # While a topic of the log does not flow, only topology.json says up to where it was passed on.
                return self._catalog.released(owner, upto) if is_frozen and upto is not None else DONE

            def prepared() -> Ticket:
                if not channels or not isinstance(store, LogTopicStore):
                    return DONE
                # After topology.json: if the journal refuses now, the next start passes the topic's messages on to its
                # channels, and none is lost. In the other order the channels' messages would be lost.
                ticket = store.prepare_empty_channels()
                if not is_frozen:
                    return ticket
                return or_unknown(ticket, "topology.json was written, the channels' progress was not")

            def begin() -> Ticket:
                # A journal that can't be written refuses the act before anything is dropped.
                ready = after(after(store.synced(), written), prepared)
                return after(ready, lambda: self._pieces.start(_emptying(owner, upto, outcome, channels)))

            return store.unmerged(begin) if isinstance(store, LogTopicStore) else begin()

        return self._catalog.act(topic, act)

    @fence_on_failure
    def empty_channel(
        self, topic: str, channel: str, *, by: str = "", expected: int | None = None
    ) -> tuple[Outcome, Ticket]:
        """Drop all that a channel holds: waiting, deferred and in flight. As `delete_channel`."""

        def act(outcome: Outcome) -> Ticket:
            one, owner = self._catalog.channel(topic, channel), self.topics[topic]
            store, trash = owner.store, self._catalog.trash
            check_counts(one.counts(), expected, f"{topic}/{channel}")
            if trash.takes(owner, channel):
                return trash.empty_channels(owner, [one], outcome, act="empty_channel", by=by)

            def in_force() -> Ticket:
                outcome.add(one.empty())
                return or_unknown(store.synced(), "messages were dropped, and syncing that failed")

            # On the log, first made durable; a disk queue needs no preparation.
            prepared = one.backlog.prepare_empty() if isinstance(one.backlog, LogBacklog) else DONE
            return after(prepared, in_force)

        return self._catalog.act(topic, act)

    @fence_on_failure
    def pause_topic(
        self,
        topic: str,
        *,
        by: str = "",
        reason: str | None = None,
        until_ms: int | None = None,
        for_ms: int | None = None,
    ) -> tuple[Outcome, Ticket]:
        """Stop the flow from the topic to its channels. by: who asks for it. until_ms: when it resumes by itself, Unix;
        for_ms: after how long, instead; 0 for never. On a paused topic, None leaves the reason or the end as it is.
        Raises PauseError."""
        catalog = self._catalog
        request = PauseRequest(by, reason, until_ms, for_ms)
        return catalog.act(topic, lambda outcome: self._pauses.pause(catalog.topic(topic), outcome, request))

    @fence_on_failure
    def unpause_topic(self, topic: str, *, ramp_ms: int = 0) -> tuple[Outcome, Ticket]:
        """ramp_ms: how long its channels deliver slowly first, at most RAMP_MS_MAX. Raises PauseError."""
        catalog, resume = self._catalog, self._pauses.resume
        return catalog.act(topic, lambda outcome: resume(catalog.topic(topic), outcome, ramp_ms=ramp_ms))

    @fence_on_failure
    def pause_channel(
        self,
        topic: str,
        channel: str,
        *,
        by: str = "",
        reason: str | None = None,
        until_ms: int | None = None,
        for_ms: int | None = None,
    ) -> tuple[Outcome, Ticket]:
        """Stop the flow from the channel to its consumers; messages in flight stay so. As `pause_topic`."""
        catalog = self._catalog
        request = PauseRequest(by, reason, until_ms, for_ms)
        return catalog.act(topic, lambda outcome: self._pauses.pause(catalog.channel(topic, channel), outcome, request))

    @fence_on_failure
    def unpause_channel(self, topic: str, channel: str, *, ramp_ms: int = 0) -> tuple[Outcome, Ticket]:
        """As `unpause_topic`. A channel that is not paused ends its ramp: it delivers all at once."""
        catalog, resume = self._catalog, self._pauses.resume
        return catalog.act(topic, lambda outcome: resume(catalog.channel(topic, channel), outcome, ramp_ms=ramp_ms))

    @fence_on_failure
    def rewind_channel(
        self, topic: str, channel: str, *, target: Target, keep_finished: bool = False, is_exact: bool = False
    ) -> tuple[Outcome, Ticket]:
        """Move a channel of a log topic: all from there on is delivered (again), all before it is done. Messages in
        flight are taken from their consumers, whose FIN comes too late. The outcome counts those that wait then, and
        those in flight. The move is durable before it takes effect.

        keep_finished: skip messages before the offset, and deliver no finished message behind it again. is_exact:
        refuse an offset that the log has removed; otherwise the oldest one stands for it. Raises InvalidStorageError,
        LimitError or StorageError.
        """

        def act(outcome: Outcome) -> Ticket:
            one = self._catalog.channel(topic, channel)
            store, backlog = channel_log(self.topics[topic], one)
            offset = resolved(store, target, is_exact=is_exact)

            def in_force() -> Ticket:
                outcome.in_flight = one.in_flight_count
                one.forget_in_flight()
                if keep_finished:
                    backlog.skip_before(offset)
                else:
                    backlog.seek(offset)
                    store.trash.cede(channel, offset)
                one.has_moved()
                outcome.depth, outcome.deferred = backlog.depth, backlog.deferred_count
                return or_unknown(store.synced(), "the channel was moved, and syncing that failed")

            # In one block with the change of the trash: a crash leaves both or none.
            others = store.trash.ceded_ranges(channel, offset)
            prepared = backlog.prepare_skip(offset) if keep_finished else backlog.prepare_seek(offset, others)
            return after(prepared, in_force)

        return self._catalog.act(topic, act)

    @fence_on_failure
    def requeue_channel(
        self, topic: str, channel: str, *, client_key: int | None = None, message_id: str | None = None
    ) -> tuple[Outcome, Ticket]:
        """Put messages in flight back in the queue now: one, one client's, or all."""
        self._catalog.check_open()
        one = self._catalog.channel(topic, channel)
        store, outcome = self.topics[topic].store, Outcome()
        requeued = DONE
        if message_id is None:
            requeued = self._pieces.start(one.requeuing(outcome, client_key))
        else:
            one.requeue_in_flight(message_id.encode("ascii", "replace"))
            outcome.in_flight = 1
        return outcome, after(
            requeued, lambda: or_unknown(store.synced(), "messages were requeued, and syncing that failed")
        )

    @fence_on_failure
    def release_deferred(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Let all deferred messages of a channel wait like the others now."""
        self._catalog.check_open()
        one, store, outcome = self._catalog.channel(topic, channel), self.topics[topic].store, Outcome()
        released = self._pieces.start(one.releasing(outcome))
        return outcome, after(
            released, lambda: or_unknown(store.synced(), "messages were released, and syncing that failed")
        )

    @fence_on_failure
    def retry_topic(self, topic: str) -> tuple[Outcome, Ticket]:
        """Let a fenced topic go on: publishes are taken, and waiting messages go on to its channels. Raises FencedError
        when it fails again."""
        self._catalog.check_open()
        return self._retry(self._catalog.topic(topic), topic)

    @fence_on_failure
    def retry_channel(self, topic: str, channel: str) -> tuple[Outcome, Ticket]:
        """Let a fenced channel go on: unfinished messages wait again, those in flight included. Raises FencedError
        when it fails again."""
        self._catalog.check_open()
        return self._retry(self._catalog.channel(topic, channel), topic)

    def _retry(self, one: Topic | Channel, topic: str) -> tuple[Outcome, Ticket]:
        self._workload.retry_stalled(at_once=one)
        return one.retry(), self.topics[topic].store.synced()


def check_counts(counts: Outcome, expected: int | None, name: str) -> None:
    """Raises CountsChangedError when an act would remove many more messages than its caller knows of."""
    count = counts.depth + counts.in_flight + counts.deferred + counts.quarantined
    if expected is not None and count > expected + max(COUNTS_TOLERANCE, expected // 10):
        raise CountsChangedError(
            f"{name} has {count:,} messages now, and {expected:,} were expected; nothing was changed"
        )


def _emptying(
    owner: Topic, upto: int | None, outcome: Outcome, channels: Sequence[Channel]
) -> Generator[None, None, Ticket]:
    """A channel with each step. Messages published meanwhile wait at the topic: all channels get them, or none."""
    owner.hold()
    try:
        outcome.depth += owner.store.empty(upto).depth
        for channel in channels:
            if not channel.is_deleted:
                outcome.add(channel.empty())
                outcome.channels += 1
            yield
    finally:
        owner.resume()
    return or_unknown(owner.store.synced(), "messages were dropped, and syncing that failed")
