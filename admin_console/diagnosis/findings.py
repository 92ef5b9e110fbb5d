"""All kinds of findings, the gravest cause first. A further kind is a file of its own and a line here."""

from collections.abc import Callable

from admin_console.diagnosis import (
    backing_off,
    consumers_on_some,
    deferred,
    failing,
    falling_behind,
    fenced,
    held_back,
    no_consumers,
    old_messages,
    paused,
    poison,
    quarantined,
    refusing,
    saturated,
    stuck,
    timing_out,
    unreadable,
)
from admin_console.diagnosis.finding import Finding, FindingKind
from admin_console.diagnosis.vitals import Vitals

_FINDERS: tuple[tuple[FindingKind, Callable[[Vitals], Finding | None]], ...] = (
    (fenced.FENCED, fenced.find),
    (unreadable.UNREADABLE, unreadable.find),
    (paused.PAUSED, paused.find),
    (poison.POISON, poison.find),
    (failing.FAILING, failing.find),
    (timing_out.TIMING_OUT, timing_out.find),
    (paused.TOPIC_PAUSED, paused.find_topic),
    (no_consumers.NO_CONSUMERS, no_consumers.find),
    (consumers_on_some.CONSUMERS_ON_SOME, consumers_on_some.find),
    (backing_off.BACKING_OFF, backing_off.find),
    (held_back.HELD_BACK, held_back.find),
    (stuck.STUCK, stuck.find),
    (saturated.SATURATED, saturated.find),
    (falling_behind.FALLING_BEHIND, falling_behind.find),
    (old_messages.OLD_MESSAGES, old_messages.find),
    (quarantined.QUARANTINE_FULL, quarantined.find_full),
    (quarantined.QUARANTINED, quarantined.find),
    (refusing.REFUSING, refusing.find),
    (deferred.DEFERRED, deferred.find),
    (paused.RAMP, paused.find_ramp),
)
RANK = {kind: rank for rank, (kind, _) in enumerate(_FINDERS)}


_FINDS = tuple(find for _, find in _FINDERS)


def find_all(vitals: Vitals) -> tuple[Finding, ...]:
    """The findings of a channel at this moment, the gravest cause first."""
    return tuple([found for find in _FINDS if (found := find(vitals)) is not None])
