"""Whether something of a topic has changed since it was last looked at, for `/stats`, which keeps what it read."""


class Changes:
    """How often something of a topic or one of its channels changed. The topic, its channels and its store share it.

    count: acts, deliveries and what becomes of them, consumers that come, go or change; not messages that only wait.
    stored_count: what the store has for the topic: messages that came, what waits at the topic itself, where the topic
    begins, and what the trash or a channel that is about to be opened needs of it.
    """

    __slots__ = ("count", "stored_count")

    def __init__(self) -> None:
        self.count = 0
        self.stored_count = 0

    def note(self) -> None:
        self.count += 1

    def note_stored(self) -> None:
        self.stored_count += 1
