"""The scan loop, and limits against exhaustion."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary.options.option import OptionGroup, option
from queue_engine.vocabulary.publish_quota import parse_publish_quota


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ScanOptions(OptionGroup):
    """How deadlines are checked."""

    TITLE = "deadlines"

    # The scan loop: nsqd's shape; channels are picked by earliest deadline instead of at random.
    queue_scan_interval_ms: int = option(100, "how often deadlines are checked", low=1)
    queue_scan_selection_count: int = option(20, "channels handled per pass", low=1)
    queue_scan_dirty_percent: int = option(
        25, "share of a pass that had work, above which another follows", low=0, high=100
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class LimitOptions(OptionGroup):
    """Limits on the topics, channels and connections that clients make."""

    TITLE = "limits against exhaustion"

    max_topics: int = option(10_000, "topics", low=1)
    max_channels_per_topic: int = option(1_000, "channels per topic", low=1)
    max_deferred_per_channel: int = option(1_000_000, "deferred messages per channel: they cost memory", low=0)
    # Two channels of the log at the limit above, or 500 messages of 1 MiB on `diskqueue`, whose bodies are in memory.
    max_deferred_bytes: int = option(
        512 << 20,
        "bytes of memory for deferred messages in all; beyond, DPUB is refused and REQ slows its channel",
        low=0,
    )
    # Messages in flight on `diskqueue` are in memory alone. As much as waits in all memory queues together.
    max_in_flight_bytes: int = option(
        256 << 20, "bytes of messages in flight in all, on diskqueue; beyond, channels wait for FIN", low=0
    )
    publish_quota: tuple[str, ...] = option(
        (),
        "[TOKEN:]TOPICS=MESSAGES[/BYTES]: how much each client may publish a second to the topics of a pattern, such "
        "as orders-*=1000/5000000; with TOKEN, clients with a token of that name (default: no limit)",
    )

    def complaints(self) -> Iterator[str]:
        for text in self.publish_quota:
            try:
                parse_publish_quota(text)
            except ValueError as exc:
                yield f"--publish-quota: {exc}"
