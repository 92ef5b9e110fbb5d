"""The states of a channel's messages: their names, their figures, and the sentence for a state that has none."""

from collections.abc import Mapping
from dataclasses import dataclass

WAITING, IN_FLIGHT, DEFERRED, QUARANTINED, FINISHED = "waiting", "in_flight", "deferred", "quarantined", "finished"


@dataclass(frozen=True, slots=True)
class State:
    """name: in addresses and in the engine; label: on the page; count: the field of the channel's stats that counts it,
    "" where nothing does; tone: of its chip; empty: title and sentence where no message is in it."""

    name: str
    label: str
    count: str
    tone: str
    empty: tuple[str, str]


_TABLE = (
    State(
        WAITING,
        "Waiting",
        "depth",
        "",
        ("No message is queued for delivery", "A message that is published to the topic comes here first."),
    ),
    State(
        IN_FLIGHT,
        "In flight",
        "in_flight_count",
        "",
        ("No message is in flight", "A message is in flight from its delivery until its consumer finishes it."),
    ),
    State(
        DEFERRED,
        "Deferred",
        "deferred_count",
        "",
        ("No message is deferred", "Messages come here that were published or requeued with a delay."),
    ),
    State(
        QUARANTINED,
        "Quarantined",
        "quarantined_count",
        "held",
        ("No message is quarantined", "Good: every message of this channel is delivered."),
    ),
    State(
        FINISHED,
        "Finished",
        "",
        "muted",
        ("No finished message is left in the log", "The log keeps finished messages until their segment is removed."),
    ),
)
STATES: Mapping[str, State] = {state.name: state for state in _TABLE}
