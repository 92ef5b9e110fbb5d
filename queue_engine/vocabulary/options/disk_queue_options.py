"""Disk queues: how much of them is in memory, and when they sync."""

from dataclasses import dataclass

from queue_engine.vocabulary.options.option import OptionGroup, option


@dataclass(frozen=True, init=False, repr=False, eq=False)
class DiskQueueOptions(OptionGroup):
    """Disk queues."""

    TITLE = "disk queues"

    mem_queue_size: int = option(
        10_000,
        "messages in memory per topic and per channel, on diskqueue; one that comes back waits behind at most so many",
        low=0,
    )
    # 10,000 messages of 6 KiB: where those are larger, their bytes decide.
    mem_queue_bytes: int = option(
        64 << 20, "bytes of messages in memory per topic and per channel, on diskqueue", low=0
    )
    # Four full queues. A message that several channels have is counted for each.
    mem_queue_total_bytes: int = option(
        256 << 20, "bytes of messages in memory in all, on diskqueue; beyond, they go to disk", low=0
    )
    max_bytes_per_file: int = option(100 << 20, "bytes per disk queue file before it rolls", low=1 << 10)
    sync_every: int = option(2_500, "disk queue writes per fsync", low=1)
    sync_timeout_ms: int = option(2_000, "longest time between fsyncs of a written disk queue", low=1)
