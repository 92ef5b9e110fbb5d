"""Whether something of a topic has changed since it was last looked at (`kept_reading.py`)."""


class Changes:
    """How often something of a topic or one of its channels changed, but for messages that came and wait. All of them
    share it."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def note(self) -> None:
        self.count += 1
