"""Unexpected errors, which are bugs: described in a sentence, logged once with a traceback, shown while they last.

An error in one topic or channel fences it (`delivery/fences.py`). The other errors, in a background loop or a callback
of the engine, are noted here: the engine goes on, and its health reports them.
"""

import logging
import os
import traceback

from queue_engine.vocabulary.clock import NS_PER_S, Clock

logger = logging.getLogger(__name__)

# A fault that did not happen again for so long is over.
LASTS_NS = 60 * NS_PER_S
_TEXT_MAX = 300


def describe(error: BaseException) -> str:
    """Describe an unexpected exception: its type, where it was raised, and its text."""
    text = " ".join(str(error).split())[:_TEXT_MAX]
    where = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        where = f" at {os.path.basename(frame.f_code.co_filename)}:{line} in {frame.f_code.co_name}"
    return f"{type(error).__name__}{where}{': ' if text else ''}{text}"


class Faults:
    """The unexpected errors of one engine's loops and callbacks. Belongs to the engine's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lasting: dict[str, tuple[str, int]] = {}  # failed work → the sentence, and when it happened last

    def note(self, work: str, error: BaseException) -> None:
        """`work` failed, such as "the scan for timeouts". The traceback is logged unless the same lasts already."""
        now_ns = self._clock.monotonic_ns()
        sentence = f"{work} failed unexpectedly: {describe(error)}"
        last_sentence, met_ns = self._lasting.get(work, ("", 0))
        if last_sentence != sentence or now_ns - met_ns > LASTS_NS:
            logger.error("%s; it is tried again", sentence, exc_info=error)
        self._lasting[work] = sentence, now_ns

    def ended(self, work: str) -> None:
        """`work` succeeded."""
        if self._lasting:
            self._lasting.pop(work, None)

    @property
    def error(self) -> str | None:
        """The first fault that lasts; None when none does."""
        if self._lasting:
            now_ns = self._clock.monotonic_ns()
            for sentence, met_ns in self._lasting.values():
                if now_ns - met_ns <= LASTS_NS:
                    return sentence
        return None
