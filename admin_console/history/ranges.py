"""The span of time that a page's graphs show, and the node, as its URL says them.

    ?range=6h                                             a preset, ending now; 15m (live) is meant without any
    ?from=2026-11-20T10:00Z&to=2026-11-20T16:00Z          a span in UTC; without `to` it ends now
    &node=nsq-b2:4151                                     of one node, as its samples name it; of all without it

Times without a zone are taken as UTC: the form of a browser without scripts sends them so.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from admin_console.hub.hub import LiveState

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
PRESETS: Mapping[str, int] = {
    "15m": 15 * MINUTE_S,
    "1h": HOUR_S,
    "6h": 6 * HOUR_S,
    "24h": DAY_S,
    "7d": 7 * DAY_S,
    "30d": 30 * DAY_S,
}
LIVE = "15m"
SPAN_MAX_S = 400 * DAY_S  # the retention of hours
SPAN_MIN_S = MINUTE_S  # of the finest windows
POINTS_MAX = 1_500
# Up to here minutes are read, two or three to a point from a day on; beyond it hours are fine enough.
MINUTES_SPAN_MAX_S = 3 * DAY_S
SHOWN_CHARACTERS = 40
NODE_CHARACTERS_MAX = 300  # a host's name has 253
CLOCK_AHEAD_MAX_S = 2


class RangeError(ValueError):
    """The query is no valid range; the text names the value and the limit."""


@dataclass(frozen=True, slots=True)
class Range:
    """Windows in [first_s, end_s), Unix seconds.

    preset: its name, "" for a span. grows: it ends now, and so goes on with every second. node: "" for all of them
    together. is_live: the last fifteen minutes, a value a second, which no file is read for.
    """

    preset: str
    first_s: int
    end_s: int
    grows: bool
    node: str = ""

    @property
    def is_live(self) -> bool:
        return self.preset == LIVE and not self.node

    @property
    def span_s(self) -> int:
        return self.end_s - self.first_s

    def level(self, hours_only_until_s: int | None = None) -> str:
        """Which files to read. hours_only_until_s: older data is in hours only."""
        is_old = hours_only_until_s is not None and self.first_s < hours_only_until_s
        return "hours" if is_old or self.span_s > MINUTES_SPAN_MAX_S else "minutes"

    def step_s(self, level: str, points_max: int = POINTS_MAX) -> int:
        """Seconds from one point to the next: the least multiple of the level's windows with not too many points."""
        window_s = MINUTE_S if level == "minutes" else HOUR_S
        return window_s * -(-self.span_s // (window_s * points_max))


def now_s(live: LiveState | None) -> int:
    """The end of the current second, or of the newest live one where the engine's clock is a little ahead."""
    second = int(time.time())
    newest = live.second if live and live.second is not None else second
    return max(second, min(newest, second + CLOCK_AHEAD_MAX_S)) + 1


def live_range(now_s: int) -> Range:
    """The last fifteen minutes."""
    return Range(LIVE, now_s - PRESETS[LIVE], now_s, True)


def range_of(fields: Mapping[str, str], now_s: int) -> Range:
    """The range of a URL's query. Raises RangeError."""
    node = fields.get("node", "")
    if len(node) > NODE_CHARACTERS_MAX:
        raise RangeError(f"node {_shown(node)} has more than {NODE_CHARACTERS_MAX} characters.")
    return replace(_span(fields, now_s), node=node)


def _span(fields: Mapping[str, str], now_s: int) -> Range:
    preset, first, end = fields.get("range", ""), fields.get("from", ""), fields.get("to", "")
    if not first and not end:
        return _preset(preset or LIVE, now_s)
    if preset:
        raise RangeError(
            f"range {_shown(preset)} is given together with from or to: give either range, or from and to."
        )
    if not first:
        raise RangeError(f"to {_shown(end)} needs a from.")
    first_s = _time_s("from", first)
    grows = not end
    end_s = now_s if grows else _time_s("to", end)
    if first_s >= now_s:
        raise RangeError(f"from {_shown(first)} lies ahead: it is {worded(now_s)} now.")
    if first_s >= end_s:
        raise RangeError(f"from {_shown(first)} is not before to {_shown(end)}.")
    # The future can't be shown; a browser's clock that is a little fast is no reason to refuse.
    end_s = min(end_s, now_s)
    if end_s - first_s < SPAN_MIN_S:
        raise RangeError(f"from {_shown(first)} is {end_s - first_s} s before the end: the shortest range is 1 minute.")
    if end_s - first_s > SPAN_MAX_S:
        days = (end_s - first_s) / DAY_S
        raise RangeError(f"from {_shown(first)} is {days:,.0f} days before the end: the longest range is 400 days.")
    return Range("", first_s, end_s, grows)


def _preset(name: str, now_s: int) -> Range:
    if name not in PRESETS:
        raise RangeError(f"range {_shown(name)} is not one of {', '.join(PRESETS)}.")
    return Range(name, now_s - PRESETS[name], now_s, True)


def _time_s(name: str, text: str) -> int:
    try:
        if len(text) > SHOWN_CHARACTERS:
            raise ValueError
        moment = datetime.fromisoformat(text)
        # Of the first and the last day of the calendar some zones have hours that UTC does not have.
        in_utc = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(in_utc.timestamp())
    except (ValueError, OverflowError):
        raise RangeError(f"{name} {_shown(text)} is not a time such as 2026-11-20T10:00Z (UTC).") from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")


def url_time(second: int) -> str:
    """A moment as URLs have it: 2026-11-20T10:00Z, with seconds only where there are some."""
    moment = datetime.fromtimestamp(second, UTC)
    return moment.strftime("%Y-%m-%dT%H:%MZ" if second % MINUTE_S == 0 else "%Y-%m-%dT%H:%M:%SZ")


def worded(second: int) -> str:
    """A moment, for pages without a script that converts it to the reader's zone: 2026-11-20 10:00 UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M UTC")
