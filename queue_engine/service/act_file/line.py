"""One line of the file of acts, and its form.

    CCCCCCCC SP {…} LF

    CCCCCCCC   CRC-32C of the JSON, 8 hex digits
    {…}        n: the act's number, one more than that of the line before; of the first one 1
               at_ms: Unix milliseconds
               phase: "intent", stored before an act begins; "result" of that; "event", which is over at once
               act: joins intent and result, 32 hex digits; "" for an event
               action, topic, channel, address, via, actor: as in `ActRecord`; actor is the token's name
               for: whom the token claims to act for; left out for no claim
               error: why it was refused or failed; "" when it was done
               counts: its result, by the names of `Outcome`'s fields; those that are 0 are left out
               created: whether it made something new; left out where nothing was done
               details: further facts, such as the reason of a pause
               times: how many acts the line stands for; left out for one

A new field needs no new form: readers ignore fields that they do not know. Another form needs another file name: a line
with a value of another type is damaged.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import orjson
from crc32c import crc32c

from queue_engine.delivery.stats import VIA_HTTP, ActRecord, Outcome

_TEXT_LENGTH_MAX = 500
_DETAILS_MAX = 20
_COUNTS = tuple(spec.name for spec in fields(Outcome) if type(spec.default) is int)


def shortened(act: ActRecord, at_ms: int) -> ActRecord:
    """The act as a line takes it: with its time, and texts of a bounded length."""
    return replace(
        act,
        at_ms=at_ms,
        action=act.action[:_TEXT_LENGTH_MAX],
        topic=act.topic[:_TEXT_LENGTH_MAX],
        channel=act.channel[:_TEXT_LENGTH_MAX],
        remote_address=act.remote_address[:_TEXT_LENGTH_MAX],
        error=act.error[:_TEXT_LENGTH_MAX],
        details={
            name: value if isinstance(value, int | float | bool) else str(value)[:_TEXT_LENGTH_MAX]
            for name, value in list(act.details.items())[:_DETAILS_MAX]
        },
    )


def encode_line(number: int, act: ActRecord) -> bytes:
    """act: shortened."""
    outcome = act.outcome
    content: dict[str, Any] = {
        "n": number,
        "at_ms": act.at_ms,
        "phase": "intent" if act.is_intent else "result" if act.act_id else "event",
        "act": act.act_id,
        "action": act.action,
        "topic": act.topic,
        "channel": act.channel,
        "address": act.remote_address,
        "via": act.via,
        "actor": act.actor,
        "error": act.error,
        "counts": {} if outcome is None else {name: n for name in _COUNTS if (n := getattr(outcome, name))},
    }
    if outcome is not None:
        content["created"] = outcome.created
    content["details"] = act.details
    if act.on_behalf_of:
        content["for"] = act.on_behalf_of
    if act.times != 1:
        content["times"] = act.times
    line = orjson.dumps(content)
    return b"%08x %s\n" % (crc32c(line), line)


def decode_line(line: bytes) -> tuple[int, ActRecord] | None:
    """Number and act of a line without its LF; None for a damaged one, also where a value has another type."""
    check, _, content = line.partition(b" ")
    if check != b"%08x" % crc32c(content):
        return None
    try:
        values = orjson.loads(content)
        is_intent = values["phase"] == "intent"
        number: Any = values["n"]
        act = ActRecord(
            values["action"],
            values["topic"],
            values["channel"],
            values["address"],
            values.get("error", ""),
            None if is_intent or values.get("error") else _outcome_of(values),
            via=values.get("via", VIA_HTTP),
            details=values.get("details", {}),
            act_id=values["act"],
            actor=values.get("actor", ""),
            on_behalf_of=values.get("for", ""),
            at_ms=values["at_ms"],
            is_intent=is_intent,
            times=values.get("times", 1),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return (number, act) if _has_right_types(number, act) else None


def _has_right_types(number: Any, act: ActRecord) -> bool:
    texts: list[Any] = [act.action, act.topic, act.channel, act.remote_address, act.error, act.via, act.act_id]
    counts: list[Any] = [getattr(act.outcome, name) for name in _COUNTS] if act.outcome is not None else []
    return (
        all(type(text) is str for text in (*texts, act.actor, act.on_behalf_of))
        # Tables keep numbers in 64 bits.
        and all(type(one) is int and one.bit_length() < 64 for one in (number, act.at_ms, act.times, *counts))
        and number >= 1
        and type(act.details) is dict
    )


def _outcome_of(values: Mapping[str, Any]) -> Outcome:
    counts = {name: n for name, n in values.get("counts", {}).items() if name in _COUNTS}
    # A line of a version that did not write `created` stands for an act that changed something, as nearly all did.
    return Outcome(created=values.get("created") is not False, **counts)
