"""A real worker thread behind `Background`, whose answers wait until the test's own thread fetches them."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

_Done = Callable[[Exception | None], None]


class WorkerThread:
    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], None], _Done] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[_Done, Exception | None]] = SimpleQueue()
        self._waiting = 0
        self._thread = threading.Thread(target=self._run, name="worker of a test")
        self._thread.start()

    def submit(self, job: Callable[[], None], done: _Done) -> None:
        self._waiting += 1
        self._jobs.put((job, done))

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, done = entry
            try:
                job()
            except Exception as exc:
                self._answers.put((done, exc))
            else:
                self._answers.put((done, None))

    def answer(self) -> None:
        """Tell about what is done so far."""
        while not self._answers.empty():
            self._answer_one()

    def _answer_one(self) -> None:
        done, error = self._answers.get(timeout=30)
        self._waiting -= 1
        done(error)

    def stop(self) -> None:
        """Finish everything, tell it, and end the thread."""
        while self._waiting:
            self._answer_one()
        self._jobs.put(None)
        self._thread.join(30)
        assert not self._thread.is_alive()
