"""When a client gets its heartbeats, and when it has been silent for too long: nsqd's rules, without a timer."""

from queue_engine.vocabulary.clock import NS_PER_MS

# A client may be silent for so many intervals, and gets as many heartbeats in that time.
SILENT_INTERVALS = 2


class Heartbeat:
    """The heartbeats of one connection. Times are monotonic nanoseconds; heard_ns: when bytes last came from the
    client."""

    def __init__(self) -> None:
        self._interval_ns = 0
        self._due_ns = 0
        self._sent_ns = 0  # or when the interval began
        self._unanswered = 0  # sent since the client was heard before them

    def begin(self, interval_ms: int, now_ns: int) -> None:
        """Begin to count, or anew with another interval. interval_ms: 0 for no heartbeats."""
        self._interval_ns = interval_ms * NS_PER_MS
        self._due_ns = now_ns + self._interval_ns
        self._sent_ns = now_ns
        self._unanswered = 0

    @property
    def interval_ns(self) -> int:
        """0: there are no heartbeats, and the client may be silent for ever."""
        return self._interval_ns

    @property
    def due_ns(self) -> int:
        """When the next one is to be sent; 0 for never."""
        return self._due_ns if self._interval_ns else 0

    def is_due(self, now_ns: int, heard_ns: int) -> bool:
        """Whether to send a heartbeat now; counts it as sent. The next is due at its own time, however late this is."""
        if not self._interval_ns or now_ns < self._due_ns:
            return False
        self._unanswered = self._unanswered_since(heard_ns) + 1
        self._sent_ns = now_ns
        self._due_ns += (1 + (now_ns - self._due_ns) // self._interval_ns) * self._interval_ns
        return True

    def is_silent(self, now_ns: int, heard_ns: int) -> bool:
        """Whether the client has been silent for too long."""
        return bool(self._interval_ns) and now_ns - heard_ns > SILENT_INTERVALS * self._interval_ns

    def is_one_missing(self, heard_ns: int) -> bool:
        """Whether a client that has been silent for too long has got one heartbeat less than nsqd sends by then: the
        last one is due with the end."""
        return self._unanswered_since(heard_ns) < SILENT_INTERVALS

    def _unanswered_since(self, heard_ns: int) -> int:
        return self._unanswered if heard_ns <= self._sent_ns else 0
