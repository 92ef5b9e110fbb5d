"""The options of one disk queue: sizes of messages and files, and when it syncs."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiskQueueOptions:
    """sync_every, sync_timeout_ms: messages put and taken, and time, until a sync. pattern: matches the start of every
    message, None without one; serves to find the next message behind damaged bytes."""

    max_bytes_per_file: int
    message_bytes_min: int
    message_bytes_max: int
    sync_every: int
    sync_timeout_ms: int
    pattern: re.Pattern[bytes] | None = None
