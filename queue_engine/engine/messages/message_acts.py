"""Acts on single messages of a channel, one or many, with one result for each.

Each returns its outcome, and a ticket that is done when it is durable, as the acts of `topic_acts.py`. A message that
an act can't be done to is left as it is, and its result says why.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.fences import refusal
from queue_engine.delivery.stats import MessageResult, Outcome
from queue_engine.delivery.topic import Topic
from queue_engine.engine.acts.fence_on_failure import fence_on_failure
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.messages.held_messages import frame_of
from queue_engine.engine.messages.log_messages import LogMessages
from queue_engine.engine.messages.message_reads import MessageReads, is_message_id, log_messages_of, not_in_memory
from queue_engine.engine.messages.rows import (
    BODY_LOST,
    DEFERRED,
    FINISHED,
    FINISHED_ALREADY,
    IDS_MAX,
    IN_FLIGHT,
    NOT_DEFERRED,
    NOT_FOUND,
    NOT_IN_FLIGHT,
    NOT_PASSED_ON,
    NOT_QUARANTINED,
    QUARANTINE_FULL,
    QUARANTINED,
    QUARANTINED_NOW,
    TOO_BIG,
    WAITING,
    InvalidQueryError,
)
from queue_engine.storage.disk_queue.disk_queue_backlog import DiskQueueBacklog
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.acts.table import check
from queue_engine.vocabulary.errors import LimitError
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.run import Batch
from queue_engine.vocabulary.ticket import DONE, Ticket, or_unknown

_WORDS = {WAITING: "it waits", IN_FLIGHT: "it is in flight", DEFERRED: "it is deferred"}
_DID = {
    WAITING: "it waited",
    IN_FLIGHT: "it was in flight",
    DEFERRED: "it was deferred",
    QUARANTINED: "it was quarantined",
    FINISHED: "it was finished",
}
NO_ROOM = "the quarantine is full (--quarantine-max-count, --quarantine-max-bytes)"
# Acts that may be done to a quarantined message.
_ON_QUARANTINED = frozenset({"finish_messages", "redrive_messages"})


@dataclass(slots=True)
class _Selection:
    """The messages that an act names, each once, and their states.

    log: of a channel of the log. ids: by reference (the id or offset in the request), of messages that exist. frames:
    of a disk queue's."""

    log: LogMessages | None
    results: dict[str, MessageResult] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)
    frames: dict[bytes, bytes] = field(default_factory=dict)

    def offsets_of(self, ids: Iterable[bytes]) -> list[int]:
        """Ascending, of messages of the log."""
        assert self.log is not None
        return sorted(map(self.log.offset_of, map(bytes.decode, ids)))

    def in_state(self, state: str) -> list[bytes]:
        return [
            self.ids[reference] for reference, result in self.results.items() if result.was == state and not result.code
        ]


