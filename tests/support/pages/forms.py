"""The fields that a browser sends with a form, and those of one of its buttons."""

import re
from html import unescape

from tests.support.pages.console import words


def sent(html: str) -> dict[str, list[str]]:
    """The fields that a browser sends with the form."""
    found: dict[str, list[str]] = {}
    for tag in re.findall(r"<input\b[^>]*>", html):
        got = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if got.get("type") in ("hidden", "text") or re.search(r"\bchecked\b", tag):
            found.setdefault(unescape(got["name"]), []).append(unescape(got.get("value", "")))
    return found


def pressed(html: str, label: str) -> tuple[str, dict[str, list[str]]]:
    """The address and the fields of a button of a form."""
    (found,) = [one for one in re.findall(r"<button\b.*?</button>", html, re.DOTALL) if label in words(one)]
    got = dict(re.findall(r'(\w+)="([^"]*)"', found))
    (action,) = re.findall(r'<form\b[^>]*\baction="([^"]*)"', html)
    fields = sent(html)
    if "name" in got:
        fields.setdefault(got["name"], []).append(unescape(got["value"]))
    return unescape(got.get("formaction", action)), fields
