"""A channel's vitals: its counts, their trend, and how its deliveries of the last minute ended."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from admin_console.rings import figures
from admin_console.rings.rings import Rings

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, EngineSnapshot, TopicStats

T = TypeVar("T")


class _ReadOnce(Generic[T]):
    """A property that is computed at its first read. functools.cached_property has a lock until Python 3.12, which
    costs more than the computation; two threads at once compute the same."""

    def __init__(self, read: "Callable[[Vitals], T]") -> None:
        self._read = read
        self._name = read.__name__

    def __get__(self, vitals: "Vitals", _: object = None) -> T:
        # Found in the instance from now on, before this. To name its __dict__ here would make one for each instance.
        value = self._read(vitals)
        setattr(vitals, self._name, value)
        return value


class Moment(NamedTuple):
    """The figures of a snapshot that all channels share. It refers to no channel, so vitals may hold it for long.

    taken_at_ns: Unix; monotonic_ns: the same moment by the clock of due times. pause_limit_ms: a pause without an end
    has outlived its time after so long.
    """

    taken_at_ns: int
    monotonic_ns: int
    pause_limit_ms: int


class ConsumersApart(NamedTuple):
    """Of a channel whose consumers are connected to some of its nodes, where messages wait at the others. part: "2 of
    3"; text: those nodes and messages, in sentences; node: the one with most of them."""

    part: str
    text: str
    node: str


def moment_of(snapshot: "EngineSnapshot") -> Moment:
    return Moment(snapshot.taken_at_ns, snapshot.monotonic_ns, snapshot.pause_limit_ms)


class Vitals:
    """One channel at one second. Rates are per second, `*_min` counts are over the last minute (`rings/figures.py` has
    the windows), None is unknown.

    Figures of the rings are computed at their first read: for a healthy channel hardly any is. They are of the rings'
    second at which the vitals were taken, also after the rings have moved on.

    apart: None for one server, and where each node with messages has a consumer.
    """

    def __init__(
        self,
        topic: "TopicStats",
        stats: "ChannelStats",
        rings: Rings | None,
        moment: Moment,
        apart: ConsumersApart | None = None,
    ) -> None:
        self.apart = apart
        self.topic = topic
        self.stats = stats
        self.moment = moment
        self._rings = rings
        self._second = rings.clock.newest if rings else None

    @_ReadOnce
    def oldest_s(self) -> float | None:
        """The age of the oldest unfinished message."""
        oldest_ns = self.stats.oldest_ns
        return None if oldest_ns is None else max(0.0, (self.moment.taken_at_ns - oldest_ns) / 1e9)

    @_ReadOnce
    def growth_s(self) -> float | None:
        """Growth of the depth, messages a second; messages that acts moved at once do not count."""
        return figures.GROWTH.rate(self._rings, self._second)

    @_ReadOnce
    def inflow_s(self) -> float | None:
        return figures.ARRIVED.rate(self._rings, self._second)

    @_ReadOnce
    def outflow_s(self) -> float | None:
        return figures.FINISHED.rate(self._rings, self._second)

    @_ReadOnce
    def timeouts_min(self) -> float | None:
        return figures.TIMEOUTS_MIN.count(self._rings, self._second)

    @_ReadOnce
    def requeued_min(self) -> float | None:
        """An operator's requeues included."""
        return figures.REQUEUED_MIN.count(self._rings, self._second)

    @_ReadOnce
    def ended_recently(self) -> float | None:
        """Deliveries that ended in the last RECENT_S seconds; None while the rings have fewer seconds."""
        changes = [figure.change(self._rings, self._second) for figure in figures.ENDED_RECENTLY]
        totals = [change[0] for change in changes if change is not None and change[1] >= figures.RECENT_S - 1]
        return sum(totals) if len(totals) == len(changes) else None

    @_ReadOnce
    def _finished(self) -> tuple[float, float] | None:
        return figures.FINISHED_MIN.change(self._rings, self._second)

    @property
    def finished_min(self) -> float | None:
        return self._finished[0] if self._finished else None

    @property
    def minute_s(self) -> float:
        """The time that the counts over the last minute cover, at most 60."""
        return self._finished[1] if self._finished else 0.0

    @_ReadOnce
    def flow_s(self) -> float:
        """The time that rates and growth cover."""
        change = figures.ARRIVED.change(self._rings, self._second)
        return change[1] if change else 0.0

    @property
    def taken_at_ms(self) -> int:
        """When the figures were taken, Unix milliseconds."""
        return self.moment.taken_at_ns // 1_000_000

    @property
    def next_due_s(self) -> float | None:
        """In how many seconds the earliest deferred message is due; negative when it is overdue."""
        due_ns = self.stats.next_due_ns
        return None if due_ns is None else (due_ns - self.moment.monotonic_ns) / 1e9

    @property
    def latest_due_s(self) -> float | None:
        """The same of the latest deferred message."""
        due_ns = self.stats.latest_due_ns
        return None if due_ns is None else (due_ns - self.moment.monotonic_ns) / 1e9

    @property
    def handled_min(self) -> float:
        """Deliveries that ended in the last minute."""
        return (self.finished_min or 0) + (self.requeued_min or 0) + (self.timeouts_min or 0)

    @property
    def is_growing(self) -> bool:
        return self.stats.depth > 0 and (self.growth_s or 0) > 0.5

    @property
    def is_full(self) -> bool:
        """Whether the consumers hold as many messages as their RDY allows, or nearly so."""
        ready = self.stats.ready_count
        return ready is not None and ready > 0 and self.stats.in_flight_count >= FULL_SHARE * ready

    @property
    def drained_in_s(self) -> float | None:
        """In how many seconds the depth is 0 if it goes on changing as it does; None when it does not shrink, that is
        unknown, or nothing was finished in the last minute: then messages only wait elsewhere."""
        growth_s = self.growth_s
        if growth_s is None or growth_s >= -SHRINKING_S_MIN or not self.stats.depth or self.finished_min == 0:
            return None
        return self.stats.depth / -growth_s

    @property
    def has_unfinished(self) -> bool:
        """Whether any message of the channel is not finished."""
        stats = self.stats
        return bool(stats.depth or stats.in_flight_count or stats.deferred_count or stats.quarantined_count)

    @property
    def is_partial(self) -> bool:
        """Whether a node that has the channel does not answer: its consumers are unknown."""
        return self._rings is not None and self._rings.is_partial

    @property
    def has_consumers_ready(self) -> bool:
        return self.stats.client_count > 0 and self.stats.ready_count != 0


FULL_SHARE = 0.95
# A depth that shrinks by less each second is as good as steady: a time to drain would be a guess.
SHRINKING_S_MIN = 0.05


def take_vitals(
    topic: "TopicStats", channel: "ChannelStats", rings: Rings | None, snapshot: "EngineSnapshot"
) -> Vitals:
    """The vitals of one channel at one snapshot. Of many channels: moment_of once, and Vitals for each."""
    return Vitals(topic, channel, rings, moment_of(snapshot))
