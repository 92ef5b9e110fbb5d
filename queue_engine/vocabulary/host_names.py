"""Host names that a server answers to: single names, and patterns for all names below a domain."""

import re
from collections.abc import Iterable

# A pattern that every host fits.
ANY_HOST = "*"
# NAME, *.DOMAIN for all names below it, .DOMAIN for those and the domain itself, or an IP address.
_PATTERN = re.compile(r"(?:\*?\.)?[A-Za-z0-9_-][A-Za-z0-9._-]*|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?")


def is_host_pattern(text: str) -> bool:
    return text == ANY_HOST or _PATTERN.fullmatch(text) is not None


class HostNames:
    """A set of names and patterns, in any case; a name's last dot counts for nothing."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._endings: list[str] = []  # with their dot
        self.is_any = False
        for given in patterns:
            pattern = given.lower().rstrip(".").removeprefix("[").removesuffix("]")
            if pattern == ANY_HOST:
                self.is_any = True
            elif pattern.startswith("*."):
                self._endings.append(pattern[1:])
            elif pattern.startswith("."):
                self._endings.append(pattern)
                self._names.add(pattern[1:])
            elif pattern:
                self._names.add(pattern)

    def has(self, host: str) -> bool:
        """host: in lower case, without port, brackets and last dot."""
        if self.is_any or host in self._names:
            return True
        return any(host.endswith(ending) and len(host) > len(ending) for ending in self._endings)
