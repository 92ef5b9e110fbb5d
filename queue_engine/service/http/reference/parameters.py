"""The query parameters of the HTTP API: their names, limits and defaults.

The code that reads a parameter takes its limits from here, and the OpenAPI document states the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from queue_engine.log_acts import (
    END,
    KEY_BYTES_MAX,
    LEASE_SEGMENTS_MAX,
    LEASE_TTL_MS_MAX,
    LEASE_TTL_MS_MIN,
    READ_BYTES_MAX,
    READ_MESSAGES_MAX,
    READ_RECORDS_BYTES,
    START,
)
from queue_engine.messages.rows import BY_AGE, BY_ATTEMPTS, PREVIEW_BYTES_MAX, ROWS_MAX, STATES, TEXT_BYTES_MAX, WAITING
from queue_engine.vocabulary.flow.pause import PAUSE_MS_MAX, RAMP_MS_MAX, REASON_CHARACTERS_MAX
from queue_engine.vocabulary.flow.redrive import MAX_ATTEMPTS_MOST, RATE_DEFAULT, RATE_MAX
from queue_engine.vocabulary.names import NAME_LENGTH_MAX

NUMBER_MAX = (1 << 32) - 1
OFFSET_MOST = (1 << 62) - 1
TIME_MS_MOST = 1 << 43


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter whose value is any text of these lengths. text: what it does. longest: None for any."""

    name: str
    text: str
    is_required: bool = False
    shortest: int = 0
    longest: int | None = None

    def required(self) -> Self:
        """The same, for a path that can't do without it."""
        return replace(self, is_required=True)

    @property
    def schema(self) -> Mapping[str, Any]:
        """Its values, as a JSON schema."""
        schema: dict[str, Any] = {"type": "string"}
        if self.shortest:
            schema["minLength"] = self.shortest
        return schema if self.longest is None else {**schema, "maxLength": self.longest}


