"""The figures of topics, channels and clients: each is a row, and all outputs are made of the rows.

    /stats in JSON     name, place, type: the keys, in nsqd's order
    /stats in text     line: nsqd's word and width
    /metrics           metric, total
    statsd             statsd
    samples            sample: the column; history: the column's comment in the history
    OpenAPI, READMEs   all of it
    the console        text: the hint at the heading of a column or a number

To add a figure that is counted: its row, and the lines in `Topic`, `Channel` or `Consumer` that begin at 0 and count.
To add one that is measured: its row, with `source` where an attribute of the topic, channel or consumer has it, else
the line that works it out, in `delivery/channel_figures.py`, `Topic.plain` or `ConnectedClient.stats`.
A new `history` is a new column: the tables of a lake refuse it (`TableSchemaError`) until a step adds it to them.

The order of the rows is that of /metrics, of statsd and of the samples' columns; /stats goes by `place`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple, cast


class FigureKind(Enum):
    """measured: as it is now. counted: since the server or the connection began; it never falls but to 0."""

    MEASURED = "measured"
    COUNTED = "counted"


MEASURED, COUNTED = FigureKind
NONE = "none"
FLAG = "0 or 1"
NUMBER_OR_NULL: object = int | None


class Line(NamedTuple):
    """Of the text of /stats: the word before the figure, its width, and the place in the line."""

    place: int
    word: str
    width: int = 0


class Total(NamedTuple):
    """The metric of the sum over all topics or channels; counted with those deleted since the start."""

    metric: str
    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A row. text: one sentence for people; of a flag the state while it is 1.

    place: of its key in /stats, 0 for none there. type: of its value there, `object` for a document that
    `stats_shape.py` draws. stats: the attribute of `TopicStats`, `ChannelStats` or `ClientStats`, "" for the name, None
    where there is none. source: the attribute of `Topic`, `Channel` or `Consumer`, "" for the name where it is counted;
    None, and "" where it is measured, for a computed figure. history: "" for no column there.
    """

    name: str
    kind: FigureKind
    unit: str
    text: str
    place: int = 0
    type: Any = int
    stats: str | None = ""
    source: str | None = ""
    line: Line | None = None
    metric: str = ""
    total: Total | None = None
    statsd: str = ""
    sample: str = ""
    history: str = ""

    @property
    def attribute(self) -> str:
        """Of the stats; "" for none."""
        return self.stats or ("" if self.stats is None else self.name)

    @property
    def path(self) -> str:
        """The attribute of the topic, channel or consumer; "" for a computed figure."""
        return self.source or (self.name if self.source is not None and self.kind is COUNTED else "")

    @property
    def meaning(self) -> str:
        """The text, with the meaning of null."""
        return f"{self.text}; null for none or unknown" if self.type is NUMBER_OR_NULL else self.text

    @property
    def is_of_part(self) -> bool:
        """Whether a part of the stats has it that most do not have: the quarantine."""
        return "." in self.attribute

    @property
    def is_flag(self) -> bool:
        return self.unit == FLAG


