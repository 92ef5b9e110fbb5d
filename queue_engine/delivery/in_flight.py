"""Messages in flight: which consumer holds each, and until when. One class owns both the map and the heap.

A `Delivery` is a run that was sent to one consumer: it has one deadline for all its messages, so that a message
costs one entry of a dict. TOUCH splits one message out into a delivery of its own.

Invariant: the deliveries' `outstanding` add up to the size of the map.
"""

from collections import Counter, deque
from collections.abc import Container, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import repeat
from typing import Any

from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.latency import LatencyHistogram
from queue_engine.vocabulary.byte_budget import ByteBudget
from queue_engine.vocabulary.errors import NotInFlightError, NotOwnerError, RequestError
from queue_engine.vocabulary.heap_order import in_order
from queue_engine.vocabulary.run import Run

# The heap is rebuilt when at least this many of its entries are finished deliveries, and more than half of them.
_STALE_MIN = 64
_STALE_AGES_MIN = 16
# A run this small is not cut down to the messages that are still in flight.
_SHED_BYTES_MIN = 4 << 10
_SHED_MESSAGES_MIN = 64

_NO_RUN = Run(b"", [])


class Delivery:
    """Messages of one run in flight to one consumer under one deadline (monotonic ns)."""

    __slots__ = (
        "bytes",
        "consumer",
        "deadline_ns",
        "handed_ns",
        "ids",
        "in_order",
        "latest_ns",
        "outstanding",
        "run",
        "sent_ns",
        "touches",
    )

    def __init__(self, consumer: Consumer, run: Run, ids: list[bytes], sent_ns: int) -> None:
        self.consumer = consumer
        self.run = run
        self.ids = ids
        self.bytes = 0  # of the table's budget
        self.sent_ns = sent_ns
        self.handed_ns = 0  # the same by the wall clock, for the latency
        self.deadline_ns = sent_ns + consumer.msg_timeout_ns
        self.latest_ns = sent_ns + consumer.max_msg_timeout_ns  # TOUCH goes no further
        self.outstanding = len(ids)
        self.touches = 0  # TOUCHes by its consumer; TOUCH makes a delivery of one message
        self.in_order = 0  # so many from the start of the run were finished in the order they were sent


Entry = tuple[int, int, Delivery]
"""(deadline, order of sending, delivery)."""


