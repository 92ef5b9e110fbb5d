"""The history that the pipeline writes into the data directory: which files hold it."""

from typing import Protocol

from queue_engine.lake.history.files import HistoryFiles
from queue_engine.storage.disk.no_follow import refuse_link
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.latency.latency_buckets import value_ms_of

__all__ = ["HistorySource", "HistoryUnreadableError", "LakeHistory", "value_ms_of"]


class HistoryUnreadableError(Exception):
    """The history can't be read; the text is a sentence for users."""


class HistorySource(Protocol):
    """Where rows of the history are. Any thread.

    directory: the only one that files lie in; it need not exist. node: the name of this server's engine in the rows; ""
    without one.
    """

    directory: str
    node: str

    def files(self, level: str, first_s: int, end_s: int) -> list[str]:
        """Parquet files of `level` ("minutes", "hours") with windows in [first_s, end_s), Unix seconds. Raises
        HistoryUnreadableError."""
        ...

    def extent(self, level: str) -> tuple[int, int] | None:
        """Where a level begins and ends, Unix seconds; None when it holds nothing. Raises HistoryUnreadableError."""
        ...


class LakeHistory:
    """The history in the pipeline's directory `path`."""

    def __init__(self, path: str, node: str = "") -> None:
        self.node = node
        self._files = HistoryFiles(path)
        self.directory = self._files.directory

    def files(self, level: str, first_s: int, end_s: int) -> list[str]:
        try:
            found = self._files.files(level, first_s, end_s)
            for one in found:
                refuse_link(one.path)
            return [one.path for one in found]
        except (PenstockError, OSError) as exc:
            raise HistoryUnreadableError(f"The history can't be read: {exc}.") from exc

    def extent(self, level: str) -> tuple[int, int] | None:
        try:
            return self._files.extent(level)
        except (PenstockError, OSError) as exc:
            raise HistoryUnreadableError(f"The history can't be read: {exc}.") from exc