class MessageActs:
    """The acts of one engine. reads: looks messages up."""

    def __init__(self, options: Options, catalog: Catalog, reads: MessageReads) -> None:
        self.topics = catalog.topics
        self._options = options
        self._catalog = catalog
        self._reads = reads

    @fence_on_failure
    def finish_messages(
        self, topic: str, channel: str, *, ids: Sequence[str] = (), offsets: Sequence[int] = ()
    ) -> tuple[Outcome, Ticket]:
        """Finish messages that wait, are deferred or in flight: they are never delivered again, and a consumer's FIN,
        REQ or TOUCH comes too late. ids, offsets: IDS_MAX in all; offsets on the log alone. Raises
        TopicNotFoundError, ChannelNotFoundError, InvalidQueryError, LimitError, FencedError or StorageError."""

        def finish(one: Channel, selection: _Selection) -> None:
            _finish_held(one, selection.in_state(IN_FLIGHT))
            behind = [*selection.in_state(WAITING), *selection.in_state(DEFERRED), *selection.in_state(QUARANTINED)]
            if behind:
                if selection.log is not None:
                    selection.log.finish(selection.offsets_of(behind))
                else:
                    assert isinstance(one.backlog, DiskQueueBacklog)
                    one.backlog.finish_in_memory(set(behind))
                    one.backlog.settle(behind)
                _finished(one, len(behind))

        return self._act("finish_messages", topic, channel, (ids, offsets), _why_not_finished, finish)

    @fence_on_failure
    def quarantine_messages(
        self, topic: str, channel: str, *, ids: Sequence[str] = (), offsets: Sequence[int] = ()
    ) -> tuple[Outcome, Ticket]:
        """Set messages aside that wait, are deferred or in flight: they are delivered again once they are redriven, and
        a consumer's FIN, REQ or TOUCH comes too late. As `finish_messages`; InvalidStorageError where the kind has no
        quarantine."""

        def set_aside(one: Channel, selection: _Selection) -> None:
            log = selection.log
            assert log is not None
            chosen = [*selection.in_state(IN_FLIGHT), *selection.in_state(WAITING), *selection.in_state(DEFERRED)]
            left = log.set_aside(selection.offsets_of(chosen), lambda message_id: _take_held(one, message_id))
            refused = {log.id_of(offset) for offset in left}
            one.has_moved()
            for text, message_id in selection.ids.items():
                if message_id in refused:
                    selection.results[text] = replace(selection.results[text], code=QUARANTINE_FULL, text=NO_ROOM)

        return self._act("quarantine_messages", topic, channel, (ids, offsets), lambda state: ("", ""), set_aside)

    @fence_on_failure
    def redrive_messages(
        self,
        topic: str,
        channel: str,
        *,
        ids: Sequence[str] = (),
        offsets: Sequence[int] = (),
        keeps_attempts: bool = False,
    ) -> tuple[Outcome, Ticket]:
        """Let quarantined messages wait again in their channel, at once, with their attempts counted anew unless
        `keeps_attempts`. As `finish_messages`."""

        def redrive(one: Channel, selection: _Selection) -> None:
            assert selection.log is not None
            selection.log.redrive(selection.offsets_of(selection.in_state(QUARANTINED)), keeps_attempts=keeps_attempts)
            one.has_moved()

        def why_not(state: str) -> tuple[str, str]:
            return ("", "") if state == QUARANTINED else (NOT_QUARANTINED, f"it is not quarantined: {_WORDS[state]}")

        return self._act("redrive_messages", topic, channel, (ids, offsets), why_not, redrive)

    @fence_on_failure
    def requeue_messages(
        self, topic: str, channel: str, *, ids: Sequence[str] = (), offsets: Sequence[int] = ()
    ) -> tuple[Outcome, Ticket]:
        """Let messages in flight wait again now. As `finish_messages`."""

        def requeue(one: Channel, selection: _Selection) -> None:
            for message_id in selection.in_state(IN_FLIGHT):
                one.requeue_in_flight(message_id)

        def why_not(state: str) -> tuple[str, str]:
            return ("", "") if state == IN_FLIGHT else (NOT_IN_FLIGHT, f"it is not in flight: {_WORDS[state]}")

        return self._act("requeue_messages", topic, channel, (ids, offsets), why_not, requeue)

    @fence_on_failure
    def release_messages(
        self, topic: str, channel: str, *, ids: Sequence[str] = (), offsets: Sequence[int] = ()
    ) -> tuple[Outcome, Ticket]:
        """Let deferred messages wait like the others now. As `finish_messages`."""

        def release(one: Channel, selection: _Selection) -> None:
            deferred = selection.in_state(DEFERRED)
            if selection.log is not None:
                selection.log.release(selection.offsets_of(deferred))
            else:
                assert isinstance(one.backlog, DiskQueueBacklog)
                one.backlog.release(set(deferred))
            one.has_moved()

        def why_not(state: str) -> tuple[str, str]:
            return ("", "") if state == DEFERRED else (NOT_DEFERRED, f"it is not deferred: {_WORDS[state]}")

        return self._act("release_messages", topic, channel, (ids, offsets), why_not, release)

    def _act(
        self,
        act: str,
        topic: str,
        channel: str,
        named: tuple[Sequence[str], Sequence[int]],
        why_not: Callable[[str], tuple[str, str]],
        change: Callable[[Channel, _Selection], None],
    ) -> tuple[Outcome, Ticket]:
        """why_not: the code and the reason for a message in this state, "" where the act can be done to it."""
        _check_count(*named)

        def begin(outcome: Outcome) -> Ticket:
            one = self._catalog.channel(topic, channel)
            owner = self.topics[topic]
            check(act, owner.store.kind, topic, channel)
            if one.fence is not None:
                raise refusal(one)  # where a message stands may be unknown
            selection = _looked_up(self._reads, owner, one, *named)
            for text, result in selection.results.items():
                if not result.code:
                    code, reason = _why_not_any(act, result.was) or why_not(result.was)
                    selection.results[text] = replace(result, code=code, text=reason or _DID[result.was])
            if any(not result.code for result in selection.results.values()):
                change(one, selection)
            # A failure that the act met only now, such as a full quarantine, is not counted.
            outcome.depth = len(selection.in_state(WAITING))
            outcome.in_flight = len(selection.in_state(IN_FLIGHT))
            outcome.deferred = len(selection.in_state(DEFERRED))
            outcome.quarantined = len(selection.in_state(QUARANTINED))
            outcome.results = tuple(selection.results.values())
            if not outcome.depth + outcome.in_flight + outcome.deferred + outcome.quarantined:
                return DONE
            return or_unknown(owner.store.synced(), "the messages were changed, and syncing that failed")

        return self._catalog.act(topic, begin)

    @fence_on_failure
    def publish_again(
        self,
        topic: str,
        channel: str,
        *,
        ids: Sequence[str] = (),
        offsets: Sequence[int] = (),
        to: str = "",
    ) -> tuple[Outcome, Ticket]:
        """Publish the bodies of messages in any state once more, with their keys where the log keeps them, to the topic
        `to`, which must exist; "" for the same topic. They are new messages, and the old ones stay as they are. All
        that are found are published as one batch, or none. Raises as `finish_messages`."""
        _check_count(ids, offsets)

        def begin(outcome: Outcome) -> Ticket:
            one = self._catalog.channel(topic, channel)
            target = self._catalog.topic(to or topic)
            check("publish_again", self.topics[topic].store.kind, topic, channel)
            selection = _looked_up(self._reads, self.topics[topic], one, ids, offsets)
            bodies: dict[str, bytes] = {}
            keys: list[bytes] = []
            size = 0
            most = self._options.max_msg_size
            for text, message_id in selection.ids.items():
                body, key = _content(selection, message_id)
                code, reason = "", ""
                if not body:
                    code, reason = BODY_LOST, "its body is lost: the log's record is damaged"
                elif len(body) > most:
                    code, reason = TOO_BIG, f"its body has {len(body)} bytes and the most is {most} (--max-msg-size)"
                else:
                    bodies[text] = body
                    keys.append(key)
                    size += len(body)
                # At once: a thousand bodies of the largest size would fill the memory.
                if size > self._options.max_body_size:
                    raise LimitError(
                        f"the first {len(bodies)} of {len(selection.ids)} bodies have {size} bytes and the most at "
                        f"once is {self._options.max_body_size} (--max-body-size)"
                    )
                selection.results[text] = replace(selection.results[text], code=code, text=reason)
            ticket = _published(target, bodies, keys, selection.results) if bodies else DONE
            outcome.depth = len(bodies)
            outcome.results = tuple(selection.results.values())
            return ticket

        return self._catalog.act(topic, begin)


