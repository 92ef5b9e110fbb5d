"""Fences: a topic or channel in which something fails unexpectedly stops, and nothing else does.

Such an error is a bug, which may show at every try: nothing is tried until an operator asks for it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from queue_engine.vocabulary.errors import FencedError, StorageError
from queue_engine.vocabulary.faults import describe

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fence:
    """reason: one sentence: the step that failed, and the error. at_ns: Unix."""

    reason: str
    at_ns: int


class Fenced(Protocol):
    """A topic or channel. title: such as "channel orders/billing"."""

    fence: Fence | None

    @property
    def title(self) -> str: ...


class Fences:
    """The fenced topics and channels of one engine. time_ns: the wall clock."""

    def __init__(self, time_ns: Callable[[], int]) -> None:
        self._time_ns = time_ns
        self._fenced: dict[Fenced, None] = {}

    def stop(self, one: Fenced, doing: str, error: Exception) -> FencedError:
        """Fence `one` because `doing` failed, such as "delivering"; returns the error for the caller of the request.

        The traceback is logged. A fence that exists keeps its reason."""
        if one.fence is None:
            self._put(one, doing, error)
        return refusal(one)

    def stop_anew(self, one: Fenced, doing: str, error: Exception) -> FencedError:
        """The same after a retry failed: the fence gets a new reason, and the log another line."""
        self._put(one, doing, error)
        return refusal(one)

    def _put(self, one: Fenced, doing: str, error: Exception) -> None:
        # A StorageError names the disk's reason itself.
        how = f"failed: {error}" if isinstance(error, StorageError) else f"failed unexpectedly: {describe(error)}"
        one.fence = Fence(f"{doing} {how}", self._time_ns())
        self._fenced[one] = None
        logger.error("%s is fenced: %s", one.title, one.fence.reason, exc_info=error)

    def lift(self, one: Fenced) -> None:
        """Remove the fence of `one`, which goes on or is deleted."""
        if one.fence is not None:
            one.fence = None
            self._fenced.pop(one, None)

    @property
    def error(self) -> str | None:
        """The first, and how many more there are; None when nothing is fenced."""
        first = next(iter(self._fenced), None)
        if first is None or first.fence is None:
            return None
        more = f" (and {len(self._fenced) - 1} more)" if len(self._fenced) > 1 else ""
        return f"{first.title} is fenced{more}: {first.fence.reason}"


def refusal(one: Fenced) -> FencedError:
    """The error that a request to a fenced topic or channel is answered with."""
    assert one.fence is not None
    return FencedError(f"{one.title} is fenced until an operator lets it try again: {one.fence.reason}")
