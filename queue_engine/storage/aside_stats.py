"""The stats of damaged files that were set aside."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AsideStats:
    """The result of the newest scan.

    count, bytes: of the files and directories that are there. oldest_kept_ms: the age of the oldest file that the
    server will remove. retention_ms: the age at which it removes one, 0 for never. removed_count, removed_bytes: since
    the start. error: a sentence on a file that could not be removed or read; "" when nothing failed.
    """

    count: int = 0
    bytes: int = 0
    oldest_kept_ms: int = 0
    retention_ms: int = 0
    removed_count: int = 0
    removed_bytes: int = 0
    error: str = ""
