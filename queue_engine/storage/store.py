"""The two protocols through which delivery uses storage; they say nothing about files.

`TopicStore` takes published messages; `Backlog` is one channel's view of it. A store may keep one copy per
channel (storage kind `diskqueue`) or one copy for all (`log`). Delivery sees one difference: an append to the log may
complete later, when its `Ticket` is done.
"""

import sys
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from queue_engine.storage.quarantine_stats import QuarantineStats
from queue_engine.vocabulary.flow.return_reason import ReturnReason
from queue_engine.vocabulary.run import Batch, Run
from queue_engine.vocabulary.ticket import Ticket


@dataclass(frozen=True, slots=True)
class EmptyResult:
    """The result of emptying."""

    depth: int
    deferred: int
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class StorePositions:
    """The values of a topic's store in topology.json; all zero for a kind that needs nothing stored.

    id_base: a message's id is its offset plus this. reserved_offset: all offsets below it may have been
    given. released: how far its messages went on to its channels, None while they flow. channel_starts: the offset
    each channel began at.
    """

    id_base: int = 0
    reserved_offset: int = 0
    released: int | None = None
    channel_starts: Mapping[str, int] = field(default_factory=dict)


NO_POSITIONS = StorePositions()


PlainCounts = tuple[int, int, int, int | None, int, QuarantineStats]
"""Of a backlog without messages that are deferred, or were: depth, `backend_depth`, message count, `oldest_ns`, bytes
on disk, quarantine."""


class Backlog(Protocol):
    """The messages that wait for one channel.

    A message is in one of five states, and every move is one call: waiting (counted in `depth`), taken
    (handed out by `take`, not yet sent), in flight (after `sent`), deferred, quarantined. `settle` ends it.
    """

    @property
    def depth(self) -> int:
        """Messages that wait; neither those taken, in flight nor deferred."""
        ...

    @property
    def backend_depth(self) -> int:
        """The part of `depth` that is on disk."""
        ...

    @property
    def deferred_count(self) -> int: ...

    def stats_sign(self) -> Hashable | None:
        """Another value whenever a count, an age, a due time or the most attempts may be another one, and cheaper than
        these; nothing of `disk_bytes`. None: they have to be read. Any exception means the same, and is reported."""
        ...

    def plain_counts(self) -> PlainCounts | None:
        """Its counts at one go, where they are quickly made; None: each has to be read. Raises StorageError; any
        exception means the same as None."""
        ...

    def quarantine_stats(self) -> QuarantineStats:
        """The messages set aside until an operator redrives them; NO_QUARANTINE for a kind without a quarantine."""
        ...

    def set_max_attempts(self, max_attempts: int) -> None:
        """After how many deliveries a message that comes back is set aside; 0: never. Only for a kind with a
        quarantine."""
        ...

    @property
    def dropped_count(self) -> int:
        """Messages that an ephemeral channel had no room for, since the process started; 0 for any other."""
        ...

    can_reread: bool
    """Whether sent messages can be read again by their ids. Then delivery keeps no frames: `give_back` needs the ids
    alone."""

    @property
    def message_count(self) -> int:
        """Messages that ever came to this channel since the process started, redeliveries excluded."""
        ...

    def take(self, count_max: int, bytes_max: int) -> Run | None:
        """Hand out messages from the front: at most `count_max`, and at most `bytes_max` bytes of frames, but
        always at least one when anything waits. None when nothing does.

        Raises StorageError when the disk refuses; nothing is lost, a later call goes on.
        """
        ...

    def sent(self, run: Run) -> None:
        """The run is handed to the connection next: the delivery counts from here."""
        ...

    def attempts_and_sizes(self, run: Run, ids: Sequence[bytes]) -> list[tuple[int, int | None]]:
        """For each of these in-flight messages of `run`: the number of its delivery, and the bytes of its body; None
        when that would cost much reading."""
        ...

    def give_back(
        self,
        run: Run,
        ids: Sequence[bytes],
        *,
        counted: bool,
        due_ns: int | None = None,
        reason: ReturnReason = ReturnReason.UNKNOWN,
        consumer: str = "",
    ) -> None:
        """Take messages of `run` back.

        counted: the delivery was made, so the next one has one attempt more, and they stand behind waiting messages, at
        most --mem-queue-size of them, and behind those given back before; otherwise they were never sent, go to the
        very front, and keep their attempts. due_ns: monotonic time before which they must not be taken (deferred until
        then); None means at once. reason, consumer: how their delivery ended, and whose it was; a kind with a
        quarantine may set them aside. Never fails for want of disk: messages that can't be written stay in memory.
        """
        ...

    def settle(self, ids: Sequence[bytes]) -> None:
        """These in-flight messages are finished for this channel."""
        ...

    def next_due_ns(self) -> int | None:
        """Monotonic time at which the earliest deferred message is due."""
        ...

    def latest_due_ns(self) -> int | None:
        """The same of the latest one that was deferred since none was; it may be settled by now."""
        ...

    def release_due(self, now_ns: int, count_max: int) -> int:
        """Let deferred messages that are due wait like the others; returns how many, at most `count_max`."""
        ...

    def release_deferred(self, count_max: int = sys.maxsize) -> int:
        """Let deferred messages wait like the others, due or not, earliest first; returns how many."""
        ...

    def tidy(self) -> None:
        """Free memory that is not needed. Called every few seconds."""
        ...

    def disk_bytes(self) -> int:
        """Bytes on disk that this channel needs: its files, or its part of a shared log."""
        ...

    def oldest_ns(self) -> int | None:
        """From when on the age of the oldest unfinished message runs, Unix ns: from its publication, or from the time
        it was due if it was deferred. One that is not due yet does not count. None when there is none, or unknown.
        Raises StorageError.

        Where `can_reread` is false, messages in flight are left out, but for those in `aged_by_due`.
        """
        ...

    @property
    def aged_by_due(self) -> Container[bytes]:
        """Ids of messages in flight whose age runs from the time they were due: `oldest_ns` has counted them."""
        ...

    def most_attempts(self) -> tuple[int, bytes]:
        """The most deliveries that any unfinished message had, and its id; (0, b"") when none had more than two."""
        ...

    def empty(self) -> EmptyResult:
        """Drop waiting and deferred messages. The caller settles those in flight."""
        ...

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        """Report unexpected errors outside of the calls above, while messages arrive or at a start, as `on_fault(doing,
        error)`; at once if one has happened already. No message is lost by such an error."""
        ...

    def start_over(self) -> bool:
        """A call failed unexpectedly, and the channel is tried again: rebuild the waiting messages from the durable
        state, as a start does.

        True: all messages that are not settled wait or are deferred now, those taken or in flight included. False: the
        caller gives back those in flight itself. Raises an error that happens now.
        """
        ...


