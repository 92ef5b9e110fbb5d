"""What was done since the hub's newest reading: pages made before an act do not show what it did."""

import itertools


class Changes:
    """Counts acts of the console and of the HTTP API. Any thread."""

    def __init__(self) -> None:
        self.count = 0
        self._numbers = itertools.count(1)

    def note(self) -> None:
        """Something was done."""
        self.count = next(self._numbers)


CHANGES = Changes()
