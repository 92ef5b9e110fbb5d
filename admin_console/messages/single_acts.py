"""The acts on single messages: the words of each act, and the states of messages that it takes."""

from collections.abc import Mapping
from dataclasses import dataclass

from admin_console.messages.states import DEFERRED, FINISHED, IN_FLIGHT, QUARANTINED, WAITING


@dataclass(frozen=True, slots=True)
class SingleAct:
    """name: as in the table of acts. verb: of its button; past: of its result.

    states: of the messages that it is for; the first of them offers it in each row. consequences: sentences.
    asks: it is done only after a question, since it can't be undone; opens: its page has more fields.
    """

    name: str
    verb: str
    past: str
    states: tuple[str, ...]
    consequences: tuple[str, ...]
    asks: bool = False
    opens: bool = False

    @property
    def label(self) -> str:
        return f"{self.verb}…" if self.asks or self.opens else self.verb


_TABLE = (
    SingleAct(
        "requeue_messages",
        "Requeue now",
        "Requeued",
        (IN_FLIGHT,),
        ("It goes back to the queue. It may be processed twice: its consumer may still work on it.",),
    ),
    SingleAct(
        "release_messages",
        "Release now",
        "Released",
        (DEFERRED,),
        ("It is due at once, and goes to the next consumer that has room.",),
    ),
    SingleAct(
        "quarantine_messages",
        "Quarantine",
        "Quarantined",
        (WAITING, IN_FLIGHT, DEFERRED),
        ("It is not delivered until it is redriven. Its offset in the log stays the same.",),
    ),
    SingleAct(
        "redrive_messages",
        "Redrive now",
        "Redrove",
        (QUARANTINED,),
        ("It goes back to the queue of this channel alone, and its attempts are reset.",),
    ),
    SingleAct(
        "publish_again",
        "Publish again",
        "Published again",
        (FINISHED, WAITING, IN_FLIGHT, DEFERRED, QUARANTINED),
        ("A new message with the same body is published. The one that is here stays as it is.",),
        opens=True,
    ),
    SingleAct(
        "finish_messages",
        "Finish",
        "Finished",
        (WAITING, IN_FLIGHT, DEFERRED, QUARANTINED),
        (
            "This channel never delivers it again: the message is lost to its consumers.",
            "Other channels of the topic keep theirs.",
        ),
        asks=True,
    ),
)
SINGLE_ACTS: Mapping[str, SingleAct] = {act.name: act for act in _TABLE}


def acts_in(state: str) -> tuple[SingleAct, ...]:
    """The acts for messages of this state."""
    return tuple(act for act in _TABLE if state in act.states)


def likely_act(state: str) -> str:
    """The act that each row offers."""
    likely = {
        IN_FLIGHT: "requeue_messages",
        DEFERRED: "release_messages",
        QUARANTINED: "redrive_messages",
        FINISHED: "publish_again",
    }
    return likely.get(state, "finish_messages")


def as_sentence(text: str) -> str:
    """A reason, as the engine gives it, as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."
