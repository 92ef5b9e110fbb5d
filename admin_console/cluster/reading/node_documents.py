"""The documents of a topic or channel in a Penstock's `/stats`: its pause, ramp, redrive and pipeline cursors.

Each is checked by itself: one that can't be right is left out, and costs no other. A Go nsqd has none.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from queue_engine.vocabulary.flow.pause import Pause, Ramp, pause_of
from queue_engine.vocabulary.flow.redrive import RATE_MAX, Redrive, RedriveState
from queue_engine.vocabulary.json_fields import number_of, object_of, text_of
from queue_engine.vocabulary.names import is_valid_name
from queue_engine.wire.cursor import CursorGapStats, CursorStats

CURSORS_MAX = 100  # of a topic
GAPS_MAX = 10  # of a cursor: the newest
TEXT_LENGTH_MAX = 255
NUMBER_MAX = (1 << 63) - 1
TIME_MS_MAX = 253_402_300_799_000  # the end of the year 9999: pages write no later moment


@dataclass(frozen=True, slots=True)
class Documents:
    """ramp, redrive: of a channel. cursors: of a topic, sorted by name."""

    pause: Pause | None = None
    ramp: Ramp | None = None
    redrive: RedriveState | None = None
    cursors: tuple[CursorStats, ...] = ()


NO_DOCUMENTS = Documents()


def documents_of(get: Callable[[str], Any], topic: str) -> Documents:
    """get: of the entry of a topic or channel. topic: its name, or its topic's."""
    pause, ramp, redrive, cursors = get("pause"), get("ramp"), get("redrive"), get("cursors")
    if pause is None and ramp is None and redrive is None and not cursors:
        return NO_DOCUMENTS
    listed = cursors[:CURSORS_MAX] if isinstance(cursors, list) else []
    found = [made for one in listed if (made := _read(_cursor, one)) is not None and made.topic == topic]
    return Documents(
        _read(_pause, pause),
        _read(_ramp, ramp),
        _read(_redrive, redrive),
        tuple(sorted(found, key=lambda one: one.cursor)),
    )


def _read(read: Callable[[Mapping[str, Any]], Any], document: Any) -> Any:
    """None for none, and for one that can't be right."""
    with suppress(ValueError):
        if document is not None:
            return read(object_of(document, "document"))
    return None


def _number(document: Mapping[str, Any], key: str, most: int = NUMBER_MAX) -> int:
    """Raises ValueError."""
    number = number_of(document, key)
    if number > most:
        raise ValueError(f"{key} is {number} and above {most}")
    return number


def _text(document: Mapping[str, Any], key: str) -> str:
    return text_of(document, key)[:TEXT_LENGTH_MAX]


def _pause(document: Mapping[str, Any]) -> Pause:
    found = pause_of(document)
    assert found is not None, "it is no null"
    for key in ("since_ms", "until_ms", "changed_ms"):
        _number(document, key, TIME_MS_MAX)
    _number(document, "depth")
    return replace(
        found, by=_text(document, "by"), reason=_text(document, "reason"), changed_by=_text(document, "changed_by")
    )


def _ramp(document: Mapping[str, Any]) -> Ramp:
    return Ramp(_number(document, "from_ms", TIME_MS_MAX), _number(document, "until_ms", TIME_MS_MAX))


def _redrive(document: Mapping[str, Any]) -> RedriveState:
    began_ms = _number(document, "began_ms", TIME_MS_MAX)
    rate, total = _number(document, "rate", RATE_MAX), _number(document, "total")
    keeps = document.get("keeps_attempts") is True
    redrive = Redrive(rate, total, began_ms, keeps, _text(document, "by"))
    return RedriveState(redrive, _number(document, "left"), _text(document, "ended"))


def _cursor(document: Mapping[str, Any]) -> CursorStats:
    name = text_of(document, "cursor")
    if not is_valid_name(name):
        raise ValueError(f"cursor is {name[:80]!r} and not a name")
    listed = document.get("gaps")
    gaps = listed[-GAPS_MAX:] if isinstance(listed, list) else []
    counts = ("offset", "end_offset", "synced_offset", "oldest_offset", "depth", "lag_bytes", "retention_bytes")
    numbers = {key: _number(document, key) for key in ("number", "id_base", *counts)}
    return CursorStats(
        cursor=name,
        topic=text_of(document, "topic"),
        created_ms=_number(document, "created_ms", TIME_MS_MAX),
        is_warned=document.get("is_warned") is True,
        gaps=tuple(made for one in gaps if (made := _read(_gap, one)) is not None),
        lake=_text(document, "lake"),
        maker=_text(document, "maker"),
        expires_ms=_number(document, "expires_ms", TIME_MS_MAX),
        **numbers,
    )


def _gap(document: Mapping[str, Any]) -> CursorGapStats:
    first, after = _number(document, "first_offset"), _number(document, "next_offset")
    return CursorGapStats(first, after, _text(document, "reason"), _number(document, "at_ms", TIME_MS_MAX))
