"""Consumers are connected to some of a channel's nodes, and messages wait at the others. Which nodes, the cluster finds
(`admin_console/cluster/merging/topic_differences.py`); the sums of the channel show a consumer."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals

CONSUMERS_ON_SOME = FindingKind("consumers on some nodes", begins_after_s=3, ends_after_s=3)


def find(vitals: Vitals) -> Finding | None:
    apart = vitals.apart
    if apart is None or vitals.stats.paused:
        return None
    also = f"consumers are connected to {apart.part} nodes"
    return Finding(
        CONSUMERS_ON_SOME,
        WARNING,
        lambda: Sentences(f"consumers on {apart.part}", words.sentence(also), apart.text, also),
    )
