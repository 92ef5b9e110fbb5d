"""A finding: one thing that is to be seen in a channel's figures at one moment."""

from dataclasses import dataclass

# Urgency, as levels: losing or in danger, look soon, deliberately held, calm.
DANGER, WARNING, HELD, CALM = 3, 2, 1, 0
TONES = {DANGER: "danger", WARNING: "warning", HELD: "held", CALM: ""}


@dataclass(frozen=True, slots=True)
class Kind:
    """What sort of finding it is.

    begins_after_s: how long it has to be seen, in every snapshot, before the channel is in this state. ends_after_s:
    how long it has to be gone before the channel is not in this state any more. Both 0 for what is a fact and no
    measurement, such as a pause.
    """

    name: str
    begins_after_s: float = 0.0
    ends_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """kind: which. level: DANGER, WARNING or HELD. chip: the state in two or three words, with its sign.

    title: what is seen, as a sentence with its figures. text: the evidence, and what can be done. also: the same in
    half a sentence, for a channel in which something graver is seen; "" where that says nothing new.
    """

    kind: Kind
    level: int
    chip: str
    title: str
    text: str
    also: str = ""
