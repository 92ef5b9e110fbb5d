"""A boolean expression as a Python function of one message. Means what `columns.py` means to Spark."""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn

from queue_engine.lake.expression.expressions import Expression
from queue_engine.lake.expression.nodes import (
    NUMBER_TEXT,
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Comparison,
    Constant,
    IsNull,
    JsonField,
    JsonPath,
    Kind,
    Like,
    Membership,
    Node,
    Not,
    Or,
)

Row = Mapping[str, Any]
_Value = Callable[[Row], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US_PER_HOUR = 3_600_000_000
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def row_predicate(expression: Expression) -> Callable[[Row], bool]:
    """Whether a message matches. It is given by column name: offset int, published_at an aware datetime, key and body
    bytes, replayed bool; key may be None."""
    value = _value_of(expression.root)
    return lambda row: value(row) is True


def _value_of(node: Node) -> _Value:
    match node:
        case Constant(value=constant):
            return lambda row: constant
        case Column(name=name, kind=kind):
            return partial(_column, name, kind)
        case JsonField(path=path):
            return partial(_json_field, path)
        case Cast(value=inner, kind=kind):
            return partial(_as, _value_of(inner), inner.kind, kind)
        case Call(function=function, arguments=arguments):
            return partial(_call, _FUNCTIONS[function], [_value_of(one) for one in arguments])
        case Arithmetic(operator=operator, left=left, right=right):
            return partial(_arithmetic, operator, _value_of(left), _value_of(right))
        case Comparison(operator=operator, left=left, right=right):
            return partial(_call, _COMPARE[operator], [_value_of(left), _value_of(right)])
        case Membership(value=inner, options=options):
            held = frozenset(option.value for option in options)
            return partial(_call, held.__contains__, [_value_of(inner)])
        case Like(value=inner, pattern=pattern):
            matches = re.compile(pattern).match
            return partial(_call, lambda text: matches(text) is not None, [_value_of(inner)])
        case IsNull(value=inner):
            is_there = _value_of(inner)
            return lambda row: is_there(row) is None
        case Not(operand=operand):
            return partial(_call, lambda value: not value, [_value_of(operand)])
        case And(operands=operands):
            return partial(_series, False, [_value_of(one) for one in operands])
        case Or(operands=operands):
            return partial(_series, True, [_value_of(one) for one in operands])


def _column(name: str, kind: Kind, row: Row) -> Any:
    value = row[name]
    if kind == "number":
        return float(value)
    if kind == "time":
        since = value - _EPOCH
        return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return value


def _call(function: Callable[..., Any], arguments: list[_Value], row: Row) -> Any:
    """Null when one of the arguments is."""
    values = [argument(row) for argument in arguments]
    return None if None in values else function(*values)


def _series(settles: bool, operands: list[_Value], row: Row) -> bool | None:
    """`and` (settled by False) and `or` (by True) of three values."""
    is_unknown = False
    for operand in operands:
        value: bool | None = operand(row)
        if value is settles:
            return settles
        is_unknown = is_unknown or value is None
    return None if is_unknown else not settles


def _arithmetic(operator: str, left: _Value, right: _Value, row: Row) -> float | None:
    a, b = left(row), right(row)
    if a is None or b is None:
        return None
    if operator == "/":
        result = a / b if b else math.nan
    else:
        result = a + b if operator == "+" else a - b if operator == "-" else a * b
    return result if math.isfinite(result) else None


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _as(value: _Value, is_now: Kind, kind: Kind, row: Row) -> Any:
    found = value(row)
    if found is None:
        return None
    if is_now == "bytes":
        return _utf8(found)
    if kind == "text":
        return found if isinstance(found, str) else None
    if kind == "boolean":
        return found if isinstance(found, bool) else None
    return _finite(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _finite(number: float | str) -> float | None:
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _json_field(path: JsonPath, row: Row) -> Any:
    found = _parsed(row["body"])
    for part in path:
        if isinstance(part, int):
            found = found[part] if isinstance(found, list) and part < len(found) else None
        else:
            found = found.get(part) if isinstance(found, dict) else None
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _parsed(body: bytes) -> Any:
    """The JSON that a body begins with; None when it is none. As with Spark, a name that stands twice in one object
    makes it none, and what follows behind it is not looked at."""
    text = _utf8(body)
    if text is None:
        return None
    try:
        return _DECODER.raw_decode(text.lstrip(" \t\r\n"))[0]
    except (ValueError, RecursionError):
        return None


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return _finite(value) if NUMBER_TEXT.fullmatch(value) else None
    return _finite(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _date(time_us: int) -> str:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).date().isoformat()


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lower": str.lower,
    "upper": str.upper,
    # Bytes of key or body, characters of a text.
    "length": lambda value: float(len(value)),
    "contains": lambda text, part: part in text,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "number": _number,
    "hour": lambda time_us: float(time_us // _US_PER_HOUR % 24),
    "date": _date,
}
