"""Stats of the engine: frozen ones for the console, /metrics and statsd; plain figures of each moment for `/stats`.

Counters count since the process started, as nsqd's do. `depth` counts waiting messages: it excludes those in flight
or deferred. `None` means unknown or not requested, never zero.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeVar

from queue_engine.delivery.latency_window import NO_CHANNELS, NO_LATENCIES, LatencyWindow
from queue_engine.storage.aside_stats import AsideStats
from queue_engine.storage.log_stats import LogStats
from queue_engine.storage.quarantine_stats import NO_QUARANTINE, QuarantineStats
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.figures import CHANNEL, CLIENT, COUNTED, TOPIC, Figure
from queue_engine.vocabulary.flow.pause import Pause, Ramp
from queue_engine.vocabulary.flow.redrive import RedriveState
from queue_engine.vocabulary.latency.histogram import NO_MESSAGES, HistogramCounts
from queue_engine.vocabulary.quickly_made import quickly_made
from queue_engine.vocabulary.steady_time import ClockJump
from queue_engine.wire.cursor import CursorStats

HEALTHY = "OK"

# nsqd's numbers. Its 1 and 2, disconnected and connected, are states that a client here never has.
CLIENT_STATE_INIT = 0
CLIENT_STATE_SUBSCRIBED = 3
CLIENT_STATE_CLOSING = 4

Figures = dict[str, Any]
"""One topic or channel in `/stats`: its keys, in nsqd's order, and their values; windows of latencies,
pauses, ramps, redrives and clients as objects of their own."""


def age_ms(since_ns: int | None, now_ns: int) -> int | None:
    """The time since `since_ns` by the wall clock, which may have been set back; None for unknown."""
    return None if since_ns is None else max(now_ns - since_ns, 0) // NS_PER_MS


Stats = TypeVar("Stats", bound=type)
_UNSET: Mapping[object, object] = {int: 0, str: "", bool: False}


def carries(rows: Iterable[Figure]) -> Callable[[Stats], Stats]:
    """Give the stats a field for each figure that they do not declare. They declare those that code reads by name, for
    the type checker."""

    def add_fields(stats: Stats) -> Stats:
        for row in rows:
            name = row.attribute.partition(".")[0]
            if name and name not in stats.__annotations__:
                stats.__annotations__[name] = row.type
                setattr(stats, name, _UNSET.get(row.type))
        return stats

    return add_fields


@quickly_made
@dataclass(frozen=True, slots=True)
@carries(CLIENT)
class ClientStats:
    """One TCP connection, as its own IDENTIFY and the engine describe it."""

    client_key: int  # ours: never reused while the process runs; names the connection in actions
    client_id: str
    hostname: str
    user_agent: str
    remote_address: str
    version: str  # "V2"
    state: int
    ready_count: int
    in_flight_count: int
    message_count: int  # deliveries, redeliveries included
    finish_count: int
    requeue_count: int
    timeout_count: int
    connect_ts: int  # Unix seconds
    msg_timeout_ms: int
    pub_counts: tuple[tuple[str, int], ...] = ()
    authed: bool = False  # it has sent AUTH, which was accepted
    auth_identity: str = ""  # as the auth server or its token names it
    auth_identity_url: str = ""
    sample_rate: int = 0  # percent of the messages that it gets, 0 for all
    snappy: bool = False
    deflate: bool = False
    tls: bool = False
    tls_cipher_suite: str = ""
    tls_version: str = ""


@dataclass(frozen=True, slots=True)
class ConsumerFailures:
    """The consumer that did most of something in a channel. name: as it called itself in IDENTIFY, "" for nameless."""

    client_key: int
    name: str
    remote_address: str
    count: int  # of this one
    consumers: int  # how many did any of it


@dataclass(frozen=True, slots=True)
class RecentFailures:
    """Deliveries of the last minute that consumers of a channel did not finish; requeues by operators do not count."""

    requeued: int
    timed_out: int
    requeued_recently: int  # in the last ten to fifteen seconds
    most_requeued: ConsumerFailures | None
    most_timed_out: ConsumerFailures | None
    repeated: int = 0  # how often the message `attempts_max_id` was delivered in that time, as far as was seen


@quickly_made
@dataclass(frozen=True, slots=True)
@carries(CHANNEL)
class ChannelStats:
    """One channel of one topic. The counts are in memory; where even counting fails they are the last ones, and
    `fenced` has the reason. A value that must be read and can't be is None."""

    topic_name: str
    channel_name: str
    depth: int
    backend_depth: int  # the part of depth that is on disk
    in_flight_count: int
    deferred_count: int
    message_count: int  # messages that came to the channel, redeliveries excluded
    finish_count: int
    requeue_count: int  # REQ only
    timeout_count: int
    disconnect_count: int  # given back because their consumer went away
    client_count: int
    ready_count: int | None  # sum of the consumers' RDY; None for unknown, of an nsqd whose clients were not read
    paused: bool
    oldest_ns: int | None  # from when the age of the oldest unfinished message runs, Unix (store.py); None for unknown
    next_due_ns: int | None  # monotonic deadline of the earliest deferred message
    disk_bytes: int | None  # its files, or the part of the log that it needs
    dropped_count: int = 0  # an ephemeral channel's, for which there was no room
    clients: tuple[ClientStats, ...] | None = None
    number: int = 0  # of the channel itself: another one of the same name has another
    held_back: str = ""  # why nothing is delivered though something waits: a sentence
    latency: Mapping[int, int] = field(default_factory=dict)  # bucket (latency_buckets.py) → messages finished; fixed
    window: LatencyWindow = NO_LATENCIES  # of the messages that it finished lately
    fenced: str = ""  # why it stopped until an operator lets it try again
    unreadable: str = ""  # the error of the disk for it; the engine tries again
    attempts_max: int = 0  # deliveries of the unfinished message that was delivered most often; 0 for once at most
    attempts_max_id: str = ""  # which message that is
    quarantined_count: int = 0  # set aside: in no other count
    quarantine: QuarantineStats = NO_QUARANTINE
    redrive: RedriveState | None = None  # the last one, under way or ended
    held: HistogramCounts = NO_MESSAGES  # messages finished, by time since their last delivery
    latest_due_ns: int | None = None  # as next_due_ns, of the latest that was deferred since none was
    failures: RecentFailures | None = None  # None when no consumer requeued anything or let anything time out
    pause: Pause | None = None  # of the present pause; None without one, and for a pause without a record
    resume_refused: str = ""  # why a pause whose end has come goes on; it is tried again by itself
    ramp: Ramp | None = None  # it was resumed and delivers slowly until the ramp's end


