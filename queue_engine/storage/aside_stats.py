"""The stats of the files that were set aside."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AsideStats:
    """What the newest scan found.

    count, bytes: of the files and directories that are there. oldest_kept_ms: how long the oldest of those that will be
    removed has been kept. retention_ms: how long each is kept, 0 for ever. removed_count, removed_bytes: since the
    start. error: why one could not be removed or looked at, as a sentence; "" when nothing failed.
    """

    count: int = 0
    bytes: int = 0
    oldest_kept_ms: int = 0
    retention_ms: int = 0
    removed_count: int = 0
    removed_bytes: int = 0
    error: str = ""
