"""Topic and channel names in paths.

A path's own words begin with `~`, which no name may: `/topics/~create/` is never a topic called create.
"""


class NameConverter:
    """What a topic or channel may be called; `#` of `#ephemeral` travels as %23."""

    regex = r"(?!\.{1,2}(?:/|$))[.a-zA-Z0-9_-]{1,64}(?:#ephemeral)?"

    def to_python(self, value: str) -> str:
        if len(value) > 64:
            raise ValueError(f"{value!r} has more than 64 characters")
        return value

    def to_url(self, value: str) -> str:
        return value
