"""The channel has messages, and no consumer is connected."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals

NO_CONSUMERS = FindingKind("no consumers", begins_after_s=3, ends_after_s=3)


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if not stats.depth or stats.client_count or stats.paused or vitals.is_partial:
        return None
    return Finding(
        NO_CONSUMERS,
        WARNING,
        lambda: Sentences(
            "no consumers",
            "Not draining: no consumer is connected.",
            f"{words.depth(vitals)}.{words.growth(vitals)} Connect a consumer to "
            f"{vitals.topic.topic_name}/{vitals.stats.channel_name}.",
            "no consumer is connected",
        ),
    )
