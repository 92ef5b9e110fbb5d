"""The nodes of a boolean expression: a tree in which every node has a kind.

Kinds: number (a double), text (Unicode), boolean, time (UTC, microseconds), and two that are cast to one of those
before they are compared: `bytes` (key and body: a text when they are UTF-8, else null) and `json` (a field of the body,
whose kind its JSON decides: compared with a text it is null unless it is a text). Null is as in SQL: a comparison with
null is null, and an expression that is null does not match.
"""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["number", "text", "boolean", "time", "bytes", "json"]

# Names of fields of objects, and indexes of elements of arrays, from 0.
JsonPath = tuple[str | int, ...]
# The columns that an expression may name, in the order in which errors list them.
COLUMNS: dict[str, Kind] = {
    "topic": "text",
    "offset": "number",
    "message_id": "text",
    "published_at": "time",
    "key": "bytes",
    "body": "bytes",
    "replayed": "boolean",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The texts that number(…) takes: Python's and Spark's own parsers of numbers take different ones.
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
    """A field of the body's JSON; null when the body is not JSON or has no such field."""

    path: JsonPath
    kind: Kind = "json"


@dataclass(frozen=True, slots=True)
class Cast:
    """A `bytes` or `json` value as a kind that can be compared; null when it is not of that kind."""

    value: "Node"
    kind: Kind


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function of FUNCTIONS in `expressions.py`."""

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
    """Whether the value equals one of the constants."""

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


def path_text(path: JsonPath) -> str:
    """A path as a person writes it: body.customer.name, or json("lines[0].sku")."""
    if all(isinstance(part, str) and _NAME.fullmatch(part) for part in path):
        return ".".join(("body", *map(str, path)))
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f'json("{text.removeprefix(".")}")'


def like_pattern(like: str) -> str:
    """The regular expression of a LIKE pattern: % is any characters, _ is one, \\ takes the next one literally.

    Every piece between two % is an atomic group, which takes its first match and never tries another: no text can make
    it try all combinations. (First matches are enough: globs are matched in the same way, without backtracking.)
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
