"""The Gateway: the console's reads and acts of an engine, and the gateway of this process. Views use nothing else of
the engine."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from admin_console.gateway.history import HistorySource
from admin_console.vocabulary.current_cluster import PerCluster, current_cluster
from queue_engine.delivery.latency_window import LatencyWindow
from queue_engine.delivery.stats import (
    ChannelStats,
    ClientStats,
    Connections,
    ConsumerFailures,
    DiskSpace,
    EngineSnapshot,
    InFlightStats,
    LookupdStats,
    MessageResult,
    RecentFailures,
    TopicStats,
)
from queue_engine.engine.acts.log_acts import KEY_BYTES_MAX, SeekPreview, Target
from queue_engine.engine.messages.rows import MessageQuery, MessageRow, MessageRows, OneMessage, SearchHit, SearchState
from queue_engine.engine.running_config import log_level_setting
from queue_engine.storage.aside_stats import AsideStats
from queue_engine.storage.fetch.key_search import KeyPage
from queue_engine.storage.fetch.log_reader import MessagePage, ReadMessage
from queue_engine.storage.log_stats import LogStats
from queue_engine.storage.readers.reader_registry import Maker
from queue_engine.vocabulary.acts.table import ACTS, why_not
from queue_engine.vocabulary.figures import CHANNEL, CLIENT, TOPIC
from queue_engine.vocabulary.flow.pause import Pause, Ramp
from queue_engine.vocabulary.flow.redrive import MAX_ATTEMPTS_MOST, RATE_DEFAULT, RATE_MAX
from queue_engine.vocabulary.names import ARCHIVE_CURSOR, NAME_LENGTH_MAX, is_ephemeral, is_valid_name
from queue_engine.vocabulary.options.durations import format_duration, parse_duration_ms
from queue_engine.vocabulary.version import full_version
from queue_engine.wire.cursor import CursorStats
from queue_engine.wire.trash import FreedBytes, TrashPage, TrashStats

__all__ = [
    "ACTS",
    "ARCHIVE_CURSOR",
    "CHANNEL_HELP",
    "CLIENT_HELP",
    "KEY_BYTES_MAX",
    "MAX_ATTEMPTS_MOST",
    "NAME_LENGTH_MAX",
    "NO_AUTHOR",
    "RATE_DEFAULT",
    "RATE_MAX",
    "TOPIC_HELP",
    "ActOrder",
    "ActResult",
    "AsideStats",
    "ChannelStats",
    "ClientStats",
    "Connections",
    "ConsumerFailures",
    "CursorStats",
    "DiskSpace",
    "EngineSnapshot",
    "EngineUnavailableError",
    "FreedBytes",
    "Gateway",
    "InFlightStats",
    "KeyPage",
    "LatencyWindow",
    "LogStats",
    "LookupdStats",
    "Maker",
    "MessagePage",
    "MessageQuery",
    "MessageResult",
    "MessageRow",
    "MessageRows",
    "NoEngineError",
    "NodeInfo",
    "OneMessage",
    "Pause",
    "Ramp",
    "ReadMessage",
    "ReadRefusedError",
    "RecentFailures",
    "SearchHit",
    "SearchState",
    "SeekPreview",
    "Target",
    "TopicStats",
    "TrashPage",
    "TrashStats",
    "format_duration",
    "full_version",
    "get_gateway",
    "has_capability",
    "is_ephemeral",
    "is_valid_name",
    "log_level_setting",
    "parse_duration_ms",
    "set_gateway",
    "why_no_engine",
    "why_not",
]

# What each figure of a topic, of a channel and of a consumer is, by its key in /stats: a sentence for the heading.
TOPIC_HELP = {row.name: f"{row.text}." for row in TOPIC}
CHANNEL_HELP = {row.name: f"{row.text}." for row in CHANNEL}
CLIENT_HELP = {row.name: f"{row.text}." for row in CLIENT}

DONE = "done"
FAILED = "failed"
UNKNOWN = "unknown"
THIS_SERVER = "this-server"


class EngineUnavailableError(Exception):
    """There is no engine, or it does not answer in time; the text is a sentence for users."""


class NoEngineError(EngineUnavailableError):
    """The read takes an engine, and this console runs without one; the text is a sentence."""


class ReadRefusedError(Exception):
    """The messages can't be read; the text is a sentence for users. reason: the cause alone, where the node's name or
    the reason stands apart; without a full stop."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason or text.removesuffix(".")


