"""Whether something of a topic has changed since it was last looked at, for `/stats`, which keeps what it read."""


class Changes:
    """How often something of a topic or one of its channels changed. The topic, its channels and its store share it.

    count: but for messages that came and wait, and for what `stored_count` has. stored_count: what its store has for
    it, whatever the cause: messages that came, what waits at the topic, what a channel about to be opened or the trash
    needs, and where it begins.
    """

    __slots__ = ("count", "stored_count")

    def __init__(self) -> None:
        self.count = 0
        self.stored_count = 0

    def note(self) -> None:
        self.count += 1

    def note_stored(self) -> None:
        self.stored_count += 1
