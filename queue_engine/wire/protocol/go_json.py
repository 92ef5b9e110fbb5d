"""Reads a JSON object's fields as Go's encoding/json does, so that a client gets nsqd's answer to every body.

- Keys match in any case; of several spellings the last one counts. A null leaves the value before it.
- Bytes that are not UTF-8, and halves of surrogate pairs, become U+FFFD.
- A body of null alone is an object without fields.
- A byte order mark, NaN and Infinity are errors, also in fields that the server does not read.
- Whole numbers have no fraction and no exponent, and fit the field's bits.

It differs from Go in one point: values nested deeper than some 900 levels are an error, in Go deeper than 10,000.
"""

import codecs
import json
import re
from typing import Any

_INT64_BITS = 64
_KELVIN_AND_LONG_S = str.maketrans({"\u212a": "k", "\u017f": "s"})  # Go folds them, too
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonError(ValueError):
    """The body is no JSON object, or a field has another type; Go's decoder fails at it, too."""


class _Pairs(list[tuple[str, Any]]):
    """An object, as its fields stand."""


class _Number(str):
    """A whole number, as it stands: digits, perhaps behind a minus."""

    __slots__ = ()


class JsonObject:
    """The fields of one object. The methods read a field of one type; a missing or null field is empty. They raise
    JsonError for a field of another type."""

    def __init__(self, body: bytes) -> None:
        """Raises JsonError for a body that is no object and not null."""
        try:
            document = _DECODER.decode(body.decode("utf-8", "go_json"))
        except (ValueError, RecursionError) as exc:
            raise JsonError(str(exc)) from exc
        if document is not None and not isinstance(document, _Pairs):
            raise JsonError("not an object")
        self._values: dict[str, Any] = {}
        for key, value in document or ():
            if value is not None:
                self._values[key.translate(_KELVIN_AND_LONG_S).lower()] = value

    def integer(self, name: str, bits: int = _INT64_BITS) -> int:
        number = self._value(name, _Number, _Number())
        if not number:
            return 0
        # Python refuses to read thousands of digits.
        value = int(number) if len(number.lstrip("-0")) < 20 else 1 << bits
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise JsonError(f"{name} has more than {bits} bits")
        return value

    def text(self, name: str) -> str:
        return _SURROGATE.sub("\ufffd", self._value(name, str, ""))

    def boolean(self, name: str) -> bool:
        value: bool = self._value(name, bool, False)
        return value

    def _value(self, name: str, kind: type, empty: Any) -> Any:
        value = self._values.get(name, empty)
        if type(value) is not kind:
            raise JsonError(f"{name} is {type(value).__name__}")
        return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end  # one for each byte, as Go


codecs.register_error("go_json", _replace)
_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_int=_Number, parse_constant=_refuse)