def node_name(http_address: str) -> str:
    """The name of the engine of this process as a node of the cluster."""
    return THIS_SERVER if http_address.startswith("/") else http_address


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """Where the engine listens, as HOST:PORT; `version` as in its statistics; broadcast_address: as its samples name
    it."""

    tcp_address: str
    http_address: str
    version: str
    max_msg_size: int  # bytes
    max_defer_ms: int
    storage: str = ""  # the kind that a new topic gets
    sync: str = ""  # when the log is on the disk: always, interval or os
    trash_age_ms: int = 0  # how long emptied or deleted messages of the log can be restored; 0: not at all
    capabilities: frozenset[str] = frozenset()  # names of ACTS and USES that the node has
    broadcast_address: str = ""

    @property
    def name(self) -> str:
        """As a node of the cluster: its HTTP address; "" without an engine. A socket in the file system can't be part
        of a page's path."""
        return node_name(self.http_address)


@dataclass(frozen=True, slots=True)
class ActResult:
    """The result of an act. `message` is the sentence on the page and in the audit list.

    verdict: done, failed (nothing was changed), or unknown (it had begun when the wait ended).
    code: the HTTP API's word for a failure, such as TOPIC_NOT_FOUND; "" otherwise.
    counts: how much the act changed: depth, in_flight, deferred, channels, clients. results: of an act on single
    messages, one for each. created: the topic, channel or pause was not there before.
    trash: the id of the trash entry; 0 when nothing can be restored. already: it was so before; nothing was changed.
    """

    verdict: str
    message: str
    code: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    results: tuple[MessageResult, ...] = ()
    created: bool = False
    trash: int = 0
    already: bool = False


@dataclass(frozen=True, slots=True)
class Asker:
    """The author of an act. shown: the mark of the question that was answered, from `Gateway.mark`; "" where none was
    shown: then nothing is compared. part: the act's object, where that is neither a topic nor a channel."""

    by: str = ""
    shown: str = ""
    part: str = ""


NO_AUTHOR = Asker()


@dataclass(frozen=True, slots=True)
class ActOrder:
    """An act that is to be done, one of several."""

    action: str
    topic: str
    channel: str
    asker: Asker
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Deletion:
    """Of a topic or channel: a sentence about its deletion, with author and time. trash: the entry's id; 0 for none."""

    sentence: str
    topic: str
    trash: int


