"""Makes dataclasses of the objects in status files, and trusts no value of them."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TEXT_LENGTH_MAX = 4_000
LIST_LENGTH_MAX = 1_000
_NUMBER_END = 1 << 63
_CALLED = {int: "a whole number from 0", float: "a number", str: "a text"}

T = TypeVar("T", bound="DataclassInstance")


def read_fields(kind: type[T], content: Mapping[str, Any]) -> T:
    """The dataclass `kind` of an object: an unknown field is ignored, a missing one takes its default. Long texts and
    lists are cut.

    Its fields are int, float, str, dataclasses of these, perhaps None, or tuples of one of them. Raises ValueError for
    a value that is of another type."""
    given = {one.name: _value(one.name, one.type, content[one.name]) for one in fields(kind) if one.name in content}
    try:
        return kind(**given)
    except TypeError as exc:
        raise ValueError(f"a field is missing: {exc}") from exc


def _value(name: str, hint: Any, value: Any) -> Any:
    if isinstance(hint, UnionType):
        return None if value is None else _value(name, get_args(hint)[0], value)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{name} is not a list")
        return tuple(_value(name, get_args(hint)[0], one) for one in value[:LIST_LENGTH_MAX])
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, dict):
            raise ValueError(f"{name} is not a list of objects")
        return read_fields(hint, value)
    if hint is str and isinstance(value, str):
        return value[:TEXT_LENGTH_MAX]
    if not isinstance(value, bool):
        if hint is float and isinstance(value, int | float):
            return float(value)
        if hint is int and isinstance(value, int) and 0 <= value < _NUMBER_END:
            return value
    raise ValueError(f"{name} is {str(value)[:40]!r}, not {_CALLED[hint]}")
