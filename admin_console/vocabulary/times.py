"""Times of pages, of forms and of links, always UTC; `static/clock.js` shows them in the zone of the page.

A sentence has `units.moment` and the word UTC behind it. A column's head ends with "(UTC)", its cells have
`column_time`.
"""

from datetime import UTC, datetime

from django.utils.html import format_html

from admin_console.vocabulary.units import UNKNOWN, moment


def column_time(unix_ms: int | None) -> str:
    """The HTML of a moment in a column whose head names the zone; "–" for none and for an invalid time."""
    text = moment(unix_ms)
    if text == UNKNOWN:
        return text
    return format_html('<time datetime="{}Z" data-column>{}</time>', text.replace(" ", "T"), text)


def time_of(text: str) -> datetime:
    """The moment of `2026-03-01T14:30` in UTC, or with the zone that it names. Raises ValueError with a sentence."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:40]!r} is not a time such as 2026-03-01T14:30 (UTC).") from None


def field_time(text: str) -> str:
    """A time as a field of a form has it, `2026-03-01T14:30`, to the second where it has seconds; "" for no time."""
    try:
        found = time_of(text)
    except ValueError:
        return ""
    return found.strftime("%Y-%m-%dT%H:%M:%S" if found.second else "%Y-%m-%dT%H:%M")
