"""The cache of pages: one page for all users of a role within one live state; each user's own parts are filled in.

A cached page has marks in place of the name, the clock, the form token and the age of the figures. It belongs to one
live state of the hub and goes with it. Every act makes all pages anew.
"""

import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.messages import get_messages
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.utils.html import escape

from admin_console.hub.hub import get_hub
from admin_console.screens.build import Request
from admin_console.views.chrome import chrome, clock_of
from admin_console.vocabulary.units import duration

# No user text can contain these: each process makes its own, and no answer shows them.
_USER, _CLOCK, _TOKEN, _AGE_MS, _AGE = (f"mark{secrets.token_hex(16)}" for _ in range(5))
_MARKS = re.compile(f"({_USER}|{_CLOCK}|{_TOKEN}|{_AGE_MS}|{_AGE})")
# Query fields that a page's Request covers; with any other one, the page is made for that user alone.
_FIELDS = {
    "overview": frozenset({"q", "show", "sort", "number", "draw"}),
    "clients": frozenset({"q", "show", "sort", "number"}),
    "nodes": frozenset({"q", "show", "sort", "number"}),
    "topic": frozenset({"sort"}),
    "topics": frozenset({"q", "show", "sort", "number", "by", "under"}),
}


# For one live state; more searches than that are made for each user alone.
_PAGES_MAX = 200


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page as its template made it. taken_at_ms: the moment of its figures, Unix."""

    html: str
    status: int
    taken_at_ms: int


@dataclass(frozen=True, slots=True)
class _CachedPage:
    parts: list[str]  # text, mark, text, mark … text
    taken_at_ms: int
    basis: object


def cached_page(
    request: HttpRequest, page_request: Request, basis: object, make: Callable[[Mapping[str, Any]], Rendered]
) -> HttpResponse:
    """The page from the cache, or as `make` makes it.

    basis: the page's source beside the hub's live state; another object is another page. make: renders the
    page with this context over its own.
    """
    live = get_hub().live
    if (
        live is None
        or not request.GET.keys() <= _FIELDS.get(page_request.page, frozenset())
        or len(get_messages(request))
    ):
        rendered = make({})
        return HttpResponse(rendered.html, status=rendered.status)
    key = ("page", page_request, get_hub().act_count)
    cached = live.derived.get(key)
    if isinstance(cached, _CachedPage) and cached.basis is basis:
        return HttpResponse(_filled(cached, request))
    rendered = make(_marked(request))
    cached = _CachedPage(_MARKS.split(rendered.html), rendered.taken_at_ms, basis)
    if rendered.status == 200 and len(live.derived) < _PAGES_MAX:
        live.derived[key] = cached
    return HttpResponse(_filled(cached, request), status=rendered.status)


def age_text(age_ms: int) -> str:
    return f"{duration(age_ms / 1000)} old"


def _marked(request: HttpRequest) -> dict[str, Any]:
    return {
        "chrome": chrome(request)["chrome"] | {"user_name": _USER, "clock": _CLOCK, "typed_by": ""},
        "csrf_token": _TOKEN,
        "messages": (),
        "age_ms": _AGE_MS,
        "age_text": _AGE,
    }


def _filled(cached: _CachedPage, request: HttpRequest) -> str:
    age_ms = max(0, time.time_ns() // 1_000_000 - cached.taken_at_ms)
    values = {
        _USER: escape(request.user.get_username()),
        _CLOCK: clock_of(request),
        _TOKEN: get_token(request),
        _AGE_MS: str(age_ms),
        _AGE: age_text(age_ms),
    }
    return "".join(values.get(part, part) for part in cached.parts)