class TopicStore(Protocol):
    """Stores the messages of one topic, and makes the backlogs of its channels."""

    @property
    def kind(self) -> str:
        """The storage kind, as topology.json and the console name it."""
        ...

    @property
    def depth(self) -> int:
        """Messages that wait at the topic: it is paused or has no channel."""
        ...

    @property
    def backend_depth(self) -> int: ...

    @property
    def deferred_count(self) -> int:
        """The part of `depth` that is deferred."""
        ...

    @property
    def dropped_count(self) -> int:
        """Messages that an ephemeral topic had no room for, since the process started; 0 for any other."""
        ...

    def deferral_cost(self, bodies: Sequence[bytes]) -> int:
        """The memory that these messages take in each channel while they are deferred, bytes."""
        ...

    def make_batch(self, bodies: Sequence[bytes]) -> Batch:
        """The batch that `append` takes next: with ids and a publish time."""
        ...

    def append(self, batch: Batch, due_ns: int | None = None) -> Ticket:
        """Take a batch, all or nothing, for every channel; without flow, it waits at the topic.

        due_ns: monotonic time until which it is deferred in each channel. The ticket is done when the
        storage kind's promise holds. When it is rejected with StorageError, no channel delivers any of the batch.
        """
        ...

    def set_flowing(self, is_flowing: bool) -> None:
        """Whether messages are passed on to the channels (not while paused or starting). `pump` passes on the messages
        that wait at the topic."""
        ...

    def pump(self, count_max: int) -> int:
        """Pass waiting messages of the topic on to its channels, oldest first; returns how many, at most `count_max`.

        One call moves about a mebibyte at most. 0 when nothing waits, the flow is stopped, or there is no channel.
        Raises StorageError when the disk refuses; nothing is lost, and part of it may have been moved.
        """
        ...

    def plan_channel(self, name: str, start: int | None = None) -> int:
        """The offset at which a new channel would begin now; the log keeps messages from there on until the channel is
        opened or `unplan_channel` is called. start: the wanted offset, used if it exists. 0 where there are no
        offsets."""
        ...

    def unplan_channel(self, name: str) -> None:
        """The planned channel is not opened."""
        ...

    def open_channel(self, name: str, number: int = 0, start: int | None = None) -> Backlog:
        """The backlog of a channel: its messages from before a restart, otherwise empty; the first channel of a topic
        gets the messages that wait at the topic, through `pump`. number: the channel's own. start: from `plan_channel`;
        None for where the topic is now."""
        ...

    def delete_channel(self, name: str) -> None:
        """Drop a channel and all that it has on disk; topology.json does not name it any more."""
        ...

    def synced(self) -> Ticket:
        """Done when the acts so far, such as emptying or moving a channel, are durable, as far as this kind makes them
        so."""
        ...

    def forgotten(self) -> Ticket:
        """Done when messages that were emptied or deleted so far, with the topic or alone, can't come again after a
        kill or a power cut. Done at once for a kind whose deletions topology.json makes final."""
        ...

    def positions(self) -> StorePositions:
        """This store's values for topology.json, as of now."""
        ...

    def disk_bytes(self) -> int:
        """Bytes on disk that are there for the topic: the files of messages that wait at it, or the part of a shared
        log that it, its channels and its readers need."""
        ...

    def oldest_ns(self) -> int | None:
        """From when on the age of the oldest message that waits at the topic itself runs, as `Backlog.oldest_ns`."""
        ...

    def empty(self, upto: int | None = None) -> EmptyResult:
        """Drop the messages that wait at the topic itself; its channels keep theirs. upto: on the log, the offset from
        which on messages stay."""
        ...

    def delete(self) -> None:
        """Drop the topic and its channels and all that they have on disk."""
        ...

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        """As `Backlog.watch`, for the topic itself."""
        ...

    def start_over(self) -> None:
        """As `Backlog.start_over`, for a fenced topic. Raises an error that happens now."""
        ...

    def begin_close(self) -> None:
        """The engine stops: this topic takes and gives nothing more. All topics of the kind are then written together.
        In-flight messages were given back before."""
        ...

    def close(self) -> None:
        """Close one topic alone: write everything that must outlive the process to the disk, and sync it. In-flight
        messages were given back before. Raises StorageError naming the queues that could not be written."""
        ...
