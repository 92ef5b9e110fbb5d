"""The options of the `penstock` data source, checked once where a read or a write is planned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from queue_engine.vocabulary.errors import ReadOptionError

AUTO = "auto"
FILES = "files"
HTTP = "http"
READ_FROM_WORDS = (AUTO, FILES, HTTP)  # the first is the default
ERROR = "error"
REPORT = "report"

BATCH_ROWS_MAX = 8192
BATCH_BYTES_MAX = 16 << 20
PARTITION_BYTES = 32 << 20
READ_NAMES = (
    "url",
    "lookupd",
    "topic",
    "token",
    "start_offset",
    "end_offset",
    "start_time_ms",
    "end_time_ms",
    "read_from",
    "max_batch_rows",
    "max_batch_bytes",
    "max_rows_per_trigger",
    "partition_bytes",
    "damage_path",
    "on_gap",
)
WRITE_NAMES = ("url", "topic", "token", "batch_key", "replayed", "number")
# Spark passes the options of its own that a stream is written with on to the source. It compares names without case.
_NAMES_OF_SPARK = ("checkpointlocation", "queryname")
# Of a name to one that is proposed for it, 0 to 1: a slip of the keyboard, or Kafka's word for it.
_LIKENESS = 0.75
_OFFSET_MAX = (1 << 62) - 1
_TIME_MS_MAX = 1 << 43


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of a read.

    url: of the engine's HTTP API. lookupd: instead of it, the HTTP addresses of nsqlookupds, which name the servers;
    then url is "". topics: names. start_offset, end_offset: of every topic, the latter excluded; None
    for the oldest there is, and for all that is synced. start_time_ms, end_time_ms: Unix, by publish time, the latter
    excluded. read_from: `files` reads leased segments on this machine, and the rest over HTTP; `http` reads all over
    HTTP; `auto` is `files`, but reads segments that are not on this machine over HTTP. rows_per_trigger: the most rows
    of a stream's micro-batch, None for no limit. partition_bytes: about as many are read by one task. damage_path: the
    directory for reports of missing messages, "" for none. on_gap: messages that were removed before they were read,
    or whose topic was deleted, stop the read (`error`), or are logged and skipped (`report`).
    """

    url: str
    topics: tuple[str, ...]
    lookupd: tuple[str, ...] = ()
    token: str = ""
    start_offset: int | None = None
    end_offset: int | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    read_from: str = AUTO
    batch_rows_max: int = BATCH_ROWS_MAX
    batch_bytes_max: int = BATCH_BYTES_MAX
    rows_per_trigger: int | None = None
    partition_bytes: int = PARTITION_BYTES
    damage_path: str = ""
    on_gap: str = ERROR


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The checked options of a write. batch_key: the job's name; rows are published once under it. is_replayed: whether
    the messages are flagged as a replay's. number: the write is refused when the topic has another number; None for any
    topic of the name."""

    url: str
    topic: str
    batch_key: str
    token: str = ""
    is_replayed: bool = False
    number: int | None = None


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Raises ReadOptionError, also for an option that does not exist."""
    _check_names(given, READ_NAMES)
    topics = tuple(name.strip() for name in _text(given, "topic").split(",") if name.strip())
    if not topics or len(set(topics)) != len(topics):
        raise ReadOptionError(f"topic={given.get('topic')} has to be one name, or several different ones, with commas")
    lookupd = tuple(one.strip() for one in (given.get("lookupd") or "").split(",") if one.strip())
    if lookupd:
        for name, reason in (
            ("url", "one of them names the servers"),
            ("start_offset", "each server counts its own offsets"),
            ("end_offset", "each server counts its own offsets"),
        ):
            if given.get(name):
                raise ReadOptionError(f"lookupd and {name} are both given: {reason}")
    return ReadOptions(
        url="" if lookupd else _text(given, "url"),
        topics=topics,
        lookupd=lookupd,
        token=given.get("token") or "",
        start_offset=_number(given, "start_offset", 0, _OFFSET_MAX),
        end_offset=_number(given, "end_offset", 0, _OFFSET_MAX),
        start_time_ms=_number(given, "start_time_ms", 0, _TIME_MS_MAX),
        end_time_ms=_number(given, "end_time_ms", 0, _TIME_MS_MAX),
        read_from=_word(given, "read_from", READ_FROM_WORDS),
        batch_rows_max=_number(given, "max_batch_rows", 1, 1 << 20) or BATCH_ROWS_MAX,
        batch_bytes_max=_number(given, "max_batch_bytes", 1, 1 << 29) or BATCH_BYTES_MAX,
        rows_per_trigger=_number(given, "max_rows_per_trigger", 1, _OFFSET_MAX),
        partition_bytes=_number(given, "partition_bytes", 1, 1 << 40) or PARTITION_BYTES,
        damage_path=given.get("damage_path") or "",
        on_gap=_word(given, "on_gap", (ERROR, REPORT)),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Raises ReadOptionError, also for an option that does not exist."""
    _check_names([name for name in given if name.lower() not in _NAMES_OF_SPARK], WRITE_NAMES)
    return WriteOptions(
        url=_text(given, "url"),
        topic=_text(given, "topic"),
        batch_key=_text(given, "batch_key"),
        token=given.get("token") or "",
        is_replayed=_word(given, "replayed", ("false", "true")) == "true",
        number=_number(given, "number", 0, (1 << 32) - 1),
    )


def _check_names(given: Iterable[str], names: tuple[str, ...]) -> None:
    """Refuse a name that is none of `names`: ignoring an option would read or write something else."""
    by_letters = {_letters(name): name for name in names}
    for name in given:
        if name.lower() not in names:
            near = get_close_matches(_letters(name), by_letters, n=1, cutoff=_LIKENESS)
            hint = f"the nearest name is {by_letters[near[0]]}" if near else f"there are {', '.join(names)}"
            raise ReadOptionError(f"there is no option {name[:80]}: {hint}")


def _letters(name: str) -> str:
    """A name without case, underscores, hyphens and dots."""
    return name.lower().replace("_", "").replace("-", "").replace(".", "")


def _text(given: Mapping[str, str], name: str) -> str:
    text = given.get(name)
    if not text:
        raise ReadOptionError(f"option {name} is missing")
    return text


def _word(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """One of `words`, of which the first is the default."""
    word = (given.get(name) or words[0]).lower()
    if word not in words:
        raise ReadOptionError(f"{name}={word} can be {' or '.join(words)}")
    return word


def _number(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = given.get(name)
    if text is None or text == "":
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ReadOptionError(f"{name}={text} is not a whole number from {least} to {most}")
    return number