TOPIC = (
    Figure("topic_name", MEASURED, NONE, "Name of the topic", 1, str, source="name"),
    Figure("channels", MEASURED, NONE, "The topic's channels", 2, object, stats=None),
    Figure(
        "depth",
        MEASURED,
        "messages",
        "Messages that wait at the topic itself",
        3,
        line=Line(1, "depth", 5),
        metric="penstock_topic_depth",
        statsd="depth",
        sample="depth",
    ),
    Figure(
        "backend_depth",
        MEASURED,
        "messages",
        "Those of them that are on disk",
        4,
        line=Line(2, "be-depth", 5),
        statsd="backend_depth",
    ),
    Figure(
        "message_count",
        COUNTED,
        "messages",
        "Messages published",
        5,
        line=Line(3, "msgs", 8),
        metric="penstock_topic_messages_total",
        total=Total("penstock_messages_published_total", "Messages published to any topic"),
        statsd="message_count",
        sample="messages",
        history="messages that came",
    ),
    Figure(
        "message_bytes",
        COUNTED,
        "bytes",
        "Bytes of bodies published",
        6,
        metric="penstock_topic_body_bytes_total",
        total=Total("penstock_body_bytes_published_total", "Bytes of bodies published to any topic"),
        statsd="message_bytes",
        sample="message_bytes",
        history="bytes of their bodies; of a channel 0",
    ),
    Figure(
        "dropped_count",
        COUNTED,
        "messages",
        "Messages an ephemeral topic had no room for",
        14,
        source="store.dropped_count",
        metric="penstock_topic_dropped_total",
    ),
    Figure(
        "disk_bytes",
        MEASURED,
        "bytes",
        "Bytes on disk for the topic, in its files or in the log; topics share the log, so the sum means nothing",
        11,
        NUMBER_OR_NULL,
        metric="penstock_topic_kept_bytes",
        sample="disk_bytes",
    ),
    Figure("paused", MEASURED, FLAG, "The topic is paused", 7, bool, source="paused", metric="penstock_topic_paused"),
    Figure(
        "fenced",
        MEASURED,
        FLAG,
        "A fault has stopped the topic, until an operator retries it",
        12,
        str,
        metric="penstock_topic_fenced",
    ),
    Figure(
        "unreadable",
        MEASURED,
        FLAG,
        "The disk refuses something of the topic",
        13,
        str,
        metric="penstock_topic_unreadable",
    ),
    Figure(
        "e2e_processing_latency",
        MEASURED,
        "nanoseconds",
        "From publish to FIN, of the messages that its channels finished lately",
        8,
        object,
        stats="window",
    ),
    Figure("storage", MEASURED, NONE, "Its kind of storage", 9, str, source="store.kind"),
    Figure(
        "oldest_age_ms",
        MEASURED,
        "milliseconds",
        "Age of the oldest message that waits at the topic",
        10,
        NUMBER_OR_NULL,
        stats=None,
    ),
    Figure(
        "pause",
        MEASURED,
        NONE,
        "Who paused it, why, since when, until when, and how much waited then; null where unknown",
        15,
        object,
        source="pause",
    ),
    Figure(
        "resume_refused",
        MEASURED,
        NONE,
        "Why a pause whose end has come goes on; it is tried again",
        16,
        str,
        source="resume_refused",
    ),
    Figure("cursors", MEASURED, NONE, "Its pipeline cursors", 17, object),
)

# Of a topic with its channels: the samples and the history have it.
WAITING = Figure(
    "waiting",
    MEASURED,
    "messages",
    "Messages that wait, at a topic and in its channels",
    stats=None,
    total=Total("penstock_messages_waiting", "Messages that wait, once for each channel"),
    sample="waiting",
    history="messages not yet in flight; of a topic with those of its channels",
)

