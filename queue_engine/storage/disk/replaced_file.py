"""A small file that the worker replaces as a whole, so that a crash leaves the old content or the new one.

Changes that come during a write share the next write.
"""

import logging
from collections.abc import Callable

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files, NameNotSyncedError
from queue_engine.vocabulary.errors import OutcomeUnknownError, StorageError
from queue_engine.vocabulary.ticket import DONE, Ticket

logger = logging.getLogger(__name__)

Composed = tuple[bytes, Callable[[], None]]


class ReplacedFile:
    """Writes one file. Belongs to the engine's thread.

    compose: returns the present content, and a callback for when exactly that is durable. error: why the file is out of
    date; None when it is not, or a write under way will make it so.
    """

    def __init__(
        self,
        path: str,
        compose: Callable[[], Composed],
        *,
        files: Files,
        worker: Background,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        """on_refused: undoes the changes of a failed write; called before their tickets are rejected."""
        self._on_refused = on_refused
        self.path = path
        self.error: StorageError | None = None
        self._compose = compose
        self._files = files
        self._worker = worker
        self._is_writing = False
        self._is_changed = False
        self._unwritten: list[Ticket] = []  # of changes that are not in the write under way

    def save(self) -> Ticket:
        """Write the present state; the ticket is done when it is durable."""
        self._is_changed = True
        ticket = Ticket()
        self._unwritten.append(ticket)
        if not self._is_writing:
            self._write()
        return ticket

    def saved(self) -> Ticket:
        """A ticket that is done when all changes so far are durable; a failed write is tried again."""
        return self.save() if self._is_changed or self._is_writing else DONE

    def note_changed(self) -> None:
        """Note that the state has changed: the next `retry` writes it, or an earlier write."""
        self._is_changed = True

    def retry(self) -> None:
        """Write the state, if a write failed or a change was only noted."""
        if self._is_changed and not self._is_writing:
            self._write()

    def close(self) -> None:
        """Write unwritten changes, in this thread. Raises OSError."""
        if self._is_changed:
            self._files.replace(self.path, self._compose()[0])
            self._is_changed = False

    def _write(self) -> None:
        waiting, self._unwritten = self._unwritten, []
        content, durable = self._compose()
        self._is_writing, self._is_changed = True, False

        def done(error: Exception | None) -> None:
            self._is_writing = False
            if error is None:
                self.error = None
                durable()
                for ticket in waiting:
                    ticket.resolve()
                if self._unwritten and not self._is_writing:
                    self._write()
                return
            self.error = StorageError(f"{self.path} can't be written: {error}")
            logger.error("file not replaced path=%s error=%s", self.path, error)
            self._is_changed = True  # tried again by `retry`
            failed, self._unwritten = [*waiting, *self._unwritten], []
            refusal: StorageError = self.error
            if isinstance(error, NameNotSyncedError):
                refusal = OutcomeUnknownError(
                    f"outcome unknown: {self.path} was replaced, and syncing its directory failed ({error}). The "
                    "server goes on as before it"
                )
            self._on_refused()
            for ticket in failed:
                ticket.reject(refusal)

        BackgroundJob(lambda: self._files.replace(self.path, content), then=done).start(self._worker)
