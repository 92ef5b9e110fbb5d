"""Grants: roles, and the topics of a grant. The same for people in the console and for programs.

A topic pattern is a topic's name in which `*` stands for any characters, also none: `orders.*`, `*.eu`, `*`.
"""

import re
from enum import StrEnum

ALL_TOPICS = "*"
PATTERN_LENGTH_MAX = 74  # a name of 64 with #ephemeral behind it
_PATTERN = re.compile(r"[.a-zA-Z0-9_*-]{1,64}(?:#ephemeral)?")


class Role(StrEnum):
    """viewer reads; operator acts without losing messages; admin also empties and deletes."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, least: "Role") -> bool:
        """Whether this role has the rights of `least`."""
        return _ORDER[self] >= _ORDER[least]


_ORDER = {role: rank for rank, role in enumerate(Role)}


def matches(pattern: str, topic: str) -> bool:
    """Whether the topic's name fits the pattern as a whole; upper and lower case differ."""
    first, *others = pattern.split("*")
    if not others:
        return topic == pattern
    *middle, last = others
    at, end = len(first), len(topic) - len(last)
    if at > end or not topic.startswith(first) or not topic.endswith(last):
        return False
    # Each part at the first place that fits: that leaves the most for the others.
    for part in middle:
        found = topic.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def check_pattern(pattern: str) -> None:
    """Raises ValueError with a sentence for a pattern that no topic's name can match."""
    if not _PATTERN.fullmatch(pattern):
        raise ValueError(
            f"{pattern[:PATTERN_LENGTH_MAX]!r} is not a topic pattern: 1 to 64 of letters, digits and . _ - *, with "
            "#ephemeral behind them where it is wanted"
        )
