"""The broker refuses publishes: the disk is full, the log failed, or a fault stopped the topic."""

from typing import TYPE_CHECKING

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals

if TYPE_CHECKING:
    from admin_console.gateway.gateway import EngineSnapshot

_TITLES = {
    (False, False): "The engine reports a problem.",
    (True, False): "The disk is full: publishes are refused.",
    (False, True): "The disk is full: finished messages may come again.",
    (True, True): "The disk is full: publishes are refused, and finished messages may come again.",
}
REFUSING = FindingKind("refusing", act="retry_topic")


def find(vitals: Vitals) -> Finding | None:
    """The topic is fenced: nothing new comes to its channels."""
    reason = vitals.topic.fenced
    if not reason:
        return None
    return Finding(
        REFUSING,
        WARNING,
        lambda: Sentences(
            "■ topic fenced",
            f"The topic {vitals.topic.topic_name} is fenced: publishes to it are refused.",
            f"{words.sentence(reason)} Messages in the channel are still delivered. Press Try again at the topic "
            "when the cause is gone.",
            "publishes to the topic are refused",
        ),
    )


def find_broker(snapshot: "EngineSnapshot") -> Finding | None:
    """The engine's own fault, which concerns all topics; None while its health is OK."""
    if snapshot.health == "OK":
        return None
    reason = snapshot.health.removeprefix("NOK - ")
    is_full = snapshot.log is not None and snapshot.log.is_full
    comes_again = snapshot.log is not None and snapshot.log.is_progress_out_of_room
    return Finding(
        REFUSING,
        DANGER,
        lambda: Sentences(
            "■ publishes refused" if is_full else "▲ engine",
            _TITLES[is_full, comes_again],
            f"{words.sentence(reason)} "
            + (
                "Consumers still receive messages. Free space on the disk."
                if is_full
                else "Publishing may be refused; the server's log has the details."
            ),
            "publishes are refused, the disk is full" if is_full else "the engine reports a problem",
        ),
    )