@dataclass(frozen=True, slots=True)
class Name(Parameter):
    """The name of a topic, channel or cursor."""

    suffix: str = "(#ephemeral)?"

    @property
    def schema(self) -> Mapping[str, Any]:
        return {
            "type": "string",
            "minLength": 1,
            "maxLength": NAME_LENGTH_MAX,
            "pattern": rf"^(?!\.\.?$)[.a-zA-Z0-9_-]+{self.suffix}$",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNumber(Parameter):
    """A whole number. most: None where an option sets it. default: None for none."""

    least: int = 0
    most: int | None
    default: int | None = None

    @property
    def schema(self) -> Mapping[str, Any]:
        schema: dict[str, Any] = {"type": "integer", "minimum": self.least}
        if self.most is not None:
            schema["maximum"] = self.most
        if self.default is not None:
            schema["default"] = self.default
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Parameter):
    """One of some words. default: "" for none."""

    words: tuple[str, ...]
    default: str = ""

    @property
    def schema(self) -> Mapping[str, Any]:
        schema: dict[str, Any] = {"type": "string", "enum": list(self.words)}
        return {**schema, "default": self.default} if self.default else schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration(Parameter):
    """A duration such as 90s or 1h30m. most_ms: the longest."""

    most_ms: int

    @property
    def schema(self) -> Mapping[str, Any]:
        return {"type": "string", "pattern": r"^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Parameter):
    """Text that matches a regular expression."""

    pattern: str

    @property
    def schema(self) -> Mapping[str, Any]:
        return {"type": "string", "pattern": self.pattern}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated(Parameter):
    """Text that may be given several times."""

    times_max: int

    @property
    def schema(self) -> Mapping[str, Any]:
        return {"type": "array", "items": {"type": "string"}, "maxItems": self.times_max}


class Place(NamedTuple):
    """Three parameters of which a request gives one: a place in a topic."""

    offset: WholeNumber
    time_ms: WholeNumber
    word: Word


TOPIC = Name("topic", "the topic's name")
CHANNEL = Name("channel", "the channel's name")
CURSORS_TOPIC = Parameter("topic", "those of this topic alone")
CURSOR = Name("cursor", "the cursor's name", suffix="")

STATS_TOPIC = Parameter("topic", "this topic alone; of producers, those that published to it")
STATS_CHANNEL = Parameter("channel", "these channels alone, of each topic that is shown")
METRICS_TOPIC = Repeated(
    "topic", "topics of this name alone, with * and ? for any characters; may be repeated", times_max=100
)
FORMAT = Parameter("format", "json for JSON; text for people without it")
INCLUDE_CLIENTS = Parameter("include_clients", "false or 0: without the consumers of each channel")
INCLUDE_MEM = Parameter("include_mem", "false or 0: without the memory of the process")
INCLUDE_BUCKETS = Parameter(
    "include_buckets", "true or 1: latencies have their buckets, so that those of several servers can be added up"
)

DEFER = WholeNumber("defer", "milliseconds until the message is delivered, at most --max-req-timeout", most=None)
KEY = Parameter(
    "key",
    f"the message's key, 1 to {KEY_BYTES_MAX} bytes of UTF-8; not with defer",
    shortest=1,
    longest=KEY_BYTES_MAX,
)
BINARY = Parameter(
    "binary", "any value but false and 0: the body is a count and messages with sizes instead of one message a line"
)
BATCH_KEY = Pattern(
    "batch_key",
    "32 hex digits, not all 0: the batch is written once under this key",
    pattern="^(?!0{32})[0-9a-fA-F]{32}$",
)
REPLAYED = Word("replayed", "flag the messages as replayed", words=("true", "false"), default="false")
TOPIC_NUMBER = WholeNumber("number", "refuse unless the topic has this number", most=NUMBER_MAX)

STORAGE = Word("storage", "storage kind of a new topic (default: --storage)", words=("log", "diskqueue"))

REASON = Parameter(
    "reason", f"why, at most {REASON_CHARACTERS_MAX} characters; without it a pause keeps its reason",
    longest=REASON_CHARACTERS_MAX,
)  # fmt: skip
PAUSE_FOR = Duration(
    "for", "how long, such as 15m, until it resumes by itself; 0: until somebody resumes it", most_ms=PAUSE_MS_MAX
)
PAUSE_UNTIL = WholeNumber("until", "when it resumes by itself, Unix milliseconds, instead of for", most=TIME_MS_MOST)
RAMP = Duration(
    "ramp", "how long it delivers slowly first, ever faster; 0, and without it: all at once", most_ms=RAMP_MS_MAX
)

MAX_ATTEMPTS = WholeNumber(
    "max_attempts",
    "deliveries after which a message that comes back is quarantined; 0: never",
    is_required=True,
    most=MAX_ATTEMPTS_MOST,
)
REDRIVE_RATE = WholeNumber("rate", "messages a second", least=1, most=RATE_MAX, default=RATE_DEFAULT)
KEEP_ATTEMPTS = Word("keep_attempts", "count the deliveries so far, too", words=("true", "false"), default="false")

OFFSET = WholeNumber("offset", "an offset of the topic", most=OFFSET_MOST)
TIME_MS = WholeNumber("time_ms", "the first message published then or later, Unix milliseconds", most=TIME_MS_MOST)
_ENDS = (START, END)
SEEK_PLACE = Place(
    OFFSET, TIME_MS, Word("to", "the oldest message that the log has, or behind the newest one", words=_ENDS)
)
FROM_PLACE = Place(
    OFFSET, TIME_MS, Word("from", "the oldest message that the log has, or behind the newest one", words=_ENDS)
)
START_PLACE = Place(
    replace(OFFSET, name="start_offset"),
    replace(TIME_MS, name="start_time_ms"),
    Word("start", "where a new channel begins: at the oldest message that the log has, or behind the newest one",
         words=_ENDS),
)  # fmt: skip
CURSOR_START_PLACE = Place(
    replace(OFFSET, name="start_offset", text="an offset that the log has"),
    replace(TIME_MS, name="start_time_ms", text="refused: a cursor can't begin at a time"),
    Word("start", "at the oldest message that the log has, or behind the newest one", words=_ENDS, default=START),
)
CURSOR_ANEW = Word(
    "anew",
    "make one that exists anew at this place, also further back, as deleting and creating it does, but in one act, and "
    "its maker stays",
    words=("true", "false"),
    default="false",
)

WANTED_KEY = replace(KEY, text="the messages with this key, the newest first; alone, or with before")
BEFORE = replace(OFFSET, name="before", text="with key: those at offsets below this one; next_before of an answer")
BY_KEY = (WANTED_KEY, BEFORE)
ROWS_KEY = replace(KEY, text="only messages with this key, the newest first; of the log, and not with sort")
TRASH_ID = WholeNumber("id", "the entry's id, as /trash lists it", least=1, most=NUMBER_MAX)
TRASH_SWAP = Word(
    "swap",
    "a topic whose name lives again takes it back, and the living one goes to the trash; otherwise it gets another",
    words=("true", "false"),
    default="false",
)
EXPECTED = WholeNumber(
    "expected",
    "refuse when there are far more messages than this to remove: by 1,000 and by a tenth",
    most=OFFSET_MOST,
)

LIMIT = WholeNumber("limit", "most messages in the answer", most=READ_MESSAGES_MAX, default=10)
MAX_BYTES = WholeNumber(
    "max_bytes", "about how many bytes the answer has; one message at least", most=READ_BYTES_MAX, default=1 << 20
)
MAX_RECORD_BYTES = replace(
    MAX_BYTES, text="about how many bytes the answer has; one record at least", default=READ_RECORDS_BYTES
)
FROM_OFFSET = replace(OFFSET, text="ranges of offsets from this one on", default=0)
TTL_MS = WholeNumber(
    "ttl_ms", "how long the lease lasts, milliseconds", least=LEASE_TTL_MS_MIN, most=LEASE_TTL_MS_MAX, default=60_000
)
SEGMENTS = WholeNumber(
    "segments", "most segment files in the answer", most=LEASE_SEGMENTS_MAX, default=LEASE_SEGMENTS_MAX
)
LEASE = Parameter("lease", "the lease's name", shortest=1)
LEASE_OFFSET = replace(OFFSET, text="the first offset that is kept; required for a new lease")
CURSOR_NUMBER = WholeNumber("number", "the topic's number, as /cursor/create answered it", most=OFFSET_MOST)
CURSOR_LAKE = Parameter(
    "lake",
    "the identity of the lake where the messages are stored; the first one is the cursor's, and another is refused",
    shortest=1,
    longest=64,
)
CURSOR_OFFSET = replace(OFFSET, text="everything before this offset is passed")

# Single messages of a channel.
STATE = Word("state", "messages in this state", words=STATES, default=WAITING)
SORT = Word(
    "sort",
    "the most attempts first, or the oldest first; without it as they are delivered, time out or are due, of finished "
    "ones the newest first",
    words=(BY_ATTEMPTS, BY_AGE),
)
AFTER = Parameter("after", "next_cursor of the page before", shortest=1, longest=20)
ROWS = WholeNumber("limit", "most messages in the answer", most=ROWS_MAX, default=50)
FIRST_OFFSET = replace(OFFSET, name="first_offset", text="messages from this offset on; not of a disk queue")
END_OFFSET = replace(OFFSET, name="end_offset", text="messages before this offset; not of a disk queue")
SINCE_MS = replace(TIME_MS, name="since_ms", text="messages published then or later, Unix milliseconds")
UNTIL_MS = replace(TIME_MS, name="until_ms", text="messages published before, Unix milliseconds")
ATTEMPTS_MIN = WholeNumber("attempts_min", "messages with at least so many deliveries", most=65_535, default=0)
PREVIEW_BYTES = WholeNumber("preview_bytes", "so much of each body is shown", most=PREVIEW_BYTES_MAX, default=0)
MESSAGE_ID = Pattern("id", "the message's id: 16 hex digits in lower case", pattern="^[0-9a-f]{16}$")
MESSAGE_OFFSET = replace(OFFSET, text="the message's offset, instead of its id; not of a disk queue")
PUBLISH_TO = Name("to", "the topic to publish to, which must exist; the same without it")
SEARCH_TEXT = Parameter("text", "the text to find, each letter as it is", shortest=1, longest=TEXT_BYTES_MAX)
SEARCH_STATE = Word("state", "only messages in this state", words=STATES)
SEARCH_FROM = replace(FIRST_OFFSET, text="begin here; without it where the channel's unfinished messages begin")
SEARCH = Parameter("search", "the search's name", shortest=1, longest=40)
