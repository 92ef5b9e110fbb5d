"""A JSON body as a tree that folds without a script: nested <details>, every text escaped.

Numbers stay as they were written, and so does a key that stands twice: the page shows the body as it was published.
"""

import json
from dataclasses import dataclass
from typing import Any

from django.utils.html import escape

from admin_console.messages.visible import visible

NODES_MAX = 200  # of one tree in a list: a page has many bodies
WHOLE_NODES_MAX = 5_000  # of one on its own page
DEPTH_MAX = 24


class NotJsonError(Exception):
    """The body is no JSON object or list."""


class _Written(str):
    """A number, true, false or null as the body has it."""


@dataclass(frozen=True, slots=True)
class _Fields:
    """An object: its keys in their order, one that stands twice included."""

    pairs: list[tuple[str, Any]]


def parse(body: bytes) -> Any:
    """The object or list that `body` is. Raises NotJsonError."""
    if body.lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
        raise NotJsonError
    try:
        return json.loads(
            body.decode(),
            parse_int=_Written,
            parse_float=_Written,
            parse_constant=_no_constant,
            object_pairs_hook=_Fields,
        )
    except (ValueError, RecursionError) as exc:
        raise NotJsonError from exc


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def tree_html(parsed: Any, nodes_max: int = NODES_MAX) -> str:
    """The value that `parse` returned as HTML, its texts escaped: at most `nodes_max` nodes, DEPTH_MAX levels."""
    return f'<div class="json">{_Tree(nodes_max).node("", parsed, 0)}</div>'


class _Tree:
    def __init__(self, nodes_max: int) -> None:
        self._left = nodes_max

    def node(self, name: str, value: Any, depth: int) -> str:
        """name: the field that it is the value of, as HTML with its colon."""
        self._left -= 1
        if not isinstance(value, (_Fields, list)):
            return f"<p>{name}{_leaf(value)}</p>"
        is_object = isinstance(value, _Fields)
        members = value.pairs if isinstance(value, _Fields) else [("", one) for one in value]
        count = f"{len(members):,} {'field' if is_object else 'item'}{'' if len(members) == 1 else 's'}"
        signs = "{}" if is_object else "[]"
        if not members:
            return f"<p>{name}{signs}</p>"
        head = f"{name}{signs[0]} <small>{count}</small> {signs[1]}"
        if depth >= DEPTH_MAX:
            return f"<p>{head}, not shown: level {depth + 1}</p>"
        parts = []
        for index, (key, member) in enumerate(members):
            if self._left <= 0:
                parts.append(f"<p><small>{len(members) - index:,} more, not shown in the tree</small></p>")
                break
            parts.append(self.node(f"<b>{_text(key)}</b>: " if is_object else "", member, depth + 1))
        return f"<details open><summary>{head}</summary><div>{''.join(parts)}</div></details>"


def _leaf(value: Any) -> str:
    if isinstance(value, _Written):
        return f'<span class="json-number">{escape(value)}</span>'
    if isinstance(value, str):
        return f'<span class="json-text">{_text(value)}</span>'
    word = "null" if value is None else str(value).lower()
    return f'<span class="json-word">{word}</span>'


def _text(text: str) -> str:
    return escape(visible(json.dumps(text, ensure_ascii=False)))
