"""Options of one commit log: when it syncs, how large its segments are, how much room it leaves free."""

from dataclasses import dataclass
from enum import StrEnum

FILL_AHEAD_BYTES = 4 << 20


class SyncPolicy(StrEnum):
    """When written records are synced."""

    ALWAYS = "always"  # before a record counts: a power cut loses nothing
    INTERVAL = "interval"  # after so many bytes or milliseconds: a power cut loses that much of the log's end
    OS = "os"  # when a segment is full, and at a clean stop: a kill loses nothing, a power cut all that is unsynced


@dataclass(frozen=True, slots=True)
class LogOptions:
    """sync_interval_ms, sync_interval_bytes: under `interval`, how long and how much may be unsynced. fill_ahead_bytes:
    how far zeros are written ahead under `always`; 0 for none. room_bytes_min: zeros ahead leave this much free, and
    after the disk was full so much must be free before publishing resumes."""

    policy: SyncPolicy
    segment_bytes: int
    sync_interval_ms: int = 0
    sync_interval_bytes: int = 0
    fill_ahead_bytes: int = FILL_AHEAD_BYTES
    room_bytes_min: int = 0
