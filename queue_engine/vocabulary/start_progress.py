"""Where a start is, for its log, for systemd and for probes."""


class StartProgress:
    """The thread that starts the server sets it, and any thread may read it."""

    def __init__(self) -> None:
        self._place = ("the engine reads its files", 0, 0)

    def at(self, step: str, done: int = 0, total: int = 0) -> None:
        """step: in a few words, with the topic or channel that it is about. done, total: of all such; 0 for unknown."""
        self._place = (step, done, total)

    def sentence(self) -> str:
        """As in "channel orders/billing, 40 %"."""
        step, done, total = self._place
        return f"{step}, {100 * done // total} %" if total else step
