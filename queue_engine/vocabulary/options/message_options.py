"""Messages: sizes, times, pauses, quarantine."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary.options.option import OptionGroup, option


@dataclass(frozen=True, init=False, repr=False, eq=False)
class MessageOptions(OptionGroup):
    """Messages, and the pauses of topics and channels."""

    TITLE = "messages"

    msg_timeout_ms: int = option(60_000, "how long a consumer may hold a message", low=1)
    max_msg_timeout_ms: int = option(900_000, "longest time a message may be in flight with TOUCH", low=1)
    max_msg_size: int = option(1 << 20, "largest message body in bytes", low=1, high=1 << 30)
    max_body_size: int = option(5 << 20, "largest command body in bytes", low=1, high=1 << 30)
    # A batch is taken and written in one go, since it is whole or not at all: so many keep others waiting for a tenth
    # of a second. The usual batch has some hundreds; 5 MiB of messages of 27 bytes have as many.
    max_mpub_messages: int = option(200_000, "most messages of one MPUB, /mpub or /log/write", low=1, high=10_000_000)
    # A dozen of the largest at once keep any disk busy; more would only wait in memory.
    max_pending_body_bytes: int = option(
        64 << 20, "bytes of unfinished bodies in all, TCP and HTTP; beyond, reading them waits", low=1
    )
    max_req_timeout_ms: int = option(3_600_000, "longest delay of REQ and DPUB", low=0)

    # An hour: longer than most repairs, shorter than a shift.
    pause_limit_ms: int = option(
        3_600_000, "a pause without an end has outlived its time after so long, which pages and metrics say (0: never)",
        low=0,
    )  # fmt: skip

    def complaints(self) -> Iterator[str]:
        if self.max_msg_size > self.max_body_size:
            yield f"--max-msg-size {self.max_msg_size} is more than --max-body-size {self.max_body_size}"
        if self.msg_timeout_ms > self.max_msg_timeout_ms:
            yield f"--msg-timeout {self.msg_timeout_ms}ms is more than --max-msg-timeout {self.max_msg_timeout_ms}ms"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class QuarantineOptions(OptionGroup):
    """Messages that are set aside."""

    TITLE = "quarantine"

    # Each message costs some 300 bytes of memory, and keeps its segment.
    quarantine_max_count: int = option(
        10_000, "quarantined messages per channel; beyond, messages wait again as without a quarantine", low=1
    )
    quarantine_max_bytes: int = option(
        256 << 20, "bytes of quarantined messages per channel; beyond, messages wait again", low=1
    )
    # For ever would keep the log's segments for ever; a week is long enough to look.
    quarantine_max_age_ms: int = option(
        7 * 24 * 3_600_000, "after how long a quarantined message waits again, attempts anew (0: never)", low=0
    )
