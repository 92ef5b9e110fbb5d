"""A body in each form: text, JSON tree, hex. At first 4 KiB of it, then as much as a page bears."""

from dataclasses import dataclass

from django.utils.html import format_html

from admin_console.messages import json_tree
from admin_console.messages.visible import visible

FORMS = ("auto", "text", "json", "hex")
SHOWN_BYTES_MAX = 4_096  # of one body in a list
WHOLE_BYTES_MAX = 262_144  # of one body on its own page; the rest is a download away
PREVIEW_CHARACTERS_MAX = 160
_HEX_LINE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Body:
    """A body as a page shows it. form: text, json or hex; html: the body in it, escaped; preview: one line of it;
    cut: which part is shown, "" for all of it; size: of the whole body, in bytes."""

    form: str
    html: str
    preview: str
    cut: str
    size: int


def shown(body: bytes, form: str = "auto", *, bytes_max: int = SHOWN_BYTES_MAX, size: int | None = None) -> Body:
    """`body` in `form`; auto is JSON where it is an object or a list, else text, else hex.

    size: of the whole body where `body` is only its beginning.
    """
    whole = len(body) if size is None else size
    head = body[:bytes_max]
    is_whole = len(head) == whole
    cut = "" if is_whole else f"the first {len(head):,} of {whole:,} bytes"
    if form in ("auto", "json") and is_whole:
        try:
            parsed = json_tree.parse(body)
        except json_tree.NotJsonError:
            pass
        else:
            nodes_max = json_tree.NODES_MAX if bytes_max == SHOWN_BYTES_MAX else json_tree.WHOLE_NODES_MAX
            return Body("json", json_tree.tree_html(parsed, nodes_max), _preview(body.decode()), cut, whole)
    text = _text(head, is_whole=is_whole)
    if form == "hex" or (form == "auto" and text is None):
        return Body("hex", _pre(hex_lines(head), "body hex"), _preview(head.decode("utf-8", "replace")), cut, whole)
    if text is None:
        text = head.decode("utf-8", "replace")
    return Body("text", _pre(visible(text)), _preview(text), cut, whole)


def _text(head: bytes, *, is_whole: bool) -> str | None:
    """The text that `head` is, None where it is none. A character that the cut has halved is left away."""
    try:
        return head.decode()
    except UnicodeDecodeError as exc:
        if is_whole or exc.start < len(head) - 3 or exc.reason != "unexpected end of data":
            return None
        return head[: exc.start].decode()


def _pre(text: str, css: str = "body") -> str:
    # A line feed right behind the tag is not shown by browsers: this one stands in for the body's own.
    return format_html('<pre class="{}" tabindex="0">\n{}</pre>', css, text)


def _preview(text: str) -> str:
    line = " ".join(text[: PREVIEW_CHARACTERS_MAX * 2].split())
    return visible(line[:PREVIEW_CHARACTERS_MAX]) + ("…" if len(line) > PREVIEW_CHARACTERS_MAX else "")


def hex_lines(body: bytes) -> str:
    """Offset, bytes and signs of 16 bytes a line, as hexdump -C writes them."""
    lines = []
    for start in range(0, len(body), _HEX_LINE_BYTES):
        piece = body[start : start + _HEX_LINE_BYTES]
        signs = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        lines.append(f"{start:08x}  {piece.hex(' '):<{_HEX_LINE_BYTES * 3}} {signs}")
    return "\n".join(lines)
