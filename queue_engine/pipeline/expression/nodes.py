"""What a boolean expression is made of, once it is read: a small tree in which every node knows its kind.

Kinds: number (a double), text (Unicode), boolean, time (UTC, microseconds), and two that have to become one of those
before they are compared: `bytes` (key and body, text where they are UTF-8, else null) and `json` (a field of the body,
which is what the JSON says it is: compared with a text it is null unless it is a text). Null is as in SQL: unknown,
and what is unknown does not match.
"""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["number", "text", "boolean", "time", "bytes", "json"]

# The columns a person may name, in the order they are told.
COLUMNS: dict[str, Kind] = {
    "topic": "text",
    "offset": "number",
    "message_id": "text",
    "published_at": "time",
    "key": "bytes",
    "body": "bytes",
    "replayed": "boolean",
}
# What a text has to be for number(…), and nothing else: other readers of numbers differ at the edges.
NUMBER_TEXT = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class Constant:
    """value: float, str, bool, or for `time` microseconds since 1970 UTC."""

    value: float | str | bool | int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class JsonField:
    """A field of the body's JSON object; null when the body is no JSON, or has no such field."""

    path: tuple[str, ...]
    kind: Kind = "json"


@dataclass(frozen=True, slots=True)
class Cast:
    """A `bytes` or `json` taken as one of the kinds that can be compared; null where it is not that."""

    value: "Node"
    kind: Kind


@dataclass(frozen=True, slots=True)
class Call:
    """A function of FUNCTIONS in expressions.py."""

    function: str
    arguments: tuple["Node", ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """operator: + - * /. Null when the result is not finite."""

    operator: str
    left: "Node"
    right: "Node"
    kind: Kind = "number"


@dataclass(frozen=True, slots=True)
class Comparison:
    """operator: = != < <= > >=. Both sides are of one kind. Texts are ordered by code points."""

    operator: str
    left: "Node"
    right: "Node"
    kind: Kind = "boolean"


@dataclass(frozen=True, slots=True)
class Membership:
    """Whether the value is one of the constants."""

    value: "Node"
    options: tuple[Constant, ...]
    kind: Kind = "boolean"


@dataclass(frozen=True, slots=True)
class Like:
    """pattern: a regular expression made by like_pattern, for Python and Java alike."""

    value: "Node"
    pattern: str
    kind: Kind = "boolean"


@dataclass(frozen=True, slots=True)
class IsNull:
    value: "Node"
    kind: Kind = "boolean"


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Node"
    kind: Kind = "boolean"


@dataclass(frozen=True, slots=True)
class And:
    """`and`, of two or more."""

    operands: tuple["Node", ...]
    kind: Kind = "boolean"


@dataclass(frozen=True, slots=True)
class Or:
    """`or`, of two or more."""

    operands: tuple["Node", ...]
    kind: Kind = "boolean"


Node = (
    Constant | Column | JsonField | Cast | Call | Arithmetic | Comparison | Membership | Like | IsNull | Not | And | Or
)


def like_pattern(like: str) -> str:
    """The regular expression that says what LIKE says: % any characters, _ one, \\ takes the next one as it is.

    Every piece between two % stands in an atomic group that takes its first place and never tries another: no text can
    make it try all combinations. (First places are enough: that is how globs are matched without going back.)
    Raises ValueError for a \\ before anything but %, _ or \\.
    """
    pieces = [""]
    characters = iter(like)
    for character in characters:
        if character == "\\":
            character = next(characters, "")
            if character not in ("%", "_", "\\"):
                raise ValueError(character)
            pieces[-1] += _literal(character)
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if character == "_" else _literal(character)
    end = r"(?![\s\S])"
    first, *middle, last = pieces if len(pieces) > 1 else [pieces[0], None]
    if last is None:
        return rf"(?s)\A{first}{end}"
    between = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return rf"(?s)\A{first}{between}.*{last}{end}"


def _literal(character: str) -> str:
    return "\\" + character if character in "\\.[]{}()*+-?^$|&#~" else character
