"""Parts of sentences that findings share."""

from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units


def depth(vitals: Vitals) -> str:
    """The depth and the oldest age: "The depth is 4,812; the oldest unfinished message is 14m 02s old"."""
    text = f"The depth is {units.number(vitals.stats.depth)}"
    if vitals.oldest_s is None:
        return text
    return f"{text}; the oldest unfinished message is {units.duration(vitals.oldest_s)} old"


def held(vitals: Vitals) -> str:
    """Sentences about depth and deferred messages, each after a space; "" when there are none."""
    stats = vitals.stats
    text = f" {depth(vitals)}." if stats.depth else ""
    if stats.deferred_count:
        is_or_are = "is" if stats.deferred_count == 1 else "are"
        text += f" {units.plural(stats.deferred_count, 'message')} {is_or_are} deferred."
    return text


def growth(vitals: Vitals) -> str:
    """A sentence about the depth's growth, after a space; "" when it stays."""
    text = units.growth(vitals.growth_s)
    return "" if text in (units.UNKNOWN, "0/s") else f" It changes by {text}."


def flow(vitals: Vitals) -> str:
    """A sentence about arrivals and finished messages, after a space; "" without arrivals."""
    if not vitals.inflow_s:
        return ""
    if vitals.outflow_s:
        return f" {units.rate(vitals.inflow_s)} come, {units.rate(vitals.outflow_s)} are finished."
    return f" {units.rate(vitals.inflow_s)} come, none are finished."


def span(vitals: Vitals) -> str:
    """The time that the counts over the last minute cover: "in the last minute", "in the last 12 s"."""
    return "in the last minute" if vitals.known_s >= 55 else f"in the last {vitals.known_s:.0f} s"


def sentence(text: str) -> str:
    """The text with a capital and a stop."""
    return f"{text[:1].upper()}{text[1:]}."