CHANNEL = (
    Figure("channel_name", MEASURED, NONE, "Name of the channel", 1, str, source="name"),
    Figure(
        "depth",
        MEASURED,
        "messages",
        "Messages that wait; those in flight and deferred are not among them",
        2,
        line=Line(1, "depth", 5),
        metric="penstock_channel_depth",
        statsd="depth",
        sample="depth",
        history="messages in the queue of the topic or channel itself",
    ),
    Figure(
        "backend_depth",
        MEASURED,
        "messages",
        "Those of them that are on disk",
        3,
        line=Line(2, "be-depth", 5),
        statsd="backend_depth",
    ),
    Figure(
        "in_flight_count",
        MEASURED,
        "messages",
        "Messages that consumers hold: sent and not finished yet",
        4,
        source="in_flight_count",
        line=Line(3, "inflt", 4),
        metric="penstock_channel_in_flight",
        total=Total("penstock_messages_in_flight", "Messages in flight, of all channels"),
        statsd="in_flight_count",
        sample="in_flight",
        history="messages with consumers; of a topic summed over its channels",
    ),
    Figure(
        "deferred_count",
        MEASURED,
        "messages",
        "Messages that wait for the time when they are due",
        5,
        line=Line(4, "def", 4),
        metric="penstock_channel_deferred",
        total=Total("penstock_messages_deferred", "Messages deferred, of all channels"),
        statsd="deferred_count",
        sample="deferred",
        history="messages put off; of a topic summed over its channels",
    ),
    Figure(
        "quarantined_count",
        MEASURED,
        "messages",
        "Messages that are set aside until redriven",
        25,
        metric="penstock_channel_quarantined",
    ),
    Figure(
        "message_count",
        COUNTED,
        "messages",
        "Messages that came to the channel",
        6,
        source=None,
        line=Line(7, "msgs", 8),
        metric="penstock_channel_messages_total",
        statsd="message_count",
        sample="messages",
    ),
    Figure(
        "finish_count",
        COUNTED,
        "messages",
        "Messages finished",
        13,
        metric="penstock_channel_finished_total",
        total=Total("penstock_messages_finished_total", "Messages finished, of all channels"),
        sample="finished",
        history="messages finished; of a topic summed over its channels",
    ),
    Figure(
        "requeue_count",
        COUNTED,
        "messages",
        "Messages that consumers requeued (REQ); those of lost connections are counted apart",
        7,
        line=Line(5, "re-q", 5),
        metric="penstock_channel_requeued_total",
        total=Total("penstock_messages_requeued_total", "Messages requeued, of all channels"),
        statsd="requeue_count",
        sample="requeued",
        history="messages given back",
    ),
    Figure(
        "timeout_count",
        COUNTED,
        "messages",
        "Messages whose time in flight ran out: neither FIN, REQ nor TOUCH came",
        8,
        line=Line(6, "timeout", 5),
        metric="penstock_channel_timeouts_total",
        total=Total("penstock_messages_timed_out_total", "Messages timed out, of all channels"),
        statsd="timeout_count",
        sample="timeouts",
        history="messages whose time in flight ran out",
    ),
    Figure(
        "disconnect_count",
        COUNTED,
        "messages",
        "Messages that came back with their consumer's connection",
        14,
        sample="disconnects",
        history="messages that came back with their consumer's connection",
    ),
    Figure(
        "client_count",
        MEASURED,
        "consumers",
        "Consumers connected",
        9,
        metric="penstock_channel_consumers",
        total=Total("penstock_consumers", "Consumers connected to any channel"),
        statsd="clients",
        sample="clients",
        history="consumers that are connected",
    ),
    Figure("ready_count", MEASURED, "messages", "RDY of all consumers together", 15, metric="penstock_channel_ready"),
    Figure(
        "dropped_count",
        COUNTED,
        "messages",
        "Messages an ephemeral channel had no room for",
        21,
        source="backlog.dropped_count",
        metric="penstock_channel_dropped_total",
    ),
    Figure(
        "disk_bytes",
        MEASURED,
        "bytes",
        "Bytes on disk for the channel, in its files or in the log; channels share the log",
        17,
        NUMBER_OR_NULL,
        metric="penstock_channel_kept_bytes",
        sample="disk_bytes",
        history="bytes on the disk",
    ),
    Figure(
        "quarantined_bytes",
        MEASURED,
        "bytes",
        "Bytes of quarantined messages",
        26,
        stats="quarantine.bytes",
        metric="penstock_channel_quarantined_bytes",
    ),
    Figure(
        "quarantine_full",
        MEASURED,
        FLAG,
        "The quarantine is full, so that messages wait again instead",
        28,
        str,
        stats="quarantine.full",
        metric="penstock_quarantine_full",
    ),
    Figure(
        "max_attempts",
        MEASURED,
        "deliveries",
        "Deliveries after which a message that comes back is quarantined, 0 for off",
        29,
        stats="quarantine.max_attempts",
        metric="penstock_channel_max_attempts",
    ),
    Figure(
        "paused",
        MEASURED,
        FLAG,
        "The channel is paused",
        11,
        bool,
        source="paused",
        metric="penstock_channel_paused",
        sample="paused",
    ),
    Figure(
        "fenced",
        MEASURED,
        FLAG,
        "A fault has stopped the channel, until an operator retries it",
        18,
        str,
        metric="penstock_channel_fenced",
    ),
    Figure(
        "unreadable",
        MEASURED,
        FLAG,
        "The disk refuses something of the channel",
        19,
        str,
        metric="penstock_channel_unreadable",
    ),
    Figure(
        "clients",
        MEASURED,
        NONE,
        "Its consumers; null where the request has include_clients=false",
        10,
        object,
    ),
    Figure(
        "e2e_processing_latency",
        MEASURED,
        "nanoseconds",
        "From publish to FIN, of the messages that it finished lately",
        12,
        object,
        stats="window",
    ),
    Figure(
        "oldest_age_ms",
        MEASURED,
        "milliseconds",
        "Age of the oldest unfinished message; a deferred one counts from when it is due",
        16,
        NUMBER_OR_NULL,
        stats=None,
        sample="oldest_age_ms",
        history="milliseconds since the oldest waiting message came; of a topic that of its worst channel",
    ),
    Figure("held_back", MEASURED, NONE, "Why nothing is delivered though messages wait", 20, str),
    Figure(
        "pause",
        MEASURED,
        NONE,
        "Who paused it, why, since when, until when, and how much waited then; null where unknown",
        22,
        object,
        source="pause",
    ),
    Figure(
        "resume_refused",
        MEASURED,
        NONE,
        "Why a pause whose end has come goes on; it is tried again",
        23,
        str,
        source="resume_refused",
    ),
    Figure("ramp", MEASURED, NONE, "It was resumed and delivers slowly until then; null", 24, object),
    Figure(
        "quarantined_since_ms",
        MEASURED,
        "milliseconds",
        "When the oldest quarantined message was quarantined, Unix time",
        27,
        NUMBER_OR_NULL,
        stats=None,
    ),
    Figure("redrive", MEASURED, NONE, "The last redrive, and how far it is; null", 30, object, source="redrive"),
)