class InFlightTable:
    """All messages of one channel that are in flight. latency: counts each that is finished. budget: counts the bytes
    of their frames, of all channels. keeps_ages: whether `oldest_ns` will be called."""

    __slots__ = (
        "_ages",
        "_budget",
        "_delivery_of",
        "_heap",
        "_held",
        "_keeps_ages",
        "_order",
        "_stale",
        "latency",
    )

    def __init__(self, latency: LatencyHistogram, budget: ByteBudget, *, keeps_ages: bool = True) -> None:
        self.latency = latency
        self._keeps_ages = keeps_ages
        self._budget = budget
        self._delivery_of: dict[bytes, Delivery] = {}
        self._heap: list[Entry] = []
        # The entries of deliveries with messages in flight, by who holds them: thousands of consumers may leave at
        # once, and each looks at its own alone.
        self._held: dict[Consumer, dict[Delivery, Entry]] = {}
        self._order = 0
        self._stale = 0  # entries of the heap whose delivery has nothing outstanding
        # By each delivery's oldest publish time when it was pushed; as messages are finished, the real one gets later.
        self._ages: list[tuple[int, int, Delivery]] = []

    def __len__(self) -> int:
        return len(self._delivery_of)

    def runs(self) -> list[Run]:
        """All messages, as they would be delivered again; they stay in flight."""
        ids_of: dict[Delivery, list[bytes]] = {}
        for message_id, delivery in self._delivery_of.items():
            ids_of.setdefault(delivery, []).append(message_id)
        return [delivery.run.for_next_attempt(ids) for delivery, ids in ids_of.items()]

    @property
    def entry_count(self) -> int:
        """Entries of the heap, those of finished deliveries included."""
        return len(self._heap)

    def may_add(self, ids: Sequence[bytes]) -> bool:
        """Whether none of `ids` is in flight, and none stands in `ids` twice."""
        unique = set(ids)
        return len(unique) == len(ids) and self._delivery_of.keys().isdisjoint(unique)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._delivery_of

    def add(self, consumer: Consumer, run: Run, sent_ns: int) -> Delivery:
        """Add a run that is sent to `consumer`. None of its ids may be in flight, and none may stand in it twice."""
        delivery = Delivery(consumer, run, run.ids, sent_ns)
        delivery.handed_ns = self.latency.now_ns()
        self._delivery_of.update(zip(run.ids, repeat(delivery)))
        size = delivery.bytes = len(run.frames)
        if size:
            self._budget.add(size)
        self._push(delivery)
        return delivery

    def _hold(self, delivery: Delivery, run: Run) -> None:
        """Let the delivery keep the frames of `run` from now on."""
        delivery.run = run
        size = len(run.frames)
        if size > delivery.bytes:
            self._budget.add(size - delivery.bytes)
        elif size < delivery.bytes:
            self._budget.free(delivery.bytes - size)
        delivery.bytes = size

    def _push(self, delivery: Delivery) -> None:
        self._order += 1
        entry = delivery.deadline_ns, self._order, delivery
        heappush(self._heap, entry)
        self._held.setdefault(delivery.consumer, {})[delivery] = entry
        if self._keeps_ages:
            self._push_age(delivery)

    def _push_age(self, delivery: Delivery) -> None:
        ages = self._ages
        # Nearly always the oldest are finished first.
        while ages and ages[0][2].outstanding == 0:
            heappop(ages)
        if len(ages) > 2 * len(self._heap) + _STALE_AGES_MIN:
            ages = self._ages = [entry for entry in ages if entry[2].outstanding]
            heapify(ages)
        run = delivery.run
        oldest_ns = run.oldest_ns() if run.published_ns is None else run.published_ns
        heappush(ages, (oldest_ns, self._order, delivery))

    def next_deadline_ns(self) -> int | None:
        """The earliest deadline; None when nothing is in flight."""
        heap = self._heap
        while heap and heap[0][2].outstanding == 0:
            heappop(heap)
            self._stale -= 1
        return heap[0][0] if heap else None

    def oldest_ns(self, left_out: Container[bytes]) -> int | None:
        """The earliest publish time of a message in flight that is not in `left_out`; None when there is none.

        A message that was left out once is left out as long as it is in flight.
        """
        ages = self._ages
        while ages:
            oldest_ns, order, delivery = ages[0]
            run = delivery.run
            ids = self.remaining_ids(delivery) if delivery.outstanding else []
            index_of = run.index()
            now_ns = min((run.time_at(index_of[one]) for one in ids if one not in left_out), default=None)
            if now_ns is None:
                heappop(ages)
            elif now_ns > oldest_ns:
                heapreplace(ages, (now_ns, order, delivery))
            else:
                return oldest_ns
        return None

    def finish(self, consumer: Consumer, ids: list[bytes]) -> tuple[list[bytes], list[tuple[bytes, RequestError]]]:
        """Remove messages that `consumer` holds; returns the ids removed, and the others each with its error.

        The owner of all is checked before anything is removed; an id that stands twice is finished once.
        """
        delivery_of = self._delivery_of
        if len(ids) == 1:
            single = delivery_of.get(ids[0])
            if single is None or single.consumer is not consumer:
                return self._finish_singly(consumer, ids)
            self._note_finished(single, ids, 0, 1, self.latency.now_ns())
            del delivery_of[ids[0]]
            self._settle(single, 1)
            return ids, []
        held = list(map(delivery_of.get, ids))
        # Nearly always all are of one delivery.
        is_one = bool(held) and held.count(held[0]) == len(held)
        found = {held[0]: len(held)} if is_one else Counter(held)
        for delivery in found:
            if delivery is None or delivery.consumer is not consumer:
                return self._finish_singly(consumer, ids)
        if len(set(ids)) != len(ids):
            return self._finish_singly(consumer, ids)
        now_ns = self.latency.now_ns()
        at = 0
        for delivery, count in found.items():
            assert delivery is not None
            self._note_finished(delivery, ids, at, count, now_ns)
            at += count
        deque(map(delivery_of.__delitem__, ids), maxlen=0)
        for delivery, count in found.items():
            assert delivery is not None
            self._settle(delivery, count)
        return ids, []

    def _note_finished(self, delivery: Delivery, ids: list[bytes], at: int, count: int, now_ns: int) -> None:
        """`count` messages of a delivery are about to be removed: those among `ids`, nearly always from `at` on."""
        run, latency = delivery.run, self.latency
        latency.held.note(now_ns - delivery.handed_ns, count)
        if run.published_ns is not None:
            latency.note(now_ns - run.published_ns, count)
            return
        first = delivery.in_order
        stop = first + count
        if latency.note_alike(run, count, now_ns):
            return
        if ids[at : at + count] == run.ids[first:stop]:
            delivery.in_order = stop
            latency.note_part(run, first, stop, now_ns)
        else:
            delivery_of = self._delivery_of
            latency.note_each(run, [one for one in ids if delivery_of[one] is delivery], now_ns)

    def _finish_singly(
        self, consumer: Consumer, ids: list[bytes]
    ) -> tuple[list[bytes], list[tuple[bytes, RequestError]]]:
        done: list[bytes] = []
        errors: list[tuple[bytes, RequestError]] = []
        now_ns = self.latency.now_ns()
        for message_id in ids:
            try:
                delivery = self.owned(consumer, message_id)
            except RequestError as exc:
                errors.append((message_id, exc))
            else:
                self._note_finished(delivery, [message_id], 0, 1, now_ns)
                self.remove(consumer, message_id)
                done.append(message_id)
        return done, errors

    def owned(self, consumer: Consumer | None, message_id: bytes) -> Delivery:
        """The delivery of a message in flight, held by `consumer`; None: by any.

        Raises NotInFlightError or NotOwnerError with nsqd's words.
        """
        delivery = self._delivery_of.get(message_id)
        if delivery is None:
            raise NotInFlightError("ID not in flight")
        if consumer is not None and delivery.consumer is not consumer:
            raise NotOwnerError("client does not own message")
        return delivery

    def remove(self, consumer: Consumer | None, message_id: bytes) -> Delivery:
        """Take one message out; returns the delivery it was part of. Raises as `owned` does."""
        delivery = self.owned(consumer, message_id)
        run = delivery.run
        del self._delivery_of[message_id]
        self._settle(delivery, 1)
        # `_settle` may have dropped the run; the caller needs it to give the message back.
        taken = Delivery(delivery.consumer, run, [message_id], delivery.sent_ns)
        taken.handed_ns = delivery.handed_ns
        taken.latest_ns = delivery.latest_ns
        return taken

    def touch(self, consumer: Consumer, message_id: bytes, now_ns: int) -> int:
        """Give a message the consumer's timeout from now on, up to its latest; returns the new deadline.

        Raises as `owned` does.
        """
        before = self.owned(consumer, message_id).touches
        touched = self.remove(consumer, message_id)
        touched.touches = before + 1
        run = touched.run
        # One message must not keep the frames of its whole run in memory.
        self._hold(touched, run if len(run) == 1 else run.select([run.index()[message_id]]))
        touched.deadline_ns = min(now_ns + consumer.msg_timeout_ns, touched.latest_ns)
        self._delivery_of[message_id] = touched
        self._push(touched)
        return touched.deadline_ns

    def _settle(self, delivery: Delivery, count: int) -> None:
        delivery.outstanding -= count
        assert delivery.outstanding >= 0
        if delivery.outstanding == 0:
            # Its entry stays in the heap for a while, without the frames.
            delivery.run = _NO_RUN
            delivery.ids = []
            if delivery.bytes:
                self._budget.free(delivery.bytes)
                delivery.bytes = 0
            self._stale += 1
            self._let_go(delivery)
            self._compact()

    def _let_go(self, delivery: Delivery) -> None:
        """Nothing of it is in flight."""
        held = self._held.get(delivery.consumer, {})
        held.pop(delivery, None)
        if not held:
            self._held.pop(delivery.consumer, None)

    def _compact(self) -> None:
        """Rebuild the heap when most of it is finished deliveries."""
        if not self._delivery_of:
            self._heap.clear()
            self._ages.clear()
            self._stale = 0
        elif self._stale >= _STALE_MIN and self._stale * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].outstanding]
            heapify(self._heap)
            self._stale = 0

    def remaining_ids(self, delivery: Delivery) -> list[bytes]:
        """Which messages of a delivery are still in flight under it, in the order they were sent."""
        if delivery.outstanding == len(delivery.ids):
            return delivery.ids
        delivery_of = self._delivery_of
        return [message_id for message_id in delivery.ids if delivery_of.get(message_id) is delivery]

    def pop_expired(self, now_ns: int, deliveries_max: int) -> list[tuple[Delivery, list[bytes]]]:
        """Remove deliveries past their deadline, earliest first, each with its ids still in flight.

        At most `deliveries_max`, so that one pass stays short. O(k log n).
        """
        expired: list[tuple[Delivery, list[bytes]]] = []
        while self._heap and len(expired) < deliveries_max and self._heap[0][0] <= now_ns:
            delivery = heappop(self._heap)[2]
            if delivery.outstanding == 0:
                self._stale -= 1
                continue
            expired.append((delivery, self._remove_all_of(delivery)))
        return expired

    def _remove_all_of(self, delivery: Delivery) -> list[bytes]:
        ids = self.remaining_ids(delivery)
        assert len(ids) == delivery.outstanding, "deliveries and map must agree"
        for message_id in ids:
            del self._delivery_of[message_id]
        delivery.outstanding = 0
        self._let_go(delivery)
        if delivery.bytes:
            # The caller gives the run back to the channel's backlog, which counts its bytes.
            self._budget.free(delivery.bytes)
            delivery.bytes = 0
        return ids

    def shed(self) -> None:
        """Free the bytes of finished messages in runs of which a few are still in flight. Called at intervals: FIN does
        not check this, since most runs are soon finished as a whole."""
        for _, _, delivery in self._heap:
            run = delivery.run
            is_large = len(run.frames) > _SHED_BYTES_MIN or len(run) > _SHED_MESSAGES_MIN
            if is_large and delivery.outstanding * 2 <= len(run):
                ids = self.remaining_ids(delivery)
                held = set(ids)
                self._hold(delivery, run.select([index for index, one in enumerate(run.ids) if one in held]))
                delivery.ids = ids
                delivery.in_order = 0

    def deliveries(self) -> Iterator[Delivery]:
        """Deliveries with messages in flight, earliest deadline first; nothing may move meanwhile."""
        return (delivery for _, _, delivery in in_order(self._heap) if delivery.outstanding)

    def take_apart(self) -> list[tuple[Run, list[bytes]]]:
        """Remove everything when deliveries and map may disagree after an error: the map decides which messages are in
        flight. A message whose bytes are gone is left out."""
        held: dict[Delivery, list[bytes]] = {}
        for message_id, delivery in self._delivery_of.items():
            held.setdefault(delivery, []).append(message_id)
        for delivery in {*held, *(entry[2] for entry in self._heap)}:
            self._budget.free(delivery.bytes)
            delivery.bytes = 0
            delivery.outstanding = 0  # an act in steps passes over it
        self._delivery_of = {}
        self._heap = []
        self._held = {}
        self._ages = []
        self._stale = 0
        parts = [(one.run, [id_ for id_ in ids if id_ in one.run.index()]) for one, ids in held.items()]
        return [(run, ids) for run, ids in parts if ids]

    def popping(self, consumer: Consumer | None = None) -> Iterator[tuple[Delivery, list[bytes]]]:
        """Remove all that is in flight now, or all that one consumer holds, in the order it was sent: a delivery with
        each step. Other calls may come between the steps; messages sent meanwhile stay."""
        newest_ns, order = 0, 0
        # A message that its consumer touches meanwhile gets a delivery of its own, with the time when it was sent.
        while chosen := [
            entry
            for entry in (self._heap if consumer is None else self._held.get(consumer, {}).values())
            if entry[2].outstanding
            and (not order or (entry[1] > order and entry[2].touches and entry[2].sent_ns <= newest_ns))
        ]:
            newest_ns = newest_ns or max(entry[2].sent_ns for entry in chosen)
            order = self._order
            heapify(chosen)
            while chosen:
                delivery = heappop(chosen)[2]
                if delivery.outstanding:
                    ids = self._remove_all_of(delivery)
                    self._stale += 1
                    self._compact()
                    yield delivery, ids

    def pop_all(self, consumer: Consumer | None = None) -> list[tuple[Delivery, list[bytes]]]:
        """`popping` in one go."""
        return list(self.popping(consumer))

    def drop_all(self) -> tuple[list[Any], dict[Any, Any]]:
        """Remove everything, whatever becomes of it, at the cost of a look at each delivery; consumers hold nothing
        any more. Returns the containers that the caller frees."""
        for _, _, delivery in self._heap:
            if delivery.outstanding:
                delivery.consumer.in_flight_count -= delivery.outstanding
                delivery.outstanding = 0
                if delivery.bytes:
                    self._budget.free(delivery.bytes)
                    delivery.bytes = 0
        dropped = self._heap, self._delivery_of
        self._heap, self._delivery_of, self._held, self._ages, self._stale = [], {}, {}, [], 0
        return dropped