@quickly_made
@dataclass(frozen=True, slots=True)
@carries(TOPIC)
class TopicStats:
    """One topic, its channels and its pipeline cursors, sorted by name. Its depth counts the messages that wait at the
    topic itself."""

    topic_name: str
    storage: str
    depth: int
    backend_depth: int
    message_count: int
    message_bytes: int
    paused: bool
    oldest_ns: int | None
    disk_bytes: int | None  # the files of its waiting messages, or the part of the log that it needs
    channels: tuple[ChannelStats, ...]
    dropped_count: int = 0  # an ephemeral topic's, for which there was no room
    cursors: tuple[CursorStats, ...] = ()
    window: LatencyWindow = NO_CHANNELS  # of all its channels, those that are not among `channels` included
    number: int = 0  # of the topic itself: another one of the same name has another
    fenced: str = ""  # as a channel's
    unreadable: str = ""
    pause: Pause | None = None  # as a channel's
    resume_refused: str = ""


def _totals(rows: Iterable[Figure]) -> list[tuple[str, str]]:
    return [(row.total.metric, row.attribute) for row in rows if row.total is not None and row.kind is COUNTED]


_TOPIC_TOTALS, _CHANNEL_TOTALS = _totals(TOPIC), _totals(CHANNEL)


@dataclass(slots=True)
class Totals:
    """Counts since the start, summed over topics and channels. by_metric: those that a `Total` names. deletion_count:
    how many topics and channels were added because they were deleted."""

    by_metric: Counter[str] = field(default_factory=Counter)
    deletion_count: int = 0
    latency: Counter[int] = field(default_factory=Counter)
    held: HistogramCounts = NO_MESSAGES

    def add_topic(self, topic: object) -> None:
        """Add the own counts of a topic or of its stats, without its channels'."""
        for metric, attribute in _TOPIC_TOTALS:
            self.by_metric[metric] += getattr(topic, attribute)

    def add_channels(self, channels: Iterable[ChannelStats]) -> None:
        listed = list(channels)
        for metric, attribute in _CHANNEL_TOTALS:
            self.by_metric[metric] += sum(map(attrgetter(attribute), listed))
        for channel in listed:
            for bucket, count in channel.latency.items():
                self.latency[bucket] += count
        self.held = self.held.plus(channel.held for channel in listed)

    def with_all_of(self, topics: Iterable[TopicStats]) -> "Totals":
        """These, and the counts of topics with their channels."""
        sums = self.copy()
        for topic in topics:
            sums.add_topic(topic)
            sums.add_channels(topic.channels)
        return sums

    def copy(self) -> "Totals":
        return replace(self, by_metric=self.by_metric.copy(), latency=self.latency.copy())


