"""Parts of sentences that findings share."""

from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units


def depth(vitals: Vitals) -> str:
    """How much there is, and since when: "The depth is 4,812; the oldest unfinished message is 14m 02s old"."""
    text = f"The depth is {units.number(vitals.stats.depth)}"
    if vitals.oldest_s is None:
        return text
    return f"{text}; the oldest unfinished message is {units.duration(vitals.oldest_s)} old"


def held(vitals: Vitals) -> str:
    """Sentences of what waits and what is deferred, each with a space before it; "" when nothing is."""
    stats = vitals.stats
    text = f" {depth(vitals)}." if stats.depth else ""
    if stats.deferred_count:
        is_or_are = "is" if stats.deferred_count == 1 else "are"
        text += f" {units.plural(stats.deferred_count, 'message')} {is_or_are} deferred."
    return text


def growth(vitals: Vitals) -> str:
    """A sentence of where the depth is heading, with a space before it; "" when it stays."""
    text = units.growth(vitals.growth_s)
    return "" if text in (units.UNKNOWN, "0/s") else f" It changes by {text}."


def flow(vitals: Vitals) -> str:
    """A sentence of what comes and what is finished, with a space before it; "" when nothing comes."""
    if not vitals.inflow_s:
        return ""
    if vitals.outflow_s:
        return f" {units.rate(vitals.inflow_s)} come, {units.rate(vitals.outflow_s)} are finished."
    return f" {units.rate(vitals.inflow_s)} come, none are finished."


def span(vitals: Vitals) -> str:
    """What the counts over the last minute really cover: "in the last minute", "in the last 12 s"."""
    return "in the last minute" if vitals.known_s >= 55 else f"in the last {vitals.known_s:.0f} s"


def sentence(text: str) -> str:
    """With a capital and a stop."""
    return f"{text[:1].upper()}{text[1:]}."
