"""The channel has messages, and no consumer is connected: where nodes are silent, to the others."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals

NO_CONSUMERS = FindingKind("no consumers", begins_after_s=3, ends_after_s=3)


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if not stats.depth or stats.client_count or stats.paused:
        return None
    sentences = _of_those_that_answer if vitals.is_partial else _of_all
    return Finding(NO_CONSUMERS, WARNING, lambda: sentences(vitals))


def _of_all(vitals: Vitals) -> Sentences:
    return Sentences(
        "no consumers",
        "Not draining: no consumer is connected.",
        f"{words.depth(vitals)}.{words.growth(vitals)} {_advice(vitals)}",
        "no consumer is connected",
    )


def _of_those_that_answer(vitals: Vitals) -> Sentences:
    also = f"no consumer is connected to {words.ANSWERING}"
    text = f"{words.depth(vitals)} there. {words.SILENT} {_advice(vitals)}"
    return Sentences("consumers unknown", words.sentence(also), text, also)


def _advice(vitals: Vitals) -> str:
    return f"Connect a consumer to {vitals.topic.topic_name}/{vitals.stats.channel_name}."
