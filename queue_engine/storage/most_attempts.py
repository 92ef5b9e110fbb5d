"""Which unfinished message of a channel was delivered most often, at a cost that does not depend on the backlog.

It remembers the few messages with the most attempts. When they are finished, another one is noted with its next
delivery: a message of many attempts is soon delivered again.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

REMEMBERED_MAX = 8
# Messages with fewer deliveries are not remembered.
ATTEMPTS_MIN = 3

KeyT = TypeVar("KeyT", bound=Hashable)


class MostAttempts(Generic[KeyT]):
    """Belongs to one channel; keys are its messages."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made: dict[KeyT, int] = {}  # public, so that callers can skip an empty one

    def note(self, key: KeyT, made: int) -> None:
        """A message was delivered `made` times by now."""
        if made < ATTEMPTS_MIN:
            return
        attempts = self.made
        if key not in attempts and len(attempts) == REMEMBERED_MAX:
            least = min(attempts, key=attempts.__getitem__)
            if attempts[least] >= made:
                return
            del attempts[least]
        attempts[key] = made

    def forget(self, keys: Iterable[KeyT]) -> None:
        """These are finished."""
        for key in keys:
            self.made.pop(key, None)

    def forget_range(self, first: KeyT, end: KeyT) -> None:
        """The same of numbers from `first` up to but not including `end`."""
        self.forget([key for key in self.made if first <= key < end])  # type: ignore[operator]

    def forget_all(self) -> None:
        self.made.clear()

    def most(self) -> tuple[KeyT, int] | None:
        """The message that was delivered most often, and how often."""
        return max(self.made.items(), key=lambda entry: entry[1], default=None)
