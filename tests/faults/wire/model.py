"""A model of the messages that a broker may and must send: every message in every channel, as far as clients can know.

A copy is one message in one channel. Where the model can't know (a timeout that may have passed, a command that was cut
off by a kill), the copy is in a state that allows both, and the next thing that is seen decides.

What kill -9 may take, by storage kind:
    log         nothing that was acknowledged; what was finished before it and answered for does not return
    diskqueue   what was in flight or deferred, and so many messages as --mem-queue-size of each queue; what was
                taken from a file since its last sync returns, also when it was finished
"""

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from tests.support.nsq_socket import Message

NS_PER_MS = 1_000_000
# Clocks of two processes on one machine are one clock; a millisecond is rounding.
EARLY_NS_MAX = 2 * NS_PER_MS


class BrokenPromiseError(AssertionError):
    """The server broke a promise of a broker; the text names it."""


class Place(Enum):
    WAITING = "waiting"  # must come; where the model knows of no reason why not yet
    HELD = "in flight"
    DEFERRED = "deferred"
    ANSWERED = "answered"  # FIN, REQ or TOUCH is on its way
    UNSURE = "unsure"  # may be there or not
    GONE = "gone"  # finished, emptied or skipped: may not come


SURE = (Place.WAITING, Place.HELD, Place.DEFERRED)


@dataclass(slots=True)
class Copy:
    """not_before_ns: HELD, DEFERRED: may not come before (monotonic). holder: the consumer that it was sent to last.
    came_ns: when it came while its answer was on its way; 0 for not. gone_ns: since when it is.
    is_sure: whether it was known to be there when it was answered. seen: the attempts that came."""

    place: Place
    attempts: int = 0
    has_exact_attempts: bool = True
    holder: int = 0
    not_before_ns: int = 0
    came_ns: int = 0
    came_to: int = 0
    gone_ns: int = 0
    is_sure: bool = True
    seen: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Published:
    """One message. due_ns: until when it was deferred at publication, monotonic; 0 for not."""

    serial: int
    size: int
    due_ns: int = 0


@dataclass(slots=True)
class Counters:
    """The counters of /stats since the process started. inexact: names of those that the model can't know."""

    message_count: int = 0
    finish_count: int = 0
    requeue_count: int = 0
    inexact: set[str] = field(default_factory=set)

    def exact(self) -> dict[str, int]:
        names = ("message_count", "finish_count", "requeue_count")
        return {name: getattr(self, name) for name in names if name not in self.inexact}


