"""How far a stop has come."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopProgress:
    """queues, messages: still to be written to the disk. reason: why the disk refuses; "" while it takes them."""

    queues: int
    messages: int
    reason: str = ""

    def sentence(self) -> str:
        """The rest of the stop, in a few words."""
        left = "the queues are on disk, the log and topology.json are being closed"
        if self.queues:
            left = f"{self.messages} messages of {self.queues} queues are still to be written"
        return f"{left}; the disk refuses, and is tried again: {self.reason}" if self.reason else left
