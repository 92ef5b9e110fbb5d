"""Durations as nsqd writes them: 60s, 1m30s, 500ms."""

import re

_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_NS_PER_UNIT = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration as nsqd writes it: "60s", "1m30s", "500ms", "1.5h", "0".

    Raises ValueError, naming the text, for anything else, another bare number included: its unit would be a guess.
    """
    if text == "0":
        return 0
    position = 0
    total_ns = 0.0
    while position < len(text):
        part = _DURATION_PART.match(text, position)
        if part is None:
            break
        total_ns += float(part[1]) * _NS_PER_UNIT[part[2]]
        position = part.end()
    if not text or position != len(text):
        raise ValueError(f"{text!r} is not a duration such as 60s, 500ms or 1m30s")
    return round(total_ns / 1_000_000)


def format_duration(value_ms: int) -> str:
    """The shortest exact form of a duration: 60000 → "1m", 1500 → "1500ms"."""
    for unit, size_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if value_ms and value_ms % size_ms == 0:
            return f"{value_ms // size_ms}{unit}"
    return f"{value_ms}ms"
