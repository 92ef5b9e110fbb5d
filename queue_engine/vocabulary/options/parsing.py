"""The value of an option from its text on the command line or in the environment."""

import re
from dataclasses import fields
from typing import Any

from queue_engine.vocabulary.options.durations import parse_duration_ms
from queue_engine.vocabulary.options.options import Options

# The most that 64 bits hold: beyond it no option makes sense, and its sum with another would not fit the files.
_NUMBER_MAX = (1 << 63) - 1
_DIGITS_MAX = 40


def parse_option(field_name: str, text: str) -> Any:
    """The value of a field from its text on the command line or in the environment.

    Raises ValueError with a sentence that names the text. A list is comma-separated.
    """
    spec = next(spec for spec in fields(Options) if spec.name == field_name)
    if field_name.endswith("_ms"):
        return parse_duration_ms(text)
    if spec.type is bool:
        return parse_bool(text)
    if spec.type is int:
        if not re.fullmatch(r"-?[0-9]+", text):
            raise ValueError(f"{text!r} is not a whole number")
        if len(text.lstrip("-")) > _DIGITS_MAX or abs(int(text)) > _NUMBER_MAX:
            raise ValueError(
                f"{text[:40]} is beyond {'' if text[0] != '-' else '-'}{_NUMBER_MAX}, the most any option takes"
            )
        return int(text)
    if spec.type is str:
        return text
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    return tuple(map(_parse_float, parts)) if spec.type == tuple[float, ...] else parts


def _parse_float(text: str) -> float:
    if not re.fullmatch(r"[0-9]{0,19}\.?[0-9]{1,19}", text):
        raise ValueError(f"{text!r} is not a number such as 0.99")
    return float(text)


def parse_bool(text: str) -> bool:
    """Raises ValueError with a sentence that names the text."""
    if text.lower() in ("true", "1", "yes", "on"):
        return True
    if text.lower() in ("false", "0", "no", "off"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")
