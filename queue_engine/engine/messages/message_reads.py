"""Reads of the single messages of a channel, without consuming: lists by state, and one with its body.

They change nothing, so one that fails unexpectedly fails its request, and fences nothing.
"""

from collections.abc import Mapping

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.topic import Topic
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.messages.disk_queue_messages import DiskQueueMessages, row_of
from queue_engine.engine.messages.held_messages import Client, HeldMessages, frame_of
from queue_engine.engine.messages.keyed_messages import KeyedMessages
from queue_engine.engine.messages.log_messages import LogMessages
from queue_engine.engine.messages.rows import (
    IN_FLIGHT,
    NOT_FOUND,
    NOT_PASSED_ON,
    InvalidQueryError,
    Listed,
    MessageNotFoundError,
    MessageQuery,
    MessageRow,
    MessageRows,
    OneMessage,
)
from queue_engine.storage.disk_queue.disk_queue_backlog import DiskQueueBacklog
from queue_engine.storage.fetch.key_search import KeySearch
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.acts.table import check
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES

ID_DIGITS = 16


def log_messages_of(topic: Topic, channel: Channel) -> LogMessages | None:
    """The messages of a channel of the log; None for a channel of a disk queue."""
    if not isinstance(topic.store, LogTopicStore):
        return None
    assert isinstance(channel.backlog, LogBacklog)
    start = topic.store.positions().channel_starts.get(channel.name, 0)
    return LogMessages(topic.store, channel.backlog, channel.held, start)


def is_message_id(text: str) -> bool:
    """Whether it has the form of an id: 16 hex digits, lower case."""
    return len(text) == ID_DIGITS and all(digit in "0123456789abcdef" for digit in text)


class MessageReads:
    """The reads of one engine. clients: those that are connected, by key."""

    def __init__(self, catalog: Catalog, clients: Mapping[int, Client], clock: Clock) -> None:
        self.topics = catalog.topics
        self._catalog = catalog
        self._clients = clients
        self._clock = clock

    def list(self, topic: str, channel: str, query: MessageQuery) -> MessageRows:
        """A page of the messages of one state. Raises TopicNotFoundError, ChannelNotFoundError, InvalidQueryError,
        LimitError or StorageError."""
        query.check()
        one = self._catalog.channel(topic, channel)
        owner = self.topics[topic]
        check("list_messages", owner.store.kind, topic, channel)
        log = log_messages_of(owner, one)
        source = log or self.disk_queue(one)
        if query.key:
            check("find_key", owner.store.kind, topic, channel)
            listed = self._with_key(owner, one, query)
        elif query.state == IN_FLIGHT:
            listed = HeldMessages(one, log, self._clients, self._clock.monotonic_ns()).listed(query)
        else:
            listed = source.listed(query)
        return MessageRows(
            topic,
            channel,
            owner.store.kind,
            query.state,
            listed.rows,
            source.counts(one.in_flight_count),
            listed.next_cursor,
            listed.is_bounded,
            listed.note,
            owner.number,
            one.number,
        )

    def _with_key(self, owner: Topic, channel: Channel, query: MessageQuery) -> Listed:
        log = log_messages_of(owner, channel)
        assert log is not None, "only the log keeps keys"
        assert isinstance(owner.store, LogTopicStore)
        held = HeldMessages(channel, log, self._clients, self._clock.monotonic_ns())

        def row(offset: int, state: str, preview_bytes: int) -> MessageRow:
            if state != IN_FLIGHT:
                return log.row(offset, state, preview_bytes)
            encoded = log.id_of(offset)
            return held.row(encoded, channel.held.owned(None, encoded), preview_bytes)

        return KeyedMessages(KeySearch(owner.store), log, row).listed(query)

    def one(self, topic: str, channel: str, *, message_id: str = "", offset: int | None = None) -> OneMessage:
        """One message with its whole body, by its id or, on the log, its offset. Raises MessageNotFoundError, and as
        `list`."""
        one = self._catalog.channel(topic, channel)
        owner = self.topics[topic]
        if (offset is None) == (not message_id):
            raise InvalidQueryError("id or offset: give one of them")
        if message_id and not is_message_id(message_id):
            raise InvalidQueryError(f"id={message_id[:40]} is not {ID_DIGITS} hex digits in lower case")
        log = log_messages_of(owner, one)
        if log is None:
            if offset is not None:
                raise InvalidQueryError(f"offset={offset}: messages of a disk queue have no offsets")
            return self._one_of_disk_queue(owner, one, message_id)
        at = log.offset_of(message_id) if offset is None else offset
        state = log.states_of([at])[at]
        if state in (NOT_FOUND, NOT_PASSED_ON):
            raise MessageNotFoundError(log.why_not_found(at))
        if state == IN_FLIGHT:
            encoded = log.id_of(at)
            held = HeldMessages(one, log, self._clients, self._clock.monotonic_ns())
            row = held.row(encoded, one.held.owned(None, encoded))
        else:
            row = log.row(at, state)
        found = log.read(at)
        body, due_ns = (b"", 0) if found is None else (found.body, found.due_ns)
        return OneMessage(topic, channel, owner.store.kind, row, body, due_ns)

    def _one_of_disk_queue(self, owner: Topic, channel: Channel, message_id: str) -> OneMessage:
        encoded = message_id.encode()
        if encoded in channel.held:
            held = HeldMessages(channel, None, self._clients, self._clock.monotonic_ns())
            delivery = channel.held.owned(None, encoded)
            row, frame = held.row(encoded, delivery), frame_of(encoded, delivery)
        else:
            found = self.disk_queue(channel).find({encoded})
            if not found:
                raise MessageNotFoundError(not_in_memory(message_id))
            state, (_, frame, due_at_ns) = found[encoded]
            row = row_of(state, encoded, frame, due_at_ns, 0)
        return OneMessage(owner.name, channel.name, owner.store.kind, row, frame[FRAME_HEADER_BYTES:])

    def disk_queue(self, channel: Channel) -> DiskQueueMessages:
        """The messages of a channel of a disk queue."""
        assert isinstance(channel.backlog, DiskQueueBacklog)
        zero_ns = self._clock.time_ns() - self._clock.monotonic_ns()
        return DiskQueueMessages(channel.backlog, lambda due_ns: zero_ns + due_ns)


def not_in_memory(message_id: str) -> str:
    """Why a message of a disk queue can't be reached."""
    return (
        f"message {message_id} is not in flight, deferred or in memory: it may wait in the channel's files, which are "
        "read from front to back, or be finished"
    )