@dataclass
class ModelChannel:
    """may_be_missing: so many of its waiting copies a kill may have taken. repeats: a disk queue was killed: these may
    be there twice, and return when they are gone, until it was drained. is_unsettled: what was in flight is being
    given back, and what comes meanwhile may be from before that. has_leavers: the server may still send to a consumer
    that has left."""

    paused: bool = False
    pause_reason: str = ""
    is_unsettled: bool = False
    has_leavers: bool = False
    copies: dict[int, Copy] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    may_be_missing: int = 0
    repeats: set[int] = field(default_factory=set)

    def accept(self, message: Published, *, is_sure: bool = True) -> None:
        if not is_sure:
            self.copies[message.serial] = Copy(Place.UNSURE)
            self.counters.inexact.add("message_count")
            return
        self.counters.message_count += 1
        if message.due_ns:
            copy = Copy(Place.DEFERRED, not_before_ns=message.due_ns)
        else:
            copy = Copy(Place.WAITING)
        copy.has_exact_attempts = not self.has_leavers
        self.copies[message.serial] = copy

    def count(self, *places: Place) -> int:
        return sum(copy.place in places for copy in self.copies.values())

    def least_and_most(self) -> tuple[int, int | None]:
        """How many messages it has in all places; None for no limit."""
        sure = self.count(*SURE)
        unsure = self.count(Place.UNSURE, Place.ANSWERED)
        return max(sure - self.may_be_missing, 0), None if self.repeats else sure + unsure

    def delivered(self, serial: int, message: Message, consumer: int, *, cleared_ns: int, timeout_ms: int) -> bool:
        """A message came to a consumer whose timeout this is; all it was sent up to `cleared_ns` was read before.

        Returns whether the consumer has it: no when a later delivery, to another one, was read before this. Raises
        BrokenPromiseError when it may not come now."""
        copy = self.copies.get(serial)
        if copy is None or (copy.place is Place.GONE and serial in self.repeats):
            if serial not in self.repeats:
                raise BrokenPromiseError(f"message {serial} was never for this channel")
            copy = self.copies[serial] = Copy(Place.UNSURE, has_exact_attempts=False)
        now_ns = cleared_ns  # it was sent then, or later
        if self.paused:
            raise BrokenPromiseError(f"message {serial} came, though the channel is paused")
        is_late = message.attempts < copy.attempts and message.attempts not in copy.seen and consumer != copy.holder
        if is_late and not self.is_unsettled:
            copy.seen.add(message.attempts)
            return False
        self._check_attempts(serial, copy, message.attempts)
        copy.seen.add(message.attempts)
        copy.attempts = message.attempts
        if copy.place is Place.ANSWERED:
            copy.came_ns, copy.came_to = _now(), consumer
            return True
        if copy.place is Place.GONE:
            raise BrokenPromiseError(f"message {serial} returned, though it was finished or dropped")
        may_be_another = copy.place is Place.DEFERRED and serial in self.repeats
        is_early = copy.place in (Place.HELD, Place.DEFERRED) and _now() + EARLY_NS_MAX < copy.not_before_ns
        if is_early and not may_be_another:
            early_ms = (copy.not_before_ns - _now()) / NS_PER_MS
            raise BrokenPromiseError(f"message {serial} is {copy.place.value} and came {early_ms:.0f} ms early")
        copy.place = Place.HELD
        copy.holder = consumer
        copy.not_before_ns = 0 if self.is_unsettled else now_ns + timeout_ms * NS_PER_MS
        return True

    def _check_attempts(self, serial: int, copy: Copy, attempts: int) -> None:
        if serial in self.repeats or self.is_unsettled:
            return
        if attempts <= copy.attempts:
            raise BrokenPromiseError(f"message {serial}: attempt {attempts} after attempt {copy.attempts}")
        # While a timeout may pass, deliveries to several consumers are read in any order.
        if copy.has_exact_attempts and copy.place is Place.WAITING and attempts != copy.attempts + 1:
            raise BrokenPromiseError(f"message {serial}: attempt {attempts}, though only {copy.attempts} came before")

    # Answers of a consumer: sent, then settled by what the server said.

    def answering(self, serial: int) -> Copy:
        copy = self.copies[serial]
        copy.is_sure = copy.place is not Place.UNSURE
        copy.place = Place.ANSWERED
        copy.came_ns = copy.came_to = 0
        return copy

    def refused(self, serial: int, verb: str) -> None:
        """An answer was not taken: then the timeout must have passed."""
        copy = self.copies[serial]
        if _now() + EARLY_NS_MAX < copy.not_before_ns and serial not in self.repeats:
            raise BrokenPromiseError(f"{verb} of message {serial} was refused, though it is in flight")
        if copy.came_ns:
            self._held_again(copy)
        else:
            copy.place = Place.WAITING if copy.is_sure else Place.UNSURE
            copy.holder = 0

    def finished(self, serial: int) -> None:
        copy = self.copies[serial]
        self.counters.finish_count += 1
        if copy.came_ns and serial in self.repeats:
            self._held_again(copy)
            return
        if copy.came_ns and (copy.came_to != copy.holder or copy.came_ns + EARLY_NS_MAX < copy.not_before_ns):
            raise BrokenPromiseError(f"message {serial} returned after its FIN was taken")
        self.gone(copy)

    def finished_by_hand(self, serial: int) -> None:
        """An operator finished it, and all that was sent before was read."""
        self.counters.finish_count += 1
        copy = self.copies.get(serial)
        if copy is None or (serial in self.repeats and copy.place is Place.GONE):
            return  # another copy, of a disk queue that was killed
        if copy.place is Place.GONE:
            raise BrokenPromiseError(f"message {serial} was finished by hand, though it was finished or dropped before")
        self.gone(copy)

    def requeued(self, serial: int, sent_ns: int, delay_ms: int) -> None:
        copy = self.copies[serial]
        self.counters.requeue_count += 1
        due_ns = sent_ns + delay_ms * NS_PER_MS
        if copy.came_ns and (serial in self.repeats or copy.came_ns + EARLY_NS_MAX >= due_ns):
            self._held_again(copy)
            return
        if copy.came_ns and copy.came_ns + EARLY_NS_MAX < copy.not_before_ns:
            raise BrokenPromiseError(f"message {serial} came before the {delay_ms} ms of its REQ were over")
        copy.holder = 0
        copy.place = Place.DEFERRED if delay_ms else Place.WAITING
        copy.not_before_ns = due_ns

    def touched(self, serial: int, sent_ns: int, timeout_ms: int) -> None:
        copy = self.copies[serial]
        fresh_ns = sent_ns + timeout_ms * NS_PER_MS
        is_early = copy.came_to != copy.holder and copy.came_ns + EARLY_NS_MAX < fresh_ns
        if copy.came_ns and is_early and serial not in self.repeats:
            raise BrokenPromiseError(f"message {serial} came again though it was touched")
        if copy.came_ns:
            self._held_again(copy)
        else:
            copy.place = Place.HELD
            copy.not_before_ns = fresh_ns

    def _held_again(self, copy: Copy) -> None:
        copy.place = Place.HELD
        copy.holder = copy.came_to
        copy.not_before_ns = 0  # so it may be in flight, or have timed out again

    @staticmethod
    def gone(copy: Copy) -> None:
        copy.place = Place.GONE
        copy.holder = 0
        copy.gone_ns = _now()

    # What happens to many at once.

    def give_back(self, consumer: int) -> None:
        """A consumer left."""
        for copy in self.copies.values():
            if copy.place is Place.HELD and copy.holder == consumer:
                copy.place = Place.WAITING
                copy.holder = 0

    @contextmanager
    def unsettled(self) -> Iterator[None]:
        """Meanwhile what is in flight may be given back and sent again."""
        for copy in self.copies.values():
            if copy.place is Place.HELD:
                copy.not_before_ns = 0
        self.is_unsettled = True
        yield
        self.is_unsettled = False

    def lose_track(self) -> None:
        """Messages may have been sent that no client read: they have more attempts than clients saw."""
        for copy in self.copies.values():
            if copy.place is not Place.GONE:
                copy.has_exact_attempts = False

    def given_back(self) -> None:
        """All that was in flight waits again; more may have been sent than was read."""
        for copy in self.copies.values():
            if copy.place is Place.HELD:
                copy.place = Place.WAITING
            copy.holder = 0
        self.lose_track()

    def set_aside(self, serials: Iterable[int]) -> None:
        """They were quarantined and will wait again, from no attempts on."""
        for serial in serials:
            copy = self.copies[serial]
            copy.attempts, copy.holder, copy.has_exact_attempts = 0, 0, False
            copy.seen.clear()
            if copy.place is not Place.GONE:
                copy.place = Place.WAITING if copy.place in SURE else Place.UNSURE

    def drop_all(self) -> None:
        for copy in self.copies.values():
            if copy.place is not Place.GONE:
                self.gone(copy)
        self.may_be_missing = 0

    def release_deferred(self) -> None:
        for copy in self.copies.values():
            if copy.place is Place.DEFERRED:
                copy.place = Place.WAITING

    def may_come_again(self, serials: Iterable[int]) -> set[int]:
        """The channel is about to be moved: any of these may come, or be passed over. Returns those of them that the
        server can't have forgotten, since the channel still needs them."""
        needed = {one for one, copy in self.copies.items() if copy.place in SURE}
        for serial in serials:
            self.copies[serial] = Copy(Place.UNSURE, has_exact_attempts=False)
        return needed

    def sought(self, messages: dict[int, Published], first: int, needed: set[int]) -> None:
        """The channel is at message `first` now (serials rise with offsets): it and later ones come again, as far as
        the log has it. needed: what `may_come_again` returned."""
        now_ns = _now()
        for serial, copy in self.copies.items():
            # What came meanwhile may have been the last delivery before the move: it counts from nothing since.
            copy.attempts = 0
            copy.seen.clear()
            if serial < first:
                self.gone(copy)
            elif copy.place is Place.HELD:
                # It came while the server moved the channel: before that, or after.
                copy.place = Place.UNSURE
            elif serial in needed and messages[serial].due_ns > now_ns:
                copy.place, copy.not_before_ns = Place.DEFERRED, messages[serial].due_ns
            elif serial in needed:
                copy.place = Place.WAITING

    # Restarts.

    def restarted(self) -> None:
        """The process is another one: nothing is in flight, and it counts from nothing."""
        self.counters = Counters()
        for copy in self.copies.values():
            if copy.place is Place.HELD:
                copy.place = Place.WAITING
            copy.holder = 0
        self.lose_track()

    def cut_off(self) -> None:
        """A kill: what was answered may have been taken, or not."""
        for copy in self.copies.values():
            if copy.place is Place.ANSWERED:
                copy.place = Place.UNSURE

    def lost_memory(self, *, in_memory: int, in_flight: int) -> None:
        """A disk queue was killed. in_memory: so many of a queue's messages were there. in_flight: so many may have
        been taken out for consumers that did not read them."""
        for copy in self.copies.values():
            if copy.place in (Place.HELD, Place.DEFERRED):
                copy.place = Place.UNSURE
        # Given back messages have a line of their own in memory, as long as the queue's.
        self.may_be_missing += in_flight + 2 * in_memory

    def missing(self) -> list[int]:
        """Messages that should have come and did not."""
        left = [one for one, copy in self.copies.items() if copy.place not in (Place.GONE, Place.UNSURE)]
        return left if len(left) > self.may_be_missing else []

    def drained(self) -> None:
        """All that was there has come: what did not is not there."""
        for copy in self.copies.values():
            if copy.place is not Place.GONE:
                self.gone(copy)
        self.repeats.clear()
        self.may_be_missing = 0