@dataclass(frozen=True, slots=True)
class TrashTotals:
    """count: entries of the trash. bytes: of the log that it alone keeps. given_up_count: entries deleted before their
    time, since the start."""

    count: int = 0
    bytes: int = 0
    given_up_count: int = 0


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The data directory's disk. free_bytes: bytes that this user may still write. fill_bytes_per_s: their loss by a
    steady trend, by any writer; 0 without one, None in the first minutes. own_bytes_per_s: growth by topics, None for
    unknown. low_bytes: with less free the disk has little room. own_minute_bytes: growth by topics in the
    last minute."""

    free_bytes: int
    total_bytes: int
    fill_bytes_per_s: float | None
    own_bytes_per_s: float | None = None
    low_bytes: int = 0
    own_minute_bytes: int = 0

    @property
    def is_low(self) -> bool:
        return self.free_bytes < self.low_bytes

    @property
    def full_in_s(self) -> float | None:
        """When nothing is free if it goes on so; None while the disk does not fill, or that is unknown."""
        return self.free_bytes / self.fill_bytes_per_s if self.fill_bytes_per_s else None


@dataclass(frozen=True, slots=True)
class LookupdStats:
    """One nsqlookupd that this server registers with. address: HOST:PORT, as configured. http_address: of its HTTP API,
    which it names itself; "" while it is not connected. error: of the last end or try; "" while all is well."""

    address: str
    is_connected: bool
    since_ns: int  # wall time: connected, or not, since then
    error: str
    pinged_at_ns: int  # wall time of the last PING that it answered; 0: none was
    topic_count: int  # registered there
    channel_count: int
    is_up_to_date: bool  # it has confirmed all registrations
    version: str
    http_address: str


@dataclass(frozen=True, slots=True)
class PendingBodiesStats:
    """Unfinished bodies of TCP and HTTP. bytes: of those with room; waiting_count: those without. ended_count: since
    the start, that came too slowly while others waited."""

    bytes: int = 0
    bytes_max: int = 0
    waiting_count: int = 0
    longest_wait_ms: int = 0
    ended_count: int = 0


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """All of the engine at one second. Topics are sorted by name."""

    sequence: int
    taken_at_ns: int  # wall time, Unix nanoseconds
    started_at_ns: int
    version: str
    health: str  # HEALTHY or "NOK - reason"
    connection_count: int
    producer_count: int
    topics: tuple[TopicStats, ...]
    producers: tuple[ClientStats, ...] = ()
    log: LogStats | None = None  # of the log that topics of that kind share; None where there is none
    refused_connections: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Connections refused since the start: by listener ("tcp", "http") and reason ("too_many")."""
    refused_publishes: Mapping[str, int] = field(default_factory=dict)  # since the start, by reason
    refused_requests: Mapping[str, int] = field(default_factory=dict)  # for their Host or Origin; as above
    refused_secrets: Mapping[str, int] = field(default_factory=dict)  # since the start, by listener
    bodies: PendingBodiesStats = PendingBodiesStats()
    gone: Totals = field(default_factory=Totals)  # of topics and channels deleted since the start
    trash: TrashTotals = TrashTotals()
    aside: AsideStats = field(default_factory=AsideStats)  # of files that were set aside, by the newest scan
    monotonic_ns: int = 0  # when it was taken, by the clock of next_due_ns
    pause_limit_ms: int = 0  # a pause without an end has outlived its time after so long; 0: never
    latency_window_ms: int = 0  # messages finished in the last half to whole of it are in the windows of latencies
    percentiles: tuple[float, ...] = ()  # of latencies, by the option; the largest first
    lookupds: tuple[LookupdStats, ...] = ()  # in the order of --lookupd-tcp-address
    clock_jump: ClockJump | None = None  # the newest since the start; None for none
    disk: DiskSpace | None = None  # by a look in the last seconds; None before the first, and while none succeeds