def _published(
    target: Topic, bodies: dict[str, bytes], keys: Sequence[bytes], results: dict[str, MessageResult]
) -> Ticket:
    """Publish as one batch, and note the new ids in the results."""
    store = target.store

    def append(batch: Batch) -> Ticket:
        for reference, new_id in zip(bodies, batch.ids, strict=True):
            offset = int(new_id, 16) - store.id_base if isinstance(store, LogTopicStore) else None
            text = f"published again to {target.name}"
            results[reference] = replace(results[reference], new_id=new_id.decode(), new_offset=offset, text=text)
        if isinstance(store, LogTopicStore) and any(keys):
            return store.append_keyed(batch, keys=keys)
        return store.append(batch)

    return target.publish_alone(list(bodies.values()), append)


def _check_count(ids: Sequence[str], offsets: Sequence[int]) -> None:
    count = len(ids) + len(offsets)
    if not count:
        raise InvalidQueryError("no message is named: ids or offsets are missing")
    if count > IDS_MAX:
        raise LimitError(f"{count} messages are named and the most at once is {IDS_MAX}")


def _each(ids: Iterable[str], offsets: Iterable[int]) -> Iterable[tuple[str, str, int | None]]:
    """(reference in the request, id, offset) of each message, once."""
    named = {one: (one, None) for one in ids} | {str(one): ("", one) for one in offsets}
    return [(reference, message_id, offset) for reference, (message_id, offset) in named.items()]


