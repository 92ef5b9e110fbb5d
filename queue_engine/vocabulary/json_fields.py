"""Reads the fields of a JSON object, each with its type checked. The module that stores such an object draws it."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def object_of(document: object, name: str) -> Mapping[str, Any]:
    """Raises ValueError, with a sentence that begins with `name`."""
    if not isinstance(document, dict):
        raise ValueError(f"{name} is {document!r} and not an object")
    return document


def text_of(document: Mapping[str, Any], key: str) -> str:
    """ "" for none. Raises ValueError."""
    text = document.get(key, "")
    if not isinstance(text, str):
        raise ValueError(f"{key} is {text!r} and not a text")
    return text


def number_of(document: Mapping[str, Any], key: str, default: int = 0) -> int:
    """A whole number from 0 up. Raises ValueError."""
    number = document.get(key, default)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{key} is {number!r} and not a number from 0 up")
    return number


def fields_of(kind: type, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the dataclass `kind` that an answer has. Others are left out: a newer engine may add some."""
    return {one.name: answer[one.name] for one in fields(kind) if one.name in answer}
