"""What is chosen for one commit log: when it syncs, how large its segments are, what it leaves free."""

from dataclasses import dataclass
from enum import StrEnum

FILL_AHEAD_BYTES = 4 << 20


class SyncPolicy(StrEnum):
    """When the system is asked to put what was written on the disk itself."""

    ALWAYS = "always"  # before it counts: safe against a power cut
    INTERVAL = "interval"  # every so many bytes or milliseconds: a power cut costs that much of the end
    OS = "os"  # when a segment is full, and at the end: safe against the end of the process alone


@dataclass(frozen=True, slots=True)
class LogOptions:
    """sync_interval_ms, sync_interval_bytes: under `interval`, how long and how much may be unsynced. fill_ahead_bytes:
    how far zeros are written ahead under `always`; 0 for not. room_bytes_min: what zeros leave free, and what must be
    free, after the disk was full, before anything is taken again."""

    policy: SyncPolicy
    segment_bytes: int
    sync_interval_ms: int = 0
    sync_interval_bytes: int = 0
    fill_ahead_bytes: int = FILL_AHEAD_BYTES
    room_bytes_min: int = 0
