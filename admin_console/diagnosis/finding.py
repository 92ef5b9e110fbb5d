"""A finding: one problem that a channel's figures show at one moment."""

from dataclasses import dataclass

# Urgency, as levels: losing or in danger, look soon, deliberately held, calm.
DANGER, WARNING, HELD, CALM = 3, 2, 1, 0
TONES = {DANGER: "danger", WARNING: "warning", HELD: "held", CALM: ""}


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of finding, and when it becomes a state of the channel. Each exists once, so identity compares them.

    begins_after_s: the state begins after every snapshot of this time has shown the finding. ends_after_s: the state
    ends after no snapshot of this time has. Both are 0 for facts, such as a pause, that are no measurement.
    act: the one act that is likely to help, by its name in the table of acts; "" where the cause is outside.
    ends_others: where it is found, states whose findings are gone end at once: it explains why they are gone.
    """

    name: str
    begins_after_s: float = 0.0
    ends_after_s: float = 0.0
    act: str = ""
    ends_others: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """level: DANGER, WARNING, HELD, or CALM for what explains and needs nobody. chip: the state in two or three words,
    with its sign.

    title: the finding as a sentence with its figures. text: the evidence, and what can be done. also: the title in half
    a sentence, for a channel with a graver finding; "" where that adds nothing. client_key, client_name: the consumer
    that the finding is about, message_id: the message; 0 and "" for none.
    """

    kind: Kind
    level: int
    chip: str
    title: str
    text: str
    also: str = ""
    client_key: int = 0
    client_name: str = ""
    message_id: str = ""
