"""A body as Go's json.Decoder reads it into a struct of texts: its first JSON value, keys in any case, and Go's
sentences for bodies that are wrong, since programs log or compare them. Pure.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

DEPTH_MAX = 500  # of nested lists and objects; Go's is 10,000
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SIGN = re.compile(rb"[+-]?")
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}
_CLOSING = {b"{": b"}", b"[": b"]"}
_BEHIND_VALUE = {b"{": "after object key:value pair", b"[": "after array element"}
_KINDS: Mapping[type, str] = {bool: "bool", dict: "object", list: "array", str: "string"}
_VALUE, _KEY = "looking for beginning of value", "looking for beginning of object key string"


class GoJsonError(ValueError):
    """The text is Go's sentence."""


def texts_in(body: bytes, names: Sequence[str]) -> dict[str, str]:
    """The texts of the named fields; "" for one that is missing or null. Raises GoJsonError."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        # What stands behind the first value is not read, and neither are numbers and bytes that no field takes.
        found = _loose(body[: _Scan(body).end()])
    texts = dict.fromkeys(names, "")
    if found is None:
        return texts
    if not isinstance(found, dict):
        fields = "; ".join(f'{name.capitalize()} string "json:\\"{name}\\""' for name in names)
        raise GoJsonError(f"json: cannot unmarshal {_kind(found)} into Go value of type struct {{ {fields} }}")
    for key, value in found.items():
        name = key.lower()
        if name not in texts or value is None:
            continue
        if not isinstance(value, str):
            raise GoJsonError(f"json: cannot unmarshal {_kind(value)} into Go struct field .{name} of type string")
        texts[name] = value
    return texts


def _loose(value: bytes) -> Any:
    return json.loads(value.decode(errors="replace"), parse_int=lambda _: 0, parse_float=lambda _: 0)


def _kind(value: Any) -> str:
    for of, kind in _KINDS.items():
        if isinstance(value, of):
            return kind
    return "number"


class _Scan:
    """Looks for the end of the first value, with the checks of Go's scanner."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def end(self) -> int:
        """The position behind the value. Raises GoJsonError."""
        if self._next() == b"":
            raise GoJsonError("EOF")
        inside: list[bytes] = []
        while True:
            opened = self._value(inside)
            while not opened:
                if not inside:
                    return self._at
                opened = self._goes_on(inside)

    def _value(self, inside: list[bytes]) -> bool:
        """Reads a value; true for the beginning of a list or an object in which a value follows."""
        begin = self._next()
        if begin in _CLOSING:
            self._at += 1
            inside.append(begin)
            if len(inside) > DEPTH_MAX:
                raise GoJsonError("exceeded max depth")
            if self._next() == _CLOSING[begin]:
                self._at += 1
                inside.pop()
                return False
            if begin == b"{":
                self._key()
            return True
        if begin == b'"':
            self._string()
        elif begin in _LITERALS:
            self._literal(_LITERALS[begin])
        elif begin == b"-" or begin.isdigit():
            self._number()
        else:
            self._refuse(_VALUE)
        return False

    def _goes_on(self, inside: list[bytes]) -> bool:
        """Behind a value: true where another one follows."""
        mark = self._next()
        if mark == b",":
            self._at += 1
            if inside[-1] == b"{":
                self._next()
                self._key()
            return True
        if mark != _CLOSING[inside[-1]]:
            self._refuse(_BEHIND_VALUE[inside[-1]])
        self._at += 1
        inside.pop()
        return False

    def _key(self) -> None:
        if self._byte() != b'"':
            self._refuse(_KEY)
        self._string()
        if self._next() != b":":
            self._refuse("after object key")
        self._at += 1

    def _string(self) -> None:
        self._take(_STRING)
        if self._byte() == b"\\":
            escape = self._take(_ESCAPE)
            self._refuse("in \\u hexadecimal character escape" if len(escape) > 1 else "in string escape code")
        if self._byte() != b'"':
            self._refuse("in string literal")
        self._at += 1

    def _literal(self, word: bytes) -> None:
        for letter in word:
            if self._byte() != bytes([letter]):
                self._refuse(f"in literal {word.decode()} (expecting {_quoted(chr(letter))})")
            self._at += 1

    def _number(self) -> None:
        number = self._take(_NUMBER).lower()
        if not number:
            self._at += 1  # a minus alone
            self._refuse("in numeric literal")
        following = self._byte()
        if b"e" in number:
            return
        if following == b"." and b"." not in number:
            self._at += 1
            self._refuse("after decimal point in numeric literal")
        if following in (b"e", b"E"):
            self._at += 1
            self._take(_SIGN)
            self._refuse("in exponent of numeric literal")

    def _byte(self) -> bytes:
        return self._body[self._at : self._at + 1]

    def _next(self) -> bytes:
        self._take(_SPACE)
        return self._byte()

    def _take(self, pattern: re.Pattern[bytes]) -> bytes:
        found = pattern.match(self._body, self._at)
        taken = found[0] if found else b""
        self._at += len(taken)
        return taken

    def _refuse(self, place: str) -> None:
        byte = self._byte()
        if not byte:
            raise GoJsonError("unexpected EOF")
        raise GoJsonError(f"invalid character {_quoted(byte.decode('latin-1'))} {place}")


def _quoted(letter: str) -> str:
    """As Go's scanner quotes a byte."""
    if letter in "'\\":
        return f"'\\{letter}'"
    named = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}
    if letter in named:
        return f"'\\{named[letter]}'"
    if ord(letter) < 0x20 or letter == "\x7f":
        return f"'\\x{ord(letter):02x}'"
    return f"'{letter}'" if letter.isprintable() else f"'\\u{ord(letter):04x}'"