@dataclass(frozen=True, slots=True)
class Connections:
    """All clients that are connected: consumers by topic and channel, and producers. taken_at_ns: wall time, Unix."""

    taken_at_ns: int = 0
    consumers: tuple[tuple[str, str, tuple[ClientStats, ...]], ...] = ()
    producers: tuple[ClientStats, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """All of the engine as `/stats` writes it. rest: without topics."""

    rest: EngineSnapshot
    topics: list[Figures]


@dataclass(frozen=True, slots=True)
class InFlightStats:
    """One message in flight: who holds it, since when, until when."""

    message_id: str
    client_key: int
    attempts: int
    body_bytes: int | None
    published_at_ns: int  # Unix nanoseconds
    held_ms: int
    deadline_in_ms: int  # until its timeout; negative when overdue


@dataclass(frozen=True, slots=True)
class MessageResult:
    """The result of an act for one message. reference: its id or offset, as the caller gave it. was: its state before,
    "" for unknown. code: "" where the act was done, else the reason as a word; text: the reason, or the change, as a
    sentence.

    new_id, new_offset: of the message that was published again.
    """

    reference: str
    offset: int | None = None
    was: str = ""
    code: str = ""
    text: str = ""
    new_id: str = ""
    new_offset: int | None = None


@dataclass(slots=True)
class Outcome:
    """The result of an act in counts; a field that does not apply is 0. Filled in by the time the act's ticket is
    done."""

    depth: int = 0  # waiting messages concerned
    in_flight: int = 0
    deferred: int = 0
    quarantined: int = 0
    channels: int = 0
    clients: int = 0
    created: bool = False  # the thing did not exist before
    already: bool = False  # all was as the act wants it: nothing was changed
    results: tuple[MessageResult, ...] = ()  # of an act on single messages: one for each
    name: str = ""  # of the topic or channel that was restored, or was in the trash
    trash: int = 0  # the id of the entry in the trash; 0: it can't be restored

    def add(self, other: "Outcome") -> None:
        self.depth += other.depth
        self.in_flight += other.in_flight
        self.deferred += other.deferred
        self.quarantined += other.quarantined
        self.channels += other.channels
        self.clients += other.clients
        self.created = self.created or other.created
        self.name = self.name or other.name
        self.trash = self.trash or other.trash


VIA_HTTP = "http"
VIA_TCP = "tcp"
VIA_TIMER = "timer"  # the server by itself, at the time that an act before had set


@dataclass(frozen=True, slots=True)
class ActRecord:
    """An act that came over the HTTP API, or that a client caused by publishing or subscribing, for the audit list."""

    action: str  # such as "pause_channel"
    topic: str
    channel: str  # "" for a topic's act
    remote_address: str
    error: str  # "" when it succeeded
    outcome: Outcome | None
    via: str = VIA_HTTP
    details: Mapping[str, Any] = field(default_factory=dict)  # further facts for the sentence: offset, lease
    act_id: str = ""  # joins the records before and after an act; "" for a single record
    actor: str = ""  # the name of the token; "" without one
    on_behalf_of: str = ""  # a claim of that token: the user for whom its program acts; "" for none
    at_ms: int = 0  # Unix milliseconds; the sink of the records notes it
    is_intent: bool = False  # the act is about to begin
    times: int = 1  # how many acts the record stands for

    @property
    def is_done(self) -> bool:
        return not self.error and self.outcome is not None

    @property
    def is_change(self) -> bool:
        """Whether the act changed anything: not where it was a look, or was refused before it began."""
        if self.error or self.outcome is None:
            return bool(self.act_id)
        return self.outcome.created or not self.action.startswith(("create_", "read_"))
