"""Whether the engine's next turn has something to do."""

from collections.abc import Callable


class NextTurn:
    """The one object that knows whether work waits. Deliveries, publishes and the log request a turn here.

    is_requested: something waits for a turn. has_log_work: some of it is the log's, which writes it at the turn's end.
    on_work: called when a turn is requested and none was before.
    """

    __slots__ = ("_on_work", "has_log_work", "is_requested")

    def __init__(self, on_work: Callable[[], None] = lambda: None) -> None:
        self.is_requested = False
        self.has_log_work = False
        self._on_work = on_work

    def request(self) -> None:
        """Something waits for a turn."""
        if not self.is_requested:
            self.is_requested = True
            self._on_work()

    def request_log_work(self) -> None:
        """Something waits for the log to write it at the turn's end."""
        if not self.has_log_work:
            self.has_log_work = True
            self.request()
