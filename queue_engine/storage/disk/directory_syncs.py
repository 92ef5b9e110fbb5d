"""Syncs of one directory, shared: one sync makes durable all names that changed before it began."""

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.ticket import Ticket


class DirectorySyncs:
    """Belongs to the engine's thread; the background syncs. A topic with thousands of channels removes as many files,
    and needs a few syncs of their directory."""

    def __init__(self, directory: str, files: Files, background: Background) -> None:
        self.directory = directory
        self._files = files
        self._background = background
        self._waiting: Ticket | None = None  # of the sync that the background has not begun

    def sync(self) -> Ticket:
        """Done when all names that are changed now are durable. Rejected with the plain OSError of the system."""
        if self._waiting is not None:
            return self._waiting
        ticket = self._waiting = Ticket()

        def run() -> None:
            # From here on names may change that this sync misses: a call that comes later begins another one.
            if self._waiting is ticket:
                self._waiting = None
            self._files.sync_directory(self.directory)

        BackgroundJob(run, then=lambda error: ticket.reject(error) if error else ticket.resolve()).start(
            self._background
        )
        return ticket
