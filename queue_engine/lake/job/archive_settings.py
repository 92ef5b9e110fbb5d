"""The options of the archive for the worker's command line: where its tables are, and their retention.

Options of `serve`; `queue_engine/vocabulary/options/log_options.py` has their names, limits and defaults.
"""

import argparse
from dataclasses import dataclass

from queue_engine.vocabulary.lake_place import absolute_lake
from queue_engine.vocabulary.options.option import flag_of
from queue_engine.vocabulary.options.options import Options

LAKE = "lake"
RETENTION = "archive_retention_ms"
RETENTION_BYTES = "archive_retention_bytes"
VACUUM = "archive_vacuum_ms"
OPTIONS = (LAKE, RETENTION, RETENTION_BYTES, VACUUM)


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """place: of the tables (--lake); "" for the pipeline's directory. keep_ms, keep_bytes: of topics without limits of
    their own; 0: no limit. vacuum_ms: how long files stay that no longer count."""

    place: str = ""
    keep_ms: int = 0
    keep_bytes: int = 0
    vacuum_ms: int = Options().archive_vacuum_ms

    @classmethod
    def of(cls, given: Options | argparse.Namespace) -> "ArchiveSettings":
        """As options have it, or the command line that they were added to."""
        return cls(*(getattr(given, name) for name in OPTIONS))

    def arguments(self) -> list[str]:
        """As arguments of the worker's command line; the worker does not begin in this process's directory."""
        return [
            f"{flag_of(LAKE)}={absolute_lake(self.place)}",
            f"{flag_of(RETENTION)}={self.keep_ms}ms",
            f"{flag_of(RETENTION_BYTES)}={self.keep_bytes}",
            f"{flag_of(VACUUM)}={self.vacuum_ms}ms",
        ]
