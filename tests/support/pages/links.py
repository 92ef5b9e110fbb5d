"""What a page, a script, a style sheet or an update leads to."""

import json
import re
from html.parser import HTMLParser
from typing import Any

_LEADING = {"href", "src", "srcset", "action", "formaction", "poster", "data-url", "data-plotly", "data-root"}
_IMPORT = re.compile(r"""(?:from|import)\s*\(?["'](\.[^"']+)["']""")
_PATH_IN_SCRIPT = re.compile(r"""["'`](/[A-Za-z~][^"'`]*[/.][^"'`]*)["'`]""")  # not "/s"
_PATH_IN_STYLE = re.compile(r"""url\(\s*["']?([^"')]+)""")
_PATH_IN_UPDATE = re.compile(r"""(?:href|src|action)="([^"]*)\"""")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            # Also what no browser follows by itself: a script may.
            # "/ searches" is about a key.
            if value and (name in _LEADING or (value.startswith("/") and not value.startswith("/ "))):
                self.found.add(value)


def of_page(text: str) -> set[str]:
    """Links, forms, scripts, styles, images, and whatever else in an attribute is a path."""
    page = _Page()
    page.feed(text)
    return page.found


def of_script(text: str) -> set[str]:
    """The modules that it imports, and every text in it that is a path."""
    return {*_IMPORT.findall(text), *_PATH_IN_SCRIPT.findall(text)}


def of_style(text: str) -> set[str]:
    return set(_PATH_IN_STYLE.findall(text))


def of_update(text: str) -> set[str]:
    """Links in the cells of an update or of an answer in JSON, and every text that is a path."""
    return {path for found in _texts(json.loads(text)) for path in _paths_in(found)}


def _paths_in(text: str) -> list[str]:
    return [text] if text.startswith("/") else _PATH_IN_UPDATE.findall(text)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []
