"""Slow disk work leaves the engine's thread. Each `Background` does its jobs in order and answers through the loop; the
engine has three (`Backgrounds`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Background(Protocol):
    """Runs jobs one after the other away from the engine's thread."""

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run `job` later on the background's thread; then `done(error or None)` on the engine's thread.

        Jobs run in the order they were given. A job touches only what it was given and what it guards by a
        lock; `done` may touch anything of the engine's.
        """
        ...


class InlineBackground:
    """Does the job at once, in the caller's thread: for start, stop and tests."""

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        try:
            job()
        except Exception as exc:
            done(exc)
        else:
            done(None)


@dataclass(frozen=True, slots=True)
class Backgrounds:
    """The threads beside the engine's. disk: for slow disk work. sync: for the log's syncs alone. progress: for
    those of channels' progress."""

    disk: Background
    sync: Background
    progress: Background

    @classmethod
    def of(cls, one: Background) -> "Backgrounds":
        """One that does the work of all."""
        return cls(one, one, one)