def _content(selection: _Selection, message_id: bytes) -> tuple[bytes, bytes]:
    """A message's body and key; of no bytes for a body that is lost."""
    if selection.log is None:
        return selection.frames[message_id][FRAME_HEADER_BYTES:], b""
    found = selection.log.read(selection.log.offset_of(message_id.decode()))
    return (b"", b"") if found is None else (found.body, found.key)


def _looked_up(
    reads: MessageReads, owner: Topic, channel: Channel, ids: Sequence[str], offsets: Sequence[int]
) -> _Selection:
    log = log_messages_of(owner, channel)
    if log is None:
        return _in_memory(reads, channel, ids, offsets)
    found = _Selection(log)
    places: dict[str, int] = {}
    for reference, message_id, offset in _each(ids, offsets):
        if offset is None and not is_message_id(message_id):
            text = f"{message_id[:40]} is not an id: 16 hex digits in lower case"
            found.results[reference] = MessageResult(reference, None, "", NOT_FOUND, text)
        else:
            places[reference] = log.offset_of(message_id) if offset is None else offset
            found.results[reference] = MessageResult(reference)  # keeps the order
    states = log.states_of(sorted(set(places.values())))
    seen = set[int]()
    for reference, offset in places.items():
        if offset in seen:
            del found.results[reference]  # an id and an offset that name the same message
            continue
        seen.add(offset)
        state = states[offset]
        if state in (NOT_FOUND, NOT_PASSED_ON):
            found.results[reference] = MessageResult(reference, offset, "", state, log.why_not_found(offset))
        else:
            found.results[reference] = MessageResult(reference, offset, state)
            found.ids[reference] = log.id_of(offset)
    return found


def _in_memory(reads: MessageReads, channel: Channel, ids: Sequence[str], offsets: Sequence[int]) -> _Selection:
    """The selection in a disk queue."""
    for offset in offsets:
        raise InvalidQueryError(f"offset={offset}: messages of a disk queue have no offsets")
    found = _Selection(None)
    encoded = {message_id: message_id.encode("ascii", "replace") for message_id in ids}
    there = reads.disk_queue(channel).find(set(encoded.values()))
    for reference, message_id in encoded.items():
        if message_id in channel.held:
            state = IN_FLIGHT
            found.frames[message_id] = frame_of(message_id, channel.held.owned(None, message_id))
        elif message_id in there:
            state, (_, found.frames[message_id], _) = there[message_id]
        else:
            found.results[reference] = MessageResult(reference, code=NOT_FOUND, text=not_in_memory(reference))
            continue
        found.ids[reference] = message_id
        found.results[reference] = MessageResult(reference, was=state)
    return found


def _why_not_any(act: str, state: str) -> tuple[str, str] | None:
    """The code and the reason for a message that no act can be done to."""
    if state == FINISHED:
        return FINISHED_ALREADY, "it is finished already"
    if state == QUARANTINED and act not in _ON_QUARANTINED:
        return QUARANTINED_NOW, "it is quarantined: redrive it first"
    return None


def _why_not_finished(state: str) -> tuple[str, str]:
    return "", ""


def _take_held(channel: Channel, message_id: bytes) -> None:
    """Take a message in flight from its consumer, whose FIN, REQ and TOUCH come too late from now on."""
    channel.held.remove(None, message_id).consumer.in_flight_count -= 1


def _finish_held(channel: Channel, ids: Sequence[bytes]) -> None:
    """Finish messages in flight, each given once, as `_take_held`."""
    for message_id in ids:
        _take_held(channel, message_id)
    channel.backlog.settle(ids)
    _finished(channel, len(ids))


def _finished(channel: Channel, count: int) -> None:
    """So many were finished: those who had them have room, and others may be the next that are due."""
    channel.finish_count += count
    channel.has_moved()