@dataclass
class ModelTopic:
    """waiting: what waits at the topic itself, for a channel or for the flow; unsure: of these, what may be there."""

    paused: bool = False
    messages: dict[int, Published] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    unsure: set[int] = field(default_factory=set)
    channels: dict[str, ModelChannel] = field(default_factory=dict)
    may_be_missing: int = 0
    repeats: set[int] = field(default_factory=set)
    message_count: int = 0
    message_bytes: int = 0
    is_count_exact: bool = True
    has_been_killed: bool = False  # a disk queue was: its messages may be there twice

    def publish(self, messages: list[Published], *, is_sure: bool = True) -> None:
        for message in messages:
            self.messages[message.serial] = message
            self.waiting.append(message.serial)
            if is_sure:
                self.message_count += 1
                self.message_bytes += message.size
            else:
                self.unsure.add(message.serial)
                self.is_count_exact = False
        self.flow()

    def flow(self) -> None:
        if self.paused or not self.channels:
            return
        for channel in self.channels.values():
            for serial in self.waiting:
                channel.accept(self.messages[serial], is_sure=serial not in self.unsure)
            channel.may_be_missing += self.may_be_missing
            channel.repeats |= self.repeats
            if self.may_be_missing or self.repeats:
                channel.counters.inexact.add("message_count")
        self.waiting.clear()
        self.unsure.clear()
        self.may_be_missing = 0
        self.repeats.clear()

    def lost_memory(self, in_memory: int, gone_before_ns: int) -> None:
        """A disk queue was killed: deferred messages were in memory, and so many of the others; what was passed on
        since the last sync is passed on again."""
        self.unsure |= {serial for serial in self.waiting if self.messages[serial].due_ns}
        self.may_be_missing += in_memory
        self.repeats |= self.messages.keys()
        self.has_been_killed = True
        for channel in self.channels.values():
            for serial in self.messages:
                copy = channel.copies.get(serial)
                if copy is None or copy.place is not Place.GONE or copy.gone_ns >= gone_before_ns:
                    channel.repeats.add(serial)

    def forget_dues(self) -> None:
        """A disk queue was closed: what was deferred at the topic comes at once."""
        for serial in self.waiting:
            self.messages[serial].due_ns = 0

    def least_and_most(self) -> tuple[int, int | None]:
        sure = len(self.waiting) - len(self.unsure)
        return max(sure - self.may_be_missing, 0), None if self.repeats else len(self.waiting)


