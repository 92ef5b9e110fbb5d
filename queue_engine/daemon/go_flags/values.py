"""A flag's value from its text on the command line, or from a value of TOML. Both raise ValueError with Go's words."""

import re

from queue_engine.daemon.go_flags.flag import FlagType, Value
from queue_engine.vocabulary.options.durations import parse_duration_ms

_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")
_INT = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]+|[1-9][0-9_]*|0)")
_INT_MAX = (1 << 63) - 1
_FLOAT = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")


def from_text(kind: FlagType, text: str) -> Value:
    """The value of one occurrence of a flag; for a list the part that this occurrence adds."""
    match kind:
        case FlagType.BOOL:
            return _bool(text)
        case FlagType.INT:
            return _int(text)
        case FlagType.DURATION:
            return _duration_ms(text)
        case FlagType.TEXT:
            return text
        case FlagType.SWITCH:
            return text.lower()
        case FlagType.TEXTS:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        case FlagType.FLOATS:
            return tuple(_float(part.strip()) for part in text.split(","))


def from_toml(kind: FlagType, found: object) -> Value:
    """A whole number is milliseconds where a duration is expected, as nsqd reads it."""
    if isinstance(found, list):
        if kind is FlagType.TEXTS and all(isinstance(part, str) for part in found):
            return tuple(found)
        if kind is FlagType.FLOATS and all(type(part) in (int, float) for part in found):
            return tuple(map(float, found))
    elif isinstance(found, str):
        return from_text(kind, found)
    elif isinstance(found, bool):
        if kind in (FlagType.BOOL, FlagType.SWITCH):
            return found if kind is FlagType.BOOL else str(found).lower()
    elif isinstance(found, int) and kind in (FlagType.INT, FlagType.DURATION):
        return found
    elif isinstance(found, int | float) and kind is FlagType.FLOATS:
        return (float(found),)
    raise ValueError("invalid value type")


def _bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("parse error")


def _int(text: str) -> int:
    if not _INT.fullmatch(text) or "__" in text or text.endswith("_"):
        raise ValueError("parse error")
    digits = text.lstrip("+-").replace("_", "")
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    value = int(digits, 8) if is_octal else int(digits, 0)
    if value > _INT_MAX:
        raise ValueError("value out of range")
    return -value if text.startswith("-") else value


def _duration_ms(text: str) -> int:
    """Go's form: signs are allowed, which no flag of these daemons wants; the limits of the options refuse them."""
    try:
        value = parse_duration_ms(text.lstrip("+-"))
    except ValueError as exc:
        raise ValueError("parse error") from exc
    return -value if text.startswith("-") else value


def _float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError("parse error")
    return float(text)