class Gateway(Protocol):
    """The engine of this process. Any thread; nothing here blocks longer than its deadline. A read that takes an engine
    raises NoEngineError where there is none (`cluster_only.py`); pages leave it out."""

    @property
    def capabilities(self) -> frozenset[str]:
        """The acts and uses that it has, as of `NodeInfo`."""
        ...

    def snapshot(self) -> EngineSnapshot | None:
        """The newest figures, up to a second old; None before the first."""
        ...

    def exact(self, topic: str, channel: str = "") -> EngineSnapshot:
        """The figures of one topic or channel at this moment, a channel's clients included.

        Raises EngineUnavailableError.
        """
        ...

    def watch(self, topic: str, channel: str) -> None:
        """Include this channel's clients in the snapshots of the next seconds; for "" and "", all producers."""
        ...

    def connections(self) -> Connections:
        """All clients at this moment. Raises EngineUnavailableError."""
        ...

    def in_flight(self, topic: str, channel: str, limit: int = 100) -> tuple[InFlightStats, ...]:
        """Messages in flight, earliest deadline first; empty for a channel that does not exist.

        Raises EngineUnavailableError.
        """
        _refuse("messages in flight")

    def trash(self, count_max: int, *, before: tuple[int, int] | None = None) -> TrashPage:
        """The trash entries, newest first; with `before`, those older than the entry with this time (Unix ms) and id.

        Raises EngineUnavailableError.
        """
        _refuse("trash")

    def freed_by(
        self, emptied: Mapping[str, Collection[str]], *, own_too: bool, channels_too: bool, readers_too: bool
    ) -> FreedBytes:
        """Bytes that the disk gets back when the messages of these channels are removed. own_too, channels_too,
        readers_too: also the messages at the topics, in all their channels, and held by their cursors and leases.
        Raises EngineUnavailableError."""
        _refuse("log")

    def trash_entry(self, trash: int, topic: str) -> TrashStats | None:
        """One entry of the topic's; None when the trash does not have it. Raises EngineUnavailableError."""
        _refuse("trash")

    def messages(self, topic: str, channel: str, target: Target | None, count_max: int) -> MessagePage:
        """Messages of a topic from `target` on, or, without one, those a channel delivers next. Consumes nothing.

        Raises EngineUnavailableError, or ReadRefusedError with a sentence.
        """
        _refuse("messages")

    def find_key(self, topic: str, key: bytes, count_max: int, *, before: int | None = None) -> KeyPage:
        """The messages of a topic that have a key, the newest first, at offsets below `before`. Consumes nothing.
        Raises as `messages`."""
        _refuse("messages")

    def message_rows(self, topic: str, channel: str, query: MessageQuery) -> MessageRows:
        """A page of the messages of a channel that are in one state. Consumes nothing. Raises as `messages`."""
        _refuse("messages")

    def message(self, topic: str, channel: str, *, message_id: str = "", offset: int | None = None) -> OneMessage:
        """One message of a channel with its state and its whole body, by its id or its offset. Raises as `messages`."""
        _refuse("messages")

    def start_search(
        self,
        topic: str,
        channel: str,
        text: str,
        *,
        state: str = "",
        first_offset: int | None = None,
        end_offset: int | None = None,
        user: str = "",
    ) -> SearchState:
        """Search the bodies of a channel's messages for a text, in the background. user: has a share of the searches
        that run. first_offset: None for where the unfinished ones begin; `next_offset` of a search goes on with it.
        state: "" for all. Raises as `messages`."""
        _refuse("messages")

    def search_state(self, search_id: str) -> SearchState:
        """How far a search is; a search that is not read for 15 s is cancelled. Raises as `messages`."""
        _refuse("messages")

    def cancel_search(self, search_id: str) -> SearchState:
        """End a search. Raises as `messages`."""
        _refuse("messages")

    def seek_preview(self, topic: str, channel: str, target: Target) -> SeekPreview:
        """A preview of rewinding a channel to `target`. Raises as `messages`."""
        _refuse("messages")

    def act(self, action: str, topic: str, channel: str = "", asker: Asker = NO_AUTHOR, **details: Any) -> ActResult:
        """Do one act and wait until it is durable. Failures come as an ActResult, never as an exception."""
        ...

    def acts(self, orders: Sequence[ActOrder]) -> list[ActResult]:
        """Do several acts, all within one deadline: an answer for each, as `act` has it. The engine does other work
        between them."""
        ...

    def act_beside(self, action: str, topic: str, channel: str, asker: Asker, do: Callable[[], ActResult]) -> ActResult:
        """Do an act that is not the engine's, compared and noted as `act` does; `do` is called where nothing
        changed."""
        ...

    def mark(self, topic: str, channel: str = "") -> str:
        """The mark of the state of a topic or channel, and of all else that has acts. Read it before the figures of a
        question. Without a topic: of all topics. Raises EngineUnavailableError."""
        ...

    def changes_since(self, action: str, asker: Asker) -> Mapping[str, str]:
        """The acts since `asker.shown` that such an act is compared with: ORDERS or ORDERS/BILLING → a sentence about
        the last act and its author; under "" the reason why that is unknown. Only the newest, where they are many."""
        ...

    def changed_since(self, action: str, topic: str, channel: str, asker: Asker, name: str = "") -> str:
        """Sentences about changes since `asker.shown` for which the act would be refused; "" without any. Without a
        topic and a part: about all objects of such acts, under this `name`."""
        ...

    def deletion_of(self, topic: str, channel: str = "") -> Deletion | None:
        """Who deleted a topic or channel that is not there; None where the latest acts have no such deletion."""
        ...

    def node(self) -> NodeInfo:
        """Where the engine listens."""
        ...

    def history(self) -> HistorySource:
        """The pipeline's history of this engine, which may be empty."""
        ...


def _refuse(lacking: str) -> NoReturn:
    raise NoEngineError(no_engine(lacking))


def no_engine(lacking: str) -> str:
    """The sentence about a thing that a console without an engine lacks."""
    if cluster := current_cluster():
        return f"The queue of this server is no part of the cluster {cluster}, and so there is no {lacking} here."
    return f"This console has no queue of its own, and so no {lacking}: it runs with --console-only."


_gateways = PerCluster[Gateway]()


def set_gateway(gateway: Gateway | None) -> None:
    """Called by `serve` once its engine runs, and with None before it stops."""
    _gateways.put(gateway)


def get_gateway() -> Gateway:
    """The gateway of the cluster that the running code works for. Raises EngineUnavailableError where no engine runs;
    the answer is then a 503."""
    found = _gateways.get()
    if found is None:
        raise EngineUnavailableError("The engine is not running: it is starting, stopping, or this is not `serve`.")
    return found


def has_capability(name: str) -> bool:
    """Whether that gateway has this act or use; True while there is none: it is starting or stopping."""
    found = _gateways.get()
    return found is None or name in found.capabilities


def why_no_engine(name: str) -> str:
    """Why this act or use takes an engine that this console has not; "" where it can be done here."""
    if has_capability(name):
        return ""
    if cluster := current_cluster():
        return f"The queue of this server, which {name.replace('_', ' ')} takes, is no part of the cluster {cluster}."
    return f"This console has no queue of its own, which {name.replace('_', ' ')} takes: it runs with --console-only."
