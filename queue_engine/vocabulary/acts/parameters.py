"""The parameters of acts: their names, limits and defaults.

The code that reads a request takes its limits from here, and the OpenAPI document states the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from queue_engine.vocabulary.flow.pause import PAUSE_MS_MAX, RAMP_MS_MAX, REASON_CHARACTERS_MAX
from queue_engine.vocabulary.flow.redrive import MAX_ATTEMPTS_MOST, RATE_DEFAULT, RATE_MAX
from queue_engine.vocabulary.names import NAME_LENGTH_MAX

NUMBER_MAX = (1 << 32) - 1
OFFSET_MOST = (1 << 62) - 1
TIME_MS_MOST = 1 << 43


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter whose value is any text of these lengths. text: its sentence. longest: None for any. key: the keyword
    of the engine's method that gets it, "" for the name."""

    name: str
    text: str
    is_required: bool = False
    shortest: int = 0
    longest: int | None = None
    key: str = field(default="", kw_only=True)

    @property
    def keyword(self) -> str:
        return self.key or self.name

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


class Position(NamedTuple):
    """Three parameters of which a request gives one: a place in a topic. The keyword is the word's."""

    offset: WholeNumber
    time_ms: WholeNumber
    word: Word


TOPIC = Name("topic", "the topic's name")
CHANNEL = Name("channel", "the channel's name")
CURSOR = Name("cursor", "the cursor's name", suffix="")

STORAGE = Word("storage", "storage kind of a new topic (default: --storage)", words=("log", "diskqueue"))

REASON = Parameter(
    "reason", f"why, at most {REASON_CHARACTERS_MAX} characters; without it a pause keeps its reason",
    longest=REASON_CHARACTERS_MAX,
)  # fmt: skip
PAUSE_FOR = Duration(
    "for",
    "how long, such as 15m, until it resumes by itself; 0: until an operator resumes it",
    most_ms=PAUSE_MS_MAX,
    key="for_ms",
)
PAUSE_UNTIL = WholeNumber(
    "until", "when it resumes by itself, Unix milliseconds, instead of for", most=TIME_MS_MOST, key="until_ms"
)
RAMP = Duration(
    "ramp",
    "how long it delivers slowly first, ever faster; 0, and without it: all at once",
    most_ms=RAMP_MS_MAX,
    key="ramp_ms",
)

MAX_ATTEMPTS = WholeNumber(
    "max_attempts",
    "deliveries after which a message that comes back is quarantined; 0: never",
    is_required=True,
    most=MAX_ATTEMPTS_MOST,
)
REDRIVE_RATE = WholeNumber("rate", "messages a second", least=1, most=RATE_MAX, default=RATE_DEFAULT)
KEEP_ATTEMPTS = Word(
    "keep_attempts", "count the deliveries so far, too", words=("true", "false"), default="false", key="keeps_attempts"
)

OFFSET = WholeNumber("offset", "an offset of the topic", most=OFFSET_MOST)
TIME_MS = WholeNumber("time_ms", "the first message published then or later, Unix milliseconds", most=TIME_MS_MOST)
START, END = "start", "end"
_ENDS = (START, END)
SEEK_PLACE = Position(
    OFFSET,
    TIME_MS,
    Word("to", "the oldest message that the log has, or behind the newest one", words=_ENDS, key="target"),
)
KEEP_FINISHED = Word(
    "keep_finished",
    "skip the messages before the place, and deliver no finished message behind it again",
    words=("true", "false"),
    default="false",
)
EXACT = Word(
    "exact",
    "refuse an offset that the log has removed; otherwise the oldest one stands for it",
    words=("true", "false"),
    default="false",
    key="is_exact",
)
START_PLACE = Position(
    replace(OFFSET, name="start_offset"),
    replace(TIME_MS, name="start_time_ms"),
    Word("start", "where a new channel begins: at the oldest message that the log has, or behind the newest one",
         words=_ENDS),
)  # fmt: skip
CURSOR_START_PLACE = Position(
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

CURSOR_NUMBER = WholeNumber("number", "the topic's number, as /cursor/create answered it", most=OFFSET_MOST)
CURSOR_LAKE = Parameter(
    "lake",
    "the identity of the lake where the messages are stored; the first one is the cursor's, and another is refused",
    shortest=1,
    longest=64,
)
CURSOR_OFFSET = replace(OFFSET, text="everything before this offset is passed")

TRASH_ID = WholeNumber("id", "the entry's id, as /trash lists it", least=1, most=NUMBER_MAX, key="trash")
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

MESSAGE_ID = Pattern("id", "the message's id: 16 hex digits in lower case", pattern="^[0-9a-f]{16}$")
MESSAGE_OFFSET = replace(OFFSET, text="the message's offset, instead of its id; not of a disk queue")
PUBLISH_TO = Name("to", "the topic to publish to, which must exist; the same without it")
