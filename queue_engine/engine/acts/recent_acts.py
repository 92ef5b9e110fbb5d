"""The latest acts: their scope, their author and time. An act whose question showed a state that another act
has changed since is refused.

A question carries a mark: the number of the latest act at that time, and the numbers of its topic and channel.
`do` and `begin` compare it in the step in which the act begins; an act that waits for its turn is compared once more
when its turn comes. An act is numbered when it is done: until then pages show the state before it. The acts are in
memory alone: after a restart, and once RECENT_MAX acts came since, a mark says too little, and the act is refused, too.
"""

import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from itertools import chain, islice, takewhile
from typing import TypeVar

from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.vocabulary.acts.table import ACTS
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import OutcomeUnknownError, RequestError
from queue_engine.vocabulary.ticket import DONE, Ticket

RECENT_MAX = 10_000  # some 5 MB
LISTED_MAX = 200  # acts that a question about several topics or channels lists
_Result = TypeVar("_Result")
_DELETIONS = frozenset({"delete_topic", "delete_channel"})
# Acts that change a state which a question shows. Other acts come by the thousand.
_SHOWN = frozenset(name for name, act in ACTS.items() if act.changes)
# Acts on the messages that are there: without one they change nothing.
_ON_MESSAGES = frozenset({"requeue_channel", "release_deferred", "publish_again"})
_CREATIONS = frozenset({"create_channel", "create_cursor", "archive_on"})


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of an act: a topic, one of its channels, or a part that has a name of its own, such as `trash 5`."""

    topic: str
    channel: str = ""
    part: str = ""

    def meets(self, other: "Scope") -> bool:
        """Whether one is the other or below it; all are below a scope without a name."""
        if not (other.topic or other.part):
            return True
        return (
            self.topic == other.topic
            and (self.channel == other.channel or not self.channel or not other.channel)
            and (self.part == other.part or not self.part or not other.part)
        )


@dataclass(slots=True, eq=False)
class RecentAct:
    """An act that was done, or is under way while its record has no outcome and it no sentence. number: 0 while it is
    under way. sentence: its result; "" where the record has it. at_ms: Unix, of its beginning, of its end from then
    on. is_over: whether it was done, and not only perhaps."""

    scope: Scope
    record: ActRecord
    at_ms: int
    number: int = 0
    sentence: str = ""
    is_over: bool = False

    def deletes(self, scope: Scope) -> bool:
        """Whether it deletes the topic or channel of this scope: of a topic, not one of its channels."""
        is_above = self.scope.channel in ("", scope.channel)
        return self.record.action in _DELETIONS and is_above and self.scope.meets(scope)


@dataclass(frozen=True, slots=True)
class Order:
    """An act that is to be done. record: its names, who wants it, and its details. shown: the mark of its question, ""
    for no comparison. rivals: acts that change the state which the question showed. is_noted: it changes such a state
    itself. with_topic, with_channel: the mark is of that very topic or channel, not of another one of its name."""

    record: ActRecord
    part: str = ""
    shown: str = ""
    rivals: frozenset[str] = frozenset()
    is_noted: bool = False
    with_topic: bool = False
    with_channel: bool = False

    @property
    def scope(self) -> Scope:
        found = _scope_of(self.record)
        return replace(found, part=self.part) if self.part else found


class StateChangedError(RequestError):
    """The state that the question showed has changed; nothing was done.

    acts: that changed it, newest first. is_gone: the topic or channel is not there. is_other: another one has its name.
    is_restored: it came back from the trash. is_unknown: the mark is from before the start, or too old.
    """

    code = "STATE_CHANGED"

    def __init__(
        self,
        acts: tuple[RecentAct, ...] = (),
        *,
        is_gone: bool = False,
        is_other: bool = False,
        is_restored: bool = False,
        is_unknown: bool = False,
    ) -> None:
        super().__init__("the state has changed since it was shown")
        self.acts = acts
        self.is_gone = is_gone
        self.is_other = is_other
        self.is_restored = is_restored
        self.is_unknown = is_unknown


class RecentActs:
    """The acts of one engine. Belongs to its thread."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        self._start = secrets.token_hex(4)
        self._under_way: dict[RecentAct, None] = {}
        self._acts: deque[RecentAct] = deque()  # that were done, by number
        self._by_scope: dict[str, dict[str, deque[RecentAct]]] = {}  # the same, by topic and channel
        self._last = 0
        self._forgotten = 0

    def mark(self, topic: str, channel: str = "") -> str:
        """The mark of a question that is about to show the state of a topic or channel: read it before that state.
        Without a topic it is of all there are: a deletion since is an act that is found."""
        if not topic:
            return f"{self._start}-{self._last}"
        numbers = self._numbers(topic, channel)
        return f"{self._start}-{self._last}-{numbers[0]}-{numbers[1]}"

    def _numbers(self, topic: str, channel: str) -> tuple[int, int]:
        """The numbers of a topic and its channel; 0 for a missing one."""
        owner = self._catalog.topics.get(topic)
        one = owner.channels.get(channel) if owner is not None else None
        return 0 if owner is None else owner.number, 0 if one is None else one.number

    def deletion_of(self, topic: str, channel: str = "") -> RecentAct | None:
        """The latest deletion of a topic or channel that is not there; None where none is noted."""
        numbers = self._numbers(topic, channel)
        if numbers[0] and (numbers[1] or not channel):
            return None
        scope = Scope(topic, channel)
        for act in self._at(scope, 0):
            if act.is_over and act.deletes(scope):
                return act
        return None

    # Acts.

    def check(self, order: Order, own: RecentAct | None = None) -> None:
        """Raises StateChangedError. own: the note of this act itself."""
        if not order.shown:
            return
        since, *shown = self._read(order.shown)
        scope = order.scope
        pairs: list[tuple[int, int]] = []
        if shown:
            now = self._numbers(scope.topic, scope.channel)
            pairs = [(shown[0], now[0])] * order.with_topic + [(shown[1], now[1])] * order.with_channel
        found = [
            act
            for act in chain(reversed(self._under_way), self._at(scope, since))
            if act is not own and act.record.action in order.rivals and act.scope.meets(scope)
        ]
        is_gone = any(was and not is_now for was, is_now in pairs)
        is_other = not is_gone and any(was != is_now for was, is_now in pairs)
        if found or is_gone or is_other:
            is_restored = not is_gone and self._is_restored(scope, since, is_other=is_other)
            raise StateChangedError(tuple(found), is_gone=is_gone, is_other=is_other, is_restored=is_restored)
        if since < self._forgotten:
            raise StateChangedError(is_unknown=True)

    def _is_restored(self, scope: Scope, since: int, *, is_other: bool) -> bool:
        """Whether the present topic or channel of this name came back from the trash. is_other: it is another one."""
        names = (scope.topic, f"{scope.topic}/{scope.channel}")
        is_restored = False
        for act in self._at(scope, since):
            if act.deletes(scope):
                return is_restored
            outcome = act.record.outcome
            if act.record.action == "restore_trash" and outcome is not None and outcome.name in names:
                is_restored = True
        # Without a deletion: in exchange for another one, or messages alone.
        return is_restored and is_other

    def _read(self, mark: str) -> list[int]:
        """The numbers of a mark: of the latest act, and of its topic and channel where it is of one. Raises
        StateChangedError."""
        start, _, rest = mark.partition("-")
        texts = rest.split("-")
        is_whole = len(texts) in (1, 3) and all(text.isascii() and text.isdigit() for text in texts)
        if start != self._start or not is_whole:
            raise StateChangedError(is_unknown=True)
        return [int(text[:18]) for text in texts]

    def _at(self, scope: Scope, since: int) -> Iterator[RecentAct]:
        """The acts behind the number `since` on a scope and above and below it, newest first: of thousands of channels
        that one request is about, each is compared with its own."""
        if not (scope.topic or scope.part):
            return takewhile(lambda act: act.number > since, reversed(self._acts))
        channels = self._by_scope.get(scope.topic, {})
        names = dict.fromkeys(("", scope.channel)) if scope.channel else channels
        newest_first = [
            takewhile(lambda act: act.number > since, reversed(channels[name])) for name in names if name in channels
        ]
        return merge(*newest_first, key=lambda act: -act.number)

    def done_since(self, mark: str, actions: Collection[str]) -> list[RecentAct]:
        """The newest of these acts, LISTED_MAX at most, that were done to anything since a mark: for a question about
        several. Raises StateChangedError for a mark that says too little."""
        since = self._read(mark)[0]
        if since < self._forgotten:
            raise StateChangedError(is_unknown=True)
        behind = takewhile(lambda act: act.number > since, reversed(self._acts))
        return list(islice((act for act in behind if act.record.action in actions), LISTED_MAX))

    def do(self, order: Order, act: Callable[[], tuple[_Result, Ticket] | Ticket]) -> tuple[_Result | None, Ticket]:
        """Do an act of the engine; returns its result. Raises StateChangedError, also as the ticket's error, and
        the act's errors."""
        note = self.begin(order)
        try:
            with self._catalog.acts_in_turn.guarding(partial(self.check, order, note)):
                done = act()
        except BaseException:
            if note is not None:
                self._under_way.pop(note, None)
            raise
        result, ticket = done if isinstance(done, tuple) else (None, done)
        ticket.when_done(partial(self._settled, note, result if isinstance(result, Outcome) else None))
        return result, ticket

    def begin(self, order: Order) -> RecentAct | None:
        """Compare and note an act that is not the engine's own; `end` follows. None where it is not noted. Raises
        StateChangedError."""
        self.check(order)
        if not order.is_noted:
            return None
        note = RecentAct(order.scope, order.record, self._now_ms())
        self._under_way[note] = None
        return note

    def end(self, note: RecentAct | None, sentence: str) -> None:
        """sentence: its result; "" where it did nothing."""
        if note is None:
            return
        self._under_way.pop(note, None)
        if sentence:
            note.sentence, note.is_over = sentence, True
            self._add(note)

    def record(self, record: ActRecord) -> None:
        """Note an act that came over HTTP, that a client caused, or that the server did by itself."""
        outcome = record.outcome
        if record.error or outcome is None or _changed_nothing(record.action, outcome):
            return
        if record.action in _SHOWN:
            act = RecentAct(_scope_of(record), replace(record, outcome=_without_results(outcome)), 0)
            act.is_over = True
            self._add(act)

    def _add(self, act: RecentAct) -> None:
        self._last += 1
        act.number, act.at_ms = self._last, self._now_ms()
        self._acts.append(act)
        channels = self._by_scope.setdefault(act.scope.topic, {})
        channels.setdefault(act.scope.channel, deque()).append(act)
        if len(self._acts) > RECENT_MAX:
            self._forget(self._acts.popleft())

    def _forget(self, oldest: RecentAct) -> None:
        self._forgotten = oldest.number
        topic, channel = oldest.scope.topic, oldest.scope.channel
        channels = self._by_scope[topic]
        channels[channel].popleft()
        if not channels[channel]:
            del channels[channel]
        if not channels:
            del self._by_scope[topic]

    def _settled(self, note: RecentAct | None, outcome: Outcome | None, done: Ticket = DONE) -> None:
        if note is None:
            return
        self._under_way.pop(note, None)
        is_refused = done.error is not None and not isinstance(done.error, OutcomeUnknownError)
        if is_refused or (done.error is None and outcome and _changed_nothing(note.record.action, outcome)):
            return
        note.record = replace(note.record, outcome=_without_results(outcome or Outcome()))
        note.is_over = done.error is None
        self._add(note)

    def _now_ms(self) -> int:
        return self._clock.time_ns() // NS_PER_MS


def _changed_nothing(action: str, outcome: Outcome) -> bool:
    is_idle = not (outcome.depth or outcome.in_flight or outcome.deferred)
    is_same = (action in _ON_MESSAGES and is_idle) or (action in _CREATIONS and not outcome.created)
    return outcome.already or is_same


def _without_results(outcome: Outcome) -> Outcome:
    """The outcome without results: those of a thousand messages take half a megabyte, and no sentence needs them."""
    return replace(outcome, results=())


def _scope_of(record: ActRecord) -> Scope:
    if "trash" in record.details:
        return Scope(record.topic, "", f"trash {record.details['trash']}")
    if record.action.endswith("_cursor") or record.action.startswith("archive_"):
        # Over HTTP the cursor's name stands in the field of the channel.
        return Scope(record.topic, "", f"cursor {record.details.get('cursor', record.channel)}")
    return Scope(record.topic, record.channel)
