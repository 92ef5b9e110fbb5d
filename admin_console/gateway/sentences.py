"""Parts of sentences about acts: numbers with their nouns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from admin_console.vocabulary import units
from queue_engine.delivery.stats import Outcome
from queue_engine.vocabulary.flow.pause import Pause
from queue_engine.vocabulary.options.durations import format_duration


def counted(number: int, noun: str) -> str:
    """`1 message`, `12,304 messages`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def act_in_words(action: str) -> str:
    """`Empty channel`; `Resume channel` of unpause_channel, as its button says."""
    return action.replace("unpause", "resume").replace("_", " ").capitalize()


def and_list(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def in_one_phrase(phrases: Iterable[str]) -> str:
    """What an nsqd does not do, each once: `shows no messages and has no keys and no trash`."""
    found = list(dict.fromkeys(phrases))
    lacking = [f"no {phrase.removeprefix('has no ')}" for phrase in found if phrase.startswith("has no ")]
    others = [phrase for phrase in found if not phrase.startswith("has no ")]
    return and_list([*others, *([f"has {and_list(lacking)}"] if lacking else [])])


def further_unable(count: int) -> str:
    """Behind why a node can't do an act; "" for none."""
    return f"{counted(count, 'further node')} can't do this, either." if count else ""


def merged_sentences(reasons: Iterable[str]) -> list[str]:
    """Reasons as sentences. Reasons that begin alike up to the colon share a sentence: `Topic old has storage kind
    diskqueue: only the log keeps keys; only the log can be rewound.`"""
    rests: dict[str, dict[str, None]] = {}
    for reason in filter(None, reasons):
        subject, colon, rest = reason.removesuffix(".").partition(": ")
        rests.setdefault(f"{subject[:1].upper()}{subject[1:]}{colon}", {})[rest] = None
    return [f"{subject}{'; '.join(rest_texts)}." for subject, rest_texts in rests.items()]


def message_counts(depth: int, in_flight: int, deferred: int, quarantined: int = 0) -> str:
    """`12,551 messages (depth 12,304, 17 in flight, 230 deferred)`, or the one kind that there is: `12,304 messages`,
    `17 messages in flight`, `230 deferred messages`; "" when there are none."""
    kinds = [f"depth {depth:,}"] if depth else []
    others = ((in_flight, "in flight"), (deferred, "deferred"), (quarantined, "quarantined"))
    kinds += [f"{number:,} {kind}" for number, kind in others if number]
    if len(kinds) > 1:
        return f"{counted(depth + in_flight + deferred + quarantined, 'message')} ({', '.join(kinds)})"
    if in_flight:
        return f"{counted(in_flight, 'message')} in flight"
    if deferred or quarantined:
        return counted(deferred or quarantined, "deferred message" if deferred else "quarantined message")
    return counted(depth, "message") if depth else ""


def outcome_counts(outcome: Outcome) -> dict[str, int]:
    """The outcome's counts, without those that are 0."""
    names = ("depth", "in_flight", "deferred", "quarantined", "channels", "clients")
    return {name: number for name in names if (number := getattr(outcome, name))}


def given_up(count: int, cursor: str) -> str:
    """`12,304 messages that are not archived`: the messages that a deleted pipeline cursor had not read."""
    if not count:
        return "nothing: it has read every message"
    verb = "is" if count == 1 else "are"
    return f"{counted(count, 'message')} that {verb} not {'archived' if cursor == 'archive' else 'read'}"


def paused_until(details: Mapping[str, Any]) -> str:
    """` for 15m`, ` until 2026-11-23 14:05:00 UTC`, or "" for an act that gave a pause no end."""
    if details.get("for_ms"):
        return f" for {format_duration(details['for_ms'])}"
    return f" until {units.moment(details['until_ms'])} UTC" if details.get("until_ms") else ""


def ended_pause(pause: Pause, *, was_down: bool) -> str:
    """`The pause by anna (bad deploy) ended at its time.` was_down: it ended while the server was down."""
    by = f" by {pause.by}" if pause.by else ""
    why = f" ({pause.reason})" if pause.reason else ""
    return f"The pause{by}{why} ended {'while the server was down' if was_down else 'at its time'}."


NAMED_MAX = 5  # nodes that a sentence names


def some_of(names: Sequence[str]) -> str:
    """`a`, `a and b`; of many the first ones, `a, b, c, d, e and 495 more`."""
    more = [f"{len(names) - NAMED_MAX:,} more"] if len(names) > NAMED_MAX else []
    return and_list([*names[:NAMED_MAX], *more])


def within(texts: Sequence[str], length_max: int, between: str) -> str:
    """As many of the texts as fit, and the number of the others."""
    whole = between.join(texts)
    if len(whole) <= length_max:
        return whole
    begun = whole[:length_max].count(between)
    return f"{between.join(texts[:begun])}{between}and {len(texts) - begun:,} more"


def of_nodes(names: list[str], text: str) -> str:
    """`a: this can't be undone: it is an nsqd`, `a and b: this can't be undone: each is an nsqd`."""
    return f"{some_of(names)}: {text if len(names) == 1 else text.replace(': it is ', ': each is ', 1)}"


def not_listed(nodes: Iterable[tuple[str, str]]) -> list[str]:
    """Why the messages of nodes can't be listed, a sentence for each reason: `Not listed here: a is an nsqd and shows
    no messages.`, `Not listed here: a and b: no answer.` nodes: each with its reason, which may begin with its name."""
    by_reason: dict[tuple[str, bool], list[str]] = {}
    for name, reason in nodes:
        rest = reason.removeprefix(f"{name} ")
        by_reason.setdefault((rest, rest != reason), []).append(name)
    sentences = []
    for (rest, is_about_node), names in by_reason.items():
        joint = ": " if not is_about_node else ": each " if len(names) > 1 else " "
        sentences.append(f"Not listed here: {some_of(names)}{joint}{rest}.")
    return sentences
