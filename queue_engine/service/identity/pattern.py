"""Regular expressions of auth servers, matched whole, in time that grows with the name's length alone.

RE2 runs them, whose syntax is that of Go, and so of nsqd. Python's own `re` goes back and forth: `(a+)+$` on a name of
64 characters would stop the server for years.
"""

from functools import cache
from typing import Any

LENGTH_MAX = 512
# Of one expression, its automaton included: larger ones are refused.
_BYTES_MAX = 256 << 10


class PatternError(ValueError):
    """The text is no regular expression, or one beyond the limits above. The text says which."""


class Pattern:
    """One expression. Raises PatternError."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise PatternError(f"it has {len(text)} characters and the most is {LENGTH_MAX}")
        self.text = text
        import re2  # here: most servers have no auth server, and each one starts

        try:
            self._compiled = re2.compile(text, _options())
        except (re2.error, UnicodeEncodeError) as exc:
            raise PatternError(str(exc)) from exc

    def matches(self, name: str) -> bool:
        """Whether the whole name fits."""
        return self._compiled.fullmatch(name) is not None


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.max_mem = _BYTES_MAX
    options.log_errors = False
    return options
