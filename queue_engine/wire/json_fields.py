"""Reads the JSON object of an answer into the dataclass that describes it."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def fields_of(kind: type, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `kind` that an answer has. Others are left out: a newer engine may add some."""
    return {one.name: answer[one.name] for one in fields(kind) if one.name in answer}