class Bodies:
    """Makes bodies that are each another, and knows them again."""

    def __init__(self) -> None:
        self._serial_of: dict[bytes, int] = {}
        self._next = 1
        self._filling = hashlib.shake_128(b"bodies").digest(4 << 20)

    def make(self, size: int) -> tuple[int, bytes]:
        """A body of `size` bytes; larger where all of so few bytes are taken."""
        while True:
            serial = self._next
            prefix = serial.to_bytes(8, "little")[:size]
            body = prefix
            if size > len(prefix):
                at = serial * 7_919 % len(self._filling)
                rest = self._filling[at : at + size - 8]
                body = prefix + rest + self._filling[: size - 8 - len(rest)]
            key = _digest(body)
            if key not in self._serial_of:
                self._serial_of[key] = serial
                self._next += 1
                return serial, body
            size += 1

    def serial_of(self, body: bytes) -> int:
        """Raises BrokenPromiseError for a body that was never published, or not so."""
        serial = self._serial_of.get(_digest(body))
        if serial is None:
            near = int.from_bytes(body[:8], "little")
            hint = f"; it begins as message {near}" if len(body) >= 8 and 0 < near < self._next else ""
            raise BrokenPromiseError(f"a body of {len(body)} bytes was never published{hint}: {body[:40]!r}")
        return serial


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


def _now() -> int:
    return time.monotonic_ns()
