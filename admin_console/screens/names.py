"""Where a name may break: after `.`, `/`, `-` and `_`, and within a part only where that is longer than any word. An
IPv4 address stays whole."""

import re
from functools import lru_cache

from django.template import Library
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

PART_LENGTH_MAX = 24  # a longer part is no word: it may break after each PIECE characters
PIECE = 8

_PARTS = re.compile(r"\d+(?:\.\d+){3}(?::\d+)?|[^./_-]*[./_-]+|[^./_-]+")
_BREAK = SafeString("<wbr>")

register = Library()


@register.filter
@lru_cache(maxsize=8_192)
def breakable(name: str) -> SafeString:
    """`name` as HTML, with a `<wbr>` wherever it may break. Styles keep it whole elsewhere (`.name`, h1)."""
    pieces: list[str] = []
    for part in _PARTS.findall(name):
        step = PIECE if len(part) > PART_LENGTH_MAX else len(part)
        pieces += [part[at : at + step] for at in range(0, len(part), step)]
    return format_html_join(_BREAK, "{}", ((piece,) for piece in pieces))
