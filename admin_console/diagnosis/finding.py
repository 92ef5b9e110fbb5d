"""A finding: one problem that a channel's figures show at one moment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

# Urgency, as levels: losing or in danger, look soon, deliberately held, calm.
DANGER, WARNING, HELD, CALM = 3, 2, 1, 0
TONES = {DANGER: "danger", WARNING: "warning", HELD: "held", CALM: ""}


@dataclass(frozen=True, slots=True, eq=False)
class FindingKind:
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


class Sentences(NamedTuple):
    """chip: the state in two or three words, with its sign. title: the finding as a sentence with its figures. text:
    the evidence, and remedies. also: the title in half a sentence, for a channel with a graver finding; ""
    where that adds nothing.
    """

    chip: str
    title: str
    text: str
    also: str = ""


class Finding:
    """level: DANGER, WARNING, HELD, or CALM for findings that explain and need no act. client_key, client_name: the
    consumer that the finding is about, message_id: the message; 0 and "" for none.

    make_sentences: called when a page first shows one of them. Each second thousands of channels may have findings,
    and pages show a few. It depends only on figures of the finding's own second, so that it may run later.
    """

    __slots__ = ("_make_sentences", "_sentences", "client_key", "client_name", "kind", "level", "message_id")

    def __init__(
        self,
        kind: FindingKind,
        level: int,
        make_sentences: Callable[[], Sentences],
        *,
        client_key: int = 0,
        client_name: str = "",
        message_id: str = "",
    ) -> None:
        self.kind = kind
        self.level = level
        self.client_key = client_key
        self.client_name = client_name
        self.message_id = message_id
        self._make_sentences: Callable[[], Sentences] | None = make_sentences
        self._sentences: Sentences | None = None

    def settle(self) -> Sentences:
        """Make the sentences, once, and let the figures go. Any thread: two threads at once make the same sentences."""
        make_sentences = self._make_sentences
        if make_sentences is not None:
            self._sentences = make_sentences()
            self._make_sentences = None
        assert self._sentences is not None, "the sentences are there before their maker goes"
        return self._sentences

    @property
    def is_settled(self) -> bool:
        """Whether its sentences were made."""
        return self._make_sentences is None

    @property
    def chip(self) -> str:
        return self.settle().chip

    @property
    def title(self) -> str:
        return self.settle().title

    @property
    def text(self) -> str:
        return self.settle().text

    @property
    def also(self) -> str:
        return self.settle().also
