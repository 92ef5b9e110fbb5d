"""A worker that runs its jobs when the test says so; until then jobs and their answers wait."""

from collections import deque
from collections.abc import Callable


class HeldBackground:
    """Keeps the order of `Background`, in one thread, one step at a time."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Callable[[], None], Callable[[Exception | None], None]]] = deque()
        self._answers: deque[tuple[Callable[[Exception | None], None], Exception | None]] = deque()

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs or self._answers)

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._jobs.append((job, done))

    @property
    def is_waiting(self) -> bool:
        """Whether a job waits."""
        return bool(self._jobs)

    def work(self) -> None:
        """Do the oldest job, without telling anybody; nothing when there is none."""
        if self._jobs:
            job, done = self._jobs.popleft()
            try:
                job()
            except Exception as exc:
                self._answers.append((done, exc))
            else:
                self._answers.append((done, None))

    def answer(self) -> None:
        """Tell about the oldest job that was done; nothing when there is none."""
        if self._answers:
            done, error = self._answers.popleft()
            done(error)

    def finish(self) -> None:
        """Do and tell everything, what comes of it included."""
        while self._jobs or self._answers:
            self.work()
            self.answer()
