"""One line of the file of acts, and its form.

    CCCCCCCC SP {…} LF

    CCCCCCCC   CRC-32C of the JSON, 8 hex digits
    {…}        n: the entry's number, one more than that of the line before; of the first one 1
               at_ms: Unix milliseconds
               phase: "intent", stored before an act begins; "result" of that; "event", which is over at once
               act: joins intent and result, 32 hex digits; "" for an event
               action, topic, channel, address, via, actor: as in `ActRecord`; actor is the token's name
               error: why it was refused or failed; "" when it was done
               counts: what it did, by the names of `Outcome`'s fields; those that are 0 are left out
               created: whether it made what was not there before; left out where nothing was done
               details: further facts, such as the reason of a pause
               times: how many acts the line stands for; left out for one

A new field needs no new form: readers ignore fields that they do not know. Another form needs another file name.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import orjson
from crc32c import crc32c

from queue_engine.delivery.stats import VIA_HTTP, ActRecord, Outcome

Phase = Literal["intent", "result", "event"]
_TEXT_LENGTH_MAX = 500
_DETAILS_MAX = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One line, without its number."""

    at_ms: int
    phase: Phase
    act: str
    action: str
    topic: str
    channel: str
    address: str
    via: str = VIA_HTTP
    actor: str = ""
    error: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    created: bool | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    times: int = 1


_FIELDS = frozenset(spec.name for spec in fields(Entry))
_COUNTS = tuple(spec.name for spec in fields(Outcome) if type(spec.default) is int)
COUNT_NAMES = frozenset(_COUNTS)


def entry_of(record: ActRecord, at_ms: int, *, is_intent: bool = False) -> Entry:
    """The entry of an act: of what is about to begin, or of what came of it."""
    outcome = record.outcome
    return Entry(
        at_ms=at_ms,
        phase="intent" if is_intent else "result" if record.act_id else "event",
        act=record.act_id,
        action=record.action[:_TEXT_LENGTH_MAX],
        topic=record.topic[:_TEXT_LENGTH_MAX],
        channel=record.channel[:_TEXT_LENGTH_MAX],
        address=record.remote_address[:_TEXT_LENGTH_MAX],
        via=record.via,
        actor=record.actor,
        error=record.error[:_TEXT_LENGTH_MAX],
        counts={} if outcome is None else {name: n for name in _COUNTS if (n := getattr(outcome, name))},
        created=None if outcome is None else outcome.created,
        details={
            name: value if isinstance(value, int | float | bool) else str(value)[:_TEXT_LENGTH_MAX]
            for name, value in list(record.details.items())[:_DETAILS_MAX]
        },
    )


def encode_entry(number: int, entry: Entry) -> bytes:
    content = {"n": number, **asdict(entry)}
    if entry.times == 1:
        del content["times"]
    if entry.created is None:
        del content["created"]
    line = orjson.dumps(content)
    return b"%08x %s\n" % (crc32c(line), line)


def decode_entry(line: bytes) -> tuple[int, Entry] | None:
    """Number and entry of a line without its LF; None for a damaged one."""
    check, _, content = line.partition(b" ")
    if check != b"%08x" % crc32c(content):
        return None
    try:
        values = orjson.loads(content)
        return int(values["n"]), Entry(**{name: value for name, value in values.items() if name in _FIELDS})
    except (ValueError, TypeError, KeyError):
        return None
