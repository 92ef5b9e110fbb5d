"""Changes since a question was shown, with author and time: an order for the engine, sentences for a refusal."""

from collections.abc import Mapping
from typing import Any

from admin_console.gateway.act_sentences import SENTENCES, sentence_of
from admin_console.gateway.gateway import Asker, Deletion
from admin_console.gateway.sentences import act_in_words
from admin_console.vocabulary import units
from queue_engine.delivery.stats import VIA_HTTP, VIA_TCP, VIA_TIMER, ActRecord
from queue_engine.engine.acts.recent_acts import Order, RecentAct, StateChangedError
from queue_engine.vocabulary.acts.act import State
from queue_engine.vocabulary.acts.table import ACTS, rivals_of

NAMED_MAX = 3
_VIA_CONSOLE = "console"
_BIG = frozenset({"bodies", "ids", "offsets"})


def order_of(action: str, topic: str, channel: str, asker: Asker, details: Mapping[str, Any] | None = None) -> Order:
    """The act as the engine compares and notes it."""
    act = ACTS[action]
    small_details = {name: value for name, value in (details or {}).items() if name not in _BIG}
    return Order(
        ActRecord(action, topic, channel, "", "", None, via=_VIA_CONSOLE, details=small_details, actor=asker.by),
        part=asker.part,
        shown=asker.shown if act.unchanged else "",
        rivals=rivals_of(action),
        is_noted=bool(act.changes),
        with_topic=State.TOPIC in act.unchanged or State.CHANNEL in act.unchanged,
        with_channel=State.CHANNEL in act.unchanged,
    )


def changed(error: StateChangedError, name: str, asker: Asker) -> str:
    """`orders/billing changed after this was shown. 10:03:12 UTC, grace: Paused orders/billing for 15m: …`"""
    if error.is_unknown:
        return f"{name} may have changed after this was shown: the server was restarted, or very many acts were done."
    if error.is_gone:
        head = f"{name} is gone."
    elif error.is_restored:
        head = f"{name} was restored from the trash after this was shown."
    elif error.is_other:
        head = f"{name} was deleted and created again after this was shown."
    else:
        head = f"{name} changed after this was shown."
    more = len(error.acts) - NAMED_MAX
    return " ".join(
        [
            head,
            *(line_of(act, asker.by) for act in error.acts[:NAMED_MAX]),
            *([f"{more} more acts."] if more > 0 else []),
        ]
    )


def code_of(error: StateChangedError, channel: str) -> str:
    if error.is_gone:
        return "CHANNEL_NOT_FOUND" if channel else "TOPIC_NOT_FOUND"
    return error.code


def deletion(act: RecentAct) -> Deletion:
    outcome = act.record.outcome
    return Deletion(line_of(act), act.scope.topic, 0 if outcome is None else outcome.trash)


def line_of(act: RecentAct, user: str = "") -> str:
    """`10:03:12 UTC, grace: Paused orders/billing.`"""
    return f"{units.moment(act.at_ms)} UTC, {_who(act.record, user)}: {_what(act)}"


def _who(record: ActRecord, user: str) -> str:
    if record.via == VIA_TIMER:
        return "the server by itself"
    if record.via == _VIA_CONSOLE:
        return "you" if record.actor == user else record.actor or "the console"
    over = {VIA_HTTP: "the HTTP API", VIA_TCP: "TCP"}.get(record.via, record.via)
    return f"{record.actor} over {over}" if record.actor else f"a request over {over} from {record.remote_address}"


def _what(act: RecentAct) -> str:
    record = act.record
    if act.sentence:
        return act.sentence
    if record.outcome is None or record.action not in SENTENCES:
        return f"{act_in_words(record.action)} is under way."
    return sentence_of(record.action, record.topic, record.channel, record.details, record.outcome)
