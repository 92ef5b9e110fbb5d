"""Parts of sentences that findings share."""

from typing import TYPE_CHECKING

from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ConsumerFailures

# A consumer is named as the cause when it makes at least this share of the failures.
CULPRIT_SHARE = 0.60
# Of a channel that a silent node has, too.
ANSWERING = "the nodes that answer"
SILENT = "The consumers of a node that does not answer are unknown."


def depth(vitals: Vitals) -> str:
    """The depth and the oldest age: "The depth is 4,812; the oldest message is 14m 02s old".

    The age of a requeued message runs anew from the end of its delay.
    """
    text = f"The depth is {units.number(vitals.stats.depth)}"
    if vitals.oldest_s is None:
        return text
    return f"{text}; the oldest message is {units.duration(vitals.oldest_s)} old"


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
    text = _growth(vitals)
    return f" In the last {_flow_span(vitals)} the depth {text}." if text else ""


def flow(vitals: Vitals) -> str:
    """A sentence about arrivals, finished messages and growth, after a space; "" when nothing arrives and the depth
    stays."""
    if not vitals.inflow_s:
        return growth(vitals)
    parts = [f"{units.rate(vitals.inflow_s)} arrived", f"{units.rate(vitals.outflow_s)} were finished"]
    if grown := _growth(vitals):
        parts.append(f"the depth {grown}")
    return f" In the last {_flow_span(vitals)} {', '.join(parts[:-1])} and {parts[-1]}."


def _growth(vitals: Vitals) -> str:
    text = units.growth(vitals.growth_s)
    if text in (units.UNKNOWN, "0/s"):
        return ""
    return f"{'grew' if text.startswith('+') else 'shrank'} by {text[1:]}"


def _flow_span(vitals: Vitals) -> str:
    return f"{vitals.flow_s:.0f} s"


def span(vitals: Vitals) -> str:
    """The time that the counts over the last minute cover: "in the last minute", "in the last 12 s"."""
    return "in the last minute" if vitals.minute_s >= 55 else f"in the last {vitals.minute_s:.0f} s"


def sentence(text: str) -> str:
    """The text with a capital and a stop, which it may have."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def lower(text: str) -> str:
    """The text with a small first letter, for inside of a sentence."""
    return f"{text[:1].lower()}{text[1:]}"


def name(consumer: "ConsumerFailures") -> str:
    return consumer.name or consumer.remote_address


def culprit(most: "ConsumerFailures | None", total: float) -> "ConsumerFailures | None":
    """The consumer that makes most of the failures by itself; None when several share them. total: of all consumers, of
    the same look as `most`."""
    return most if most is not None and most.count >= CULPRIT_SHARE * total else None


def share_of(one: "ConsumerFailures", of_consumers: float, total: float) -> str:
    """The part of `total`, as pages show it, that one consumer makes. of_consumers: as the engine's window, which names
    consumers, has it; its minute begins up to five seconds off. A total that is far above it has an operator's."""
    return units.share(one.count, total if total > 1.1 * of_consumers else of_consumers)


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
        return f"{name(one)}{where} requeues its messages (REQ){rest}."
    if most is not None and most.consumers > 1:
        return f"{units.number(most.consumers)} consumers requeue their messages (REQ), none of them most."
    return "The consumers requeue their messages (REQ)."
