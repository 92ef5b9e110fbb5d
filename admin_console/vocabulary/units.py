"""Numbers as text: thousands separated, units beside, "–" for unknown.

Large numbers are shortened from ten million on; the caller puts the exact value beside them (`exact`).
"""

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from queue_engine.vocabulary.byte_sizes import UNKNOWN as UNKNOWN
from queue_engine.vocabulary.byte_sizes import byte_count as byte_count

MINUS = "−"
_FULL_TO = 9_999_999
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_FIGURE_AND_UNIT = re.compile(
    r"(?<=[0-9]) (?=(?:%|ms|s|min|h|days|B|[KMGT]iB|[kMGT])(?![0-9A-Za-z]))|(?<=[0-9][mhd]) (?=[0-9]{2}[smh])"
)


def number(value: float | None) -> str:
    """A count: 1,204,118, then 12.3 M."""
    if value is None:
        return UNKNOWN
    if abs(value) <= _FULL_TO:
        return f"{value:,.0f}".replace("-", MINUS)
    for size, letter in _SCALES:
        if abs(value) >= size:
            return f"{value / size:,.1f} {letter}".replace("-", MINUS)
    raise AssertionError("a number above the last full one has a scale")


def total(counts: Iterable[int | None]) -> int | None:
    """Unknown where one of them is."""
    listed = list(counts)
    return None if None in listed else sum(one for one in listed if one is not None)


def exact(value: float | None) -> str:
    """The exact count where `number` shortens it, else "": a title that repeats the text is of no use."""
    return "" if value is None or abs(value) <= _FULL_TO else f"{value:,.0f}"


def rate(per_second: float | None) -> str:
    """Messages a second: 5,612/s, 3.4/s, 0.05/s. Never another unit, so that the eye compares two of them."""
    return UNKNOWN if per_second is None else f"{_per_second(per_second)}/s"


def _per_second(value: float) -> str:
    if value >= 9.95:
        return number(round(value))
    text = f"{value:.1f}" if value >= 0.095 else f"{value:.2f}"
    if value and text == "0.00":
        return "<0.01"
    return text.removesuffix(".0").removesuffix(".00")


def growth(per_second: float | None) -> str:
    """A signed rate: +412/s, −3/s, 0/s."""
    if per_second is None:
        return UNKNOWN
    text = rate(abs(per_second))
    if text in ("0/s", "<0.01/s"):
        return "0/s"
    return f"+{text}" if per_second > 0 else f"{MINUS}{text}"


def bare(text: str) -> str:
    """A rate without its unit, for a column whose heading has it."""
    return text.removesuffix("/s")


def per_minute(count: float | None) -> str:
    """A count over the last minute: 318/min."""
    return UNKNOWN if count is None else f"{number(count)}/min"


def duration(seconds: float | None) -> str:
    """Two units at most: 340 ms, 2.5 s, 12 s, 14m 02s, 1h 02m, 6d 02h."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        seconds = 0
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600:02d}h"


def about(seconds: float) -> str:
    """A duration that was worked out from a rate, so not to the second: about 40 s, about 12 min, over a month."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 30 * 86_400:
            return "over a month"
        if seconds >= 2 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {max(1, round(seconds))} s"


def rough(seconds: float) -> str:
    """One unit, for slow figures: 12 s, 42m, 3h, 6d."""
    whole = max(int(seconds), 0)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if whole >= 2 * size or (size == 60 and whole >= size):
            return f"{whole // size}{unit}"
    return f"{whole} s"


def share(part: float, whole: float) -> str:
    """A percentage without false precision: 99 %, 3.1 %. The whole alone is 100 %."""
    if whole <= 0:
        return UNKNOWN
    percent = 100 * part / whole
    if 99.5 <= percent < 100:
        return "99 %"
    return f"{percent:.0f} %" if percent >= 9.95 or not part else f"{percent:.1f} %"


def unbroken(text: str) -> str:
    """The text of a sentence that may wrap, with no line's end between a figure and its unit."""
    return _FIGURE_AND_UNIT.sub("\u00a0", text)


def plural(count: int, noun: str, plural_noun: str = "") -> str:
    """A count and its noun: 1 consumer, 4 consumers."""
    return f"{number(count)} {noun if count == 1 else plural_noun or noun + 's'}"


def moment(unix_ms: int | None) -> str:
    """A moment in UTC to the second: 2026-03-01 14:30:05."""
    if unix_ms is None:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000
