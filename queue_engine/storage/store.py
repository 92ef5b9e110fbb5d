"""What delivery asks of storage: two small protocols, and nothing about files.

`TopicStore` takes what is published; `Backlog` is one channel's view of it. A store may keep one copy per
channel (storage kind `diskqueue`) or one copy for all (`log`); delivery can't tell, except that an append may
complete later: its `Ticket` says when.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from queue_engine.vocabulary.run import Batch, Run
from queue_engine.vocabulary.ticket import Ticket


@dataclass(frozen=True, slots=True)
class EmptyResult:
    """What emptying dropped."""

    depth: int
    deferred: int


@dataclass(frozen=True, slots=True)
class StorePositions:
    """What topology.json has to keep of a topic's store; all zero where the store needs nothing kept.

    id_base: what is added to an offset to make a message's id. reserved_offset: all offsets below it may have been
    given. released: how far its messages went on to its channels, None while they flow. channel_starts: the offset
    each channel began at.
    """

    id_base: int = 0
    reserved_offset: int = 0
    released: int | None = None
    channel_starts: Mapping[str, int] = field(default_factory=dict)


NO_POSITIONS = StorePositions()


class Backlog(Protocol):
    """What waits for one channel.

    A message is in one of four states, and every move is one call: waiting (counted in `depth`), taken
    (handed out by `take`, not yet sent), in flight (after `sent`), deferred. `settle` ends it.
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

    @property
    def dropped_count(self) -> int:
        """Messages that an ephemeral channel had no room for, since the process started; 0 for any other."""
        ...

    can_reread: bool
    """Whether what was sent can be read again by its id. Then nobody has to keep its frames: `give_back` needs the ids
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
        """The run taken was handed to a transport: the delivery counts from here."""
        ...

    def sent_figures(self, run: Run, ids: Sequence[bytes]) -> list[tuple[int, int | None]]:
        """Of messages of `run` that are in flight: which delivery it is, and the bytes of the body; None where that
        would cost much reading."""
        ...

    def give_back(self, run: Run, ids: Sequence[bytes], *, counted: bool, due_ns: int | None = None) -> None:
        """Take messages of `run` back.

        counted: the delivery was made, so the next one has one attempt more, and they stand behind what waits, at most
        --mem-queue-size of it, and behind what was given back before; otherwise they were never sent, go to the very
        front, and keep their attempts.
        due_ns: monotonic time before which they must not be taken (deferred until then); None means at once.
        Never fails for want of disk: what can't be written stays in memory.
        """
        ...

    def settle(self, ids: Sequence[bytes]) -> None:
        """These in-flight messages are finished for this channel."""
        ...

    def next_due_ns(self) -> int | None:
        """Monotonic time at which the earliest deferred message is due."""
        ...

    def release_due(self, now_ns: int, count_max: int) -> int:
        """Let deferred messages that are due wait like the others; returns how many, at most `count_max`."""
        ...

    def release_all_deferred(self) -> int:
        """Let every deferred message wait like the others, due or not; returns how many."""
        ...

    def tidy(self) -> None:
        """Let go of what only costs memory. Called every few seconds."""
        ...

    def disk_bytes(self) -> int:
        """Bytes on disk that are there for this channel: its files, or the part of a shared log that it needs."""
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
        """How often that unfinished message was delivered that was delivered most often, and its id; (0, b"") when
        none was delivered more than twice."""
        ...

    def empty(self) -> EmptyResult:
        """Drop what waits and what is deferred. What is in flight is settled by the caller."""
        ...

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        """Tell what fails unexpectedly in here outside of the calls above, while messages come or at a start: what was
        done, and the error. `on_fault` is called at once if something has. Nothing of that is lost by it."""
        ...

    def start_over(self) -> bool:
        """A call failed unexpectedly, and the channel is to be tried again: put every message in its place anew from
        what is known for sure, as a start does.

        True: what is not settled waits or is deferred now, what was taken or in flight included. False: only what the
        caller gives back comes back. Raises what fails now.
        """
        ...


class TopicStore(Protocol):
    """What is published to one topic, and the backlogs that come of it."""

    @property
    def kind(self) -> str:
        """The storage kind, as topology.json and the console name it."""
        ...

    @property
    def depth(self) -> int:
        """What waits at the topic: not yet given to channels, because it is paused or has none."""
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
        """Take a batch, all or nothing, for every channel there is (or, withheld, for the topic itself).

        due_ns: monotonic time until which it is deferred in each channel. The ticket is done when the
        storage kind's promise holds; it is rejected with StorageError, and then nothing of it is delivered.
        """
        ...

    def set_flowing(self, is_flowing: bool) -> None:
        """Whether messages go on to the channels (not paused, not starting). Takes effect for what waits
        through `pump`."""
        ...

    def pump(self, count_max: int) -> int:
        """Move what waits at the topic on to its channels, oldest first; returns how many, at most `count_max`.

        One call moves about a mebibyte at most. 0 when nothing waits, the flow is stopped, or there is no channel.
        Raises StorageError when the disk refuses; nothing is lost, and part of it may have been moved.
        """
        ...

    def plan_channel(self, name: str, start: int | None = None) -> int:
        """The offset a new channel begins at, were it opened now; what lies behind is kept until it is opened or
        `unplan_channel` is called. start: where it is to begin if that is there. 0 where there are no offsets."""
        ...

    def unplan_channel(self, name: str) -> None:
        """It is not opened."""
        ...

    def open_channel(self, name: str, number: int = 0, start: int | None = None) -> Backlog:
        """The backlog of a channel: what it had before a restart, else nothing; the first channel of a topic
        gets what waits at the topic, through `pump`. number: the channel's, never another's. start: as `plan_channel`
        said; None for where the topic is now."""
        ...

    def delete_channel(self, name: str) -> None:
        """Drop a channel and all that it has on disk; topology.json does not name it any more."""
        ...

    def synced(self) -> Ticket:
        """Done when what was dropped or moved so far is on disk, as far as this kind keeps it there."""
        ...

    def forgotten(self) -> Ticket:
        """Done when nothing of what was emptied or deleted so far, the topic itself included, can come again after a
        kill or a power cut, where topology.json does not see to that."""
        ...

    def positions(self) -> StorePositions:
        """What topology.json has to keep of this store, as of now."""
        ...

    def disk_bytes(self) -> int:
        """Bytes on disk that are there for the topic: the files of what waits at it, or the part of a shared log
        that it, its channels and its readers need."""
        ...

    def oldest_ns(self) -> int | None:
        """From when on the age of the oldest message that waits at the topic itself runs, as `Backlog.oldest_ns`."""
        ...

    def empty(self, upto: int | None = None) -> EmptyResult:
        """Drop what waits at the topic itself; its channels keep theirs. upto: an offset, where there are any: what
        lies behind stays."""
        ...

    def delete(self) -> None:
        """Drop the topic and its channels and all that they have on disk."""
        ...

    def watch(self, on_fault: Callable[[str, Exception], object]) -> None:
        """As `Backlog.watch`, for the topic itself."""
        ...

    def start_over(self) -> None:
        """As `Backlog.start_over`: a fenced topic is to be tried again. Raises what fails now."""
        ...

    def begin_close(self) -> None:
        """The process ends: nothing comes or goes any more, and what belongs to all topics of the kind puts this
        topic on disk with the others. In-flight messages were given back before."""
        ...

    def close(self) -> None:
        """For one topic alone: put everything that must outlive the process on disk and sync it. In-flight messages
        were given back before. Raises StorageError naming what could not be written."""
        ...
