"""A finding: one problem that a channel's figures show at one moment."""

from dataclasses import dataclass

# Urgency, as levels: losing or in danger, look soon, deliberately held, calm.
DANGER, WARNING, HELD, CALM = 3, 2, 1, 0
TONES = {DANGER: "danger", WARNING: "warning", HELD: "held", CALM: ""}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding, and when it becomes a state of the channel.

    begins_after_s: the state begins after every snapshot of this time has shown the finding. ends_after_s: the state
    ends after no snapshot of this time has. Both are 0 for facts, such as a pause, that are no measurement.
    """

    name: str
    begins_after_s: float = 0.0
    ends_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """level: DANGER, WARNING or HELD. chip: the state in two or three words, with its sign.

    title: the finding as a sentence with its figures. text: the evidence, and what can be done. also: the title in half
    a sentence, for a channel with a graver finding; "" where that adds nothing.
    """

    kind: Kind
    level: int
    chip: str
    title: str
    text: str
    also: str = ""
