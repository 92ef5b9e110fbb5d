"""Threads for slow disk work. Each `Background` runs its jobs in order and reports their ends on the engine's thread,
through its loop; the engine has three (`Backgrounds`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Background(Protocol):
    """Runs jobs one after the other away from the engine's thread."""

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run `job` later on the background's thread; then `done(error or None)` on the engine's thread.

        Jobs run in the order of `submit`. A job touches only its own objects and those guarded by a lock; `done` may
        touch anything of the engine's. `BackgroundJob.start` alone calls this.
        """
        ...


class InlineBackground:
    """Runs each job at once, in the caller's thread: for start, stop and tests."""

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        try:
            job()
        except Exception as exc:
            done(exc)
        else:
            done(None)


@dataclass(frozen=True, slots=True)
class Backgrounds:
    """The threads beside the engine's. disk: slow disk work. sync: the log's syncs alone. progress: the syncs of
    channels' progress."""

    disk: Background
    sync: Background
    progress: Background

    @classmethod
    def of(cls, one: Background) -> "Backgrounds":
        """All three as one background."""
        return cls(one, one, one)