CLIENT = (
    Figure("client_id", MEASURED, NONE, "As IDENTIFY names it", 1, str),
    Figure("hostname", MEASURED, NONE, "As IDENTIFY names it", 2, str),
    Figure("version", MEASURED, NONE, "Version of the protocol", 3, str),
    Figure("remote_address", MEASURED, NONE, "Where it connects from", 4, str),
    Figure("state", MEASURED, NONE, "nsqd's number of its state", 5, line=Line(1, "state")),
    Figure(
        "ready_count",
        MEASURED,
        "messages",
        "Its RDY: how many messages it takes at once",
        6,
        source="ready_count",
        line=Line(3, "rdy", 4),
    ),
    Figure(
        "in_flight_count",
        MEASURED,
        "messages",
        "Messages in flight to it",
        7,
        source="in_flight_count",
        line=Line(2, "inflt", 4),
    ),
    Figure("message_count", COUNTED, "messages", "Deliveries, redeliveries included", 8, line=Line(6, "msgs", 8)),
    Figure("finish_count", COUNTED, "messages", "Messages it finished", 9, line=Line(4, "fin", 8)),
    Figure("requeue_count", COUNTED, "messages", "Messages it requeued", 10, line=Line(5, "re-q", 8)),
    Figure("connect_ts", MEASURED, "seconds", "When it connected, Unix time", 11),
    Figure("sample_rate", MEASURED, "percent", "Share of the messages that it gets, 0 for all", 12),
    Figure("deflate", MEASURED, FLAG, "Its connection is compressed with deflate", 13, bool),
    Figure("snappy", MEASURED, FLAG, "Its connection is compressed with snappy", 14, bool),
    Figure("user_agent", MEASURED, NONE, "As IDENTIFY names it", 15, str),
    Figure("authed", MEASURED, FLAG, "It has sent AUTH, which was accepted; absent otherwise", 16, bool),
    Figure("auth_identity", MEASURED, NONE, "As the auth server or its token names it; absent without AUTH", 17, str),
    Figure("auth_identity_url", MEASURED, NONE, "Of that identity; absent without AUTH", 18, str),
    Figure("topology_zone", MEASURED, NONE, "Always empty: this server has no zones", 19, str),
    Figure("topology_region", MEASURED, NONE, "Always empty: this server has no regions", 20, str),
    Figure("pub_counts", COUNTED, "messages", "Messages it published, by topic", 21, object, source=None),
    Figure("tls", MEASURED, FLAG, "Its connection has TLS", 22, bool),
    Figure("tls_cipher_suite", MEASURED, NONE, "Cipher suite of its TLS", 23, str),
    Figure("tls_version", MEASURED, NONE, "Version of its TLS", 24, str),
    Figure("tls_negotiated_protocol", MEASURED, NONE, "Always empty: NSQ's clients negotiate none", 25, str),
    Figure(
        "tls_negotiated_protocol_is_mutual",
        MEASURED,
        FLAG,
        "Its connection has TLS, as Go says of every such one",
        26,
        bool,
        stats="tls",
    ),
    Figure("timeout_count", COUNTED, "messages", "Messages of it that timed out", 27),
    Figure(
        "msg_timeout", MEASURED, "milliseconds", "How long a message may be in flight to it", 28, stats="msg_timeout_ms"
    ),
)


def in_stats(rows: Iterable[Figure]) -> list[Figure]:
    """Those that /stats has, in its order."""
    return sorted([row for row in rows if row.place], key=attrgetter("place"))


Reader = Callable[[object], dict[str, Any]]


def dict_reader(attributes: Mapping[str, str]) -> Reader:
    """Makes a dict of an object: key → value of the attribute, named as `attrgetter` does; None where it is "".

    Compiled, since /stats and statsd make thousands: `dict(zip(keys, attrgetter(…)))` takes twice the time.
    """
    items = [f"{key!r}: {f'one.{attribute}' if attribute else None}" for key, attribute in attributes.items()]
    # Its text comes from the rows above, nothing from outside.
    return cast(Reader, eval(f"lambda one: {{{', '.join(items)}}}"))  # noqa: S307


def stats_reader(rows: Iterable[Figure]) -> Reader:
    """The keys of /stats in their order, with the attributes of a topic, channel or consumer; the others None."""
    return dict_reader({row.name: row.path for row in in_stats(rows)})


def field_reader(rows: Iterable[Figure]) -> Reader:
    """The fields of `TopicStats`, `ChannelStats` or `ClientStats` that a topic, channel or consumer has itself."""
    return dict_reader({row.attribute: row.path for row in rows if row.path})


def text_layout(rows: Iterable[Figure]) -> str:
    """A %-format of the figures that a line of /stats in text has, by their names."""
    lines = sorted([(row.line, row.name) for row in rows if row.line is not None])
    return " ".join([f"{line.word}: %({name})-{line.width or ''}d" for line, name in lines])
