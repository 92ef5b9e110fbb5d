"""Parts of sentences that findings share."""

from typing import TYPE_CHECKING

from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ConsumerFailures

# A consumer is named as the cause when it makes at least this share of the failures.
CULPRIT_SHARE = 0.60


def depth(vitals: Vitals) -> str:
    """The depth and the oldest age: "The depth is 4,812; the oldest message has been due for 14m 02s".

    A requeued message is due anew after its delay, so its age is not the time since it was published.
    """
    text = f"The depth is {units.number(vitals.stats.depth)}"
    if vitals.oldest_s is None:
        return text
    return f"{text}; the oldest message has been due for {units.duration(vitals.oldest_s)}"


def held(vitals: Vitals, *, has_age: bool = True) -> str:
    """Sentences about depth and deferred messages, each after a space; "" when there are none. has_age: with the oldest
    age, which begins anew with each REQ that defers."""
    stats = vitals.stats
    waiting = depth(vitals) if has_age else f"The depth is {units.number(stats.depth)}"
    text = f" {waiting}." if stats.depth else ""
    if stats.deferred_count:
        is_or_are = "is" if stats.deferred_count == 1 else "are"
        text += f" {units.plural(stats.deferred_count, 'message')} {is_or_are} deferred."
    return text


def growth(vitals: Vitals) -> str:
    """A sentence about the depth's growth, after a space; "" when it stays."""
    text = units.growth(vitals.growth_s)
    return "" if text in (units.UNKNOWN, "0/s") else f" The depth changes by {text}."


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


def lower(text: str) -> str:
    """The text with a small first letter, for inside of a sentence."""
    return f"{text[:1].lower()}{text[1:]}"


def name(consumer: "ConsumerFailures") -> str:
    return consumer.name or consumer.remote_address


def culprit(most: "ConsumerFailures | None", total: float) -> "ConsumerFailures | None":
    """The consumer that makes most of the failures by itself; None when several share them."""
    return most if most is not None and most.count >= CULPRIT_SHARE * total else None


def address(consumer: "ConsumerFailures | None") -> str:
    """Where it connects from, as a sentence after a space; "" for a nameless one, which its address names."""
    if consumer is None or not consumer.name:
        return ""
    return f" {consumer.name} is connected from {consumer.remote_address}."


def who(most: "ConsumerFailures | None", total: float, vitals: Vitals) -> str:
    """A sentence: whether one consumer requeues or several."""
    one = culprit(most, total)
    if one is not None:
        where = f" ({one.remote_address})" if one.name else ""
        others = vitals.stats.client_count - 1
        rest = (
            f"; {units.plural(others, 'other consumer')} {'is' if others == 1 else 'are'} connected"
            if others > 0
            else ""
        )
        return f"{name(one)}{where} gave {units.plural(one.count, 'message')} back with REQ{rest}."
    if most is not None and most.consumers > 1:
        return f"{units.number(most.consumers)} consumers give messages back with REQ; no single one stands out."
    return "The consumers give messages back with REQ."
