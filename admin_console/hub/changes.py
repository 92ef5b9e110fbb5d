"""Counts acts. A page that was made before an act does not show what the act did, and is made anew."""

import itertools


class Changes:
    """Counts acts of the console and of the HTTP API. Any thread."""

    def __init__(self) -> None:
        self.count = 0
        self._numbers = itertools.count(1)

    def note(self) -> None:
        """An act was done."""
        self.count = next(self._numbers)


CHANGES = Changes()
