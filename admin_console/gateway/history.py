"""The history that the pipeline writes into the data directory: which files hold it. Views know no more of the lake."""

from typing import Protocol

from queue_engine.errors import PenstockError
from queue_engine.latency_buckets import value_ms_of
from queue_engine.pipeline.history_files import HistoryFiles

__all__ = ["HistorySource", "HistoryUnreadableError", "LakeHistory", "value_ms_of"]


class HistoryUnreadableError(Exception):
    """There is a history and it can't be read; the text is a sentence for people."""


class HistorySource(Protocol):
    """Where rows of the history are. Any thread.

    directory: the only one that files lie in; it need not exist.
    """

    directory: str

    def files(self, level: str, first_s: int, end_s: int) -> list[tuple[str, int]]:
        """Parquet files of `level` ("minutes", "hours") with windows in [first_s, end_s), Unix seconds.

        Each with the first window of it that counts. Raises HistoryUnreadableError.
        """
        ...

    def extent(self, level: str) -> tuple[int, int] | None:
        """Where a level begins and ends, Unix seconds; None when it holds nothing. Raises HistoryUnreadableError."""
        ...


class LakeHistory:
    """The history in the lake at `lake_path`."""

    def __init__(self, lake_path: str) -> None:
        self._files = HistoryFiles(lake_path)
        self.directory = self._files.directory

    def files(self, level: str, first_s: int, end_s: int) -> list[tuple[str, int]]:
        try:
            return [(str(path), from_s) for path, from_s in self._files.files(level, first_s, end_s)]
        except (PenstockError, OSError) as exc:
            raise HistoryUnreadableError(f"The history can't be read: {exc}.") from exc

    def extent(self, level: str) -> tuple[int, int] | None:
        try:
            return self._files.extent(level)
        except (PenstockError, OSError) as exc:
            raise HistoryUnreadableError(f"The history can't be read: {exc}.") from exc
