"""Quarantined messages: they wait for an operator, and block no other message."""

from admin_console.diagnosis.finding import HELD, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

QUARANTINED = FindingKind("quarantined", act="redrive_channel")
QUARANTINE_FULL = FindingKind("quarantine full", act="redrive_channel")


def find(vitals: Vitals) -> Finding | None:
    if not vitals.stats.quarantine.count:
        return None
    return Finding(QUARANTINED, HELD, lambda: _sentences(vitals))


def find_full(vitals: Vitals) -> Finding | None:
    quarantine = vitals.stats.quarantine
    if not quarantine.full:
        return None
    return Finding(
        QUARANTINE_FULL,
        WARNING,
        lambda: Sentences(
            "▲ quarantine full",
            "The quarantine is full: messages that fail go back to the queue.",
            f"Its limit: {quarantine.full}. Nothing is dropped. Redrive or finish its messages, or raise the limit.",
            "the quarantine is full",
        ),
    )


def _sentences(vitals: Vitals) -> Sentences:
    quarantine = vitals.stats.quarantine
    count = units.plural(quarantine.count, "message")
    if quarantine.count == 1:
        is_or_are, advice = "is", "It blocks no other message. Look at why it fails, then redrive or finish it."
    else:
        is_or_are, advice = "are", "They block no other message. Look at why they fail, then redrive or finish them."
    why = ", ".join(f"{units.number(number)} {reason}" for reason, number in quarantine.reasons)
    return Sentences(
        f"{units.number(quarantine.count)} quarantined",
        f"{count} {is_or_are} quarantined.",
        f"Why: {why}. {advice}",
        f"{count} {is_or_are} quarantined",
    )
