"""A body in every form: what was published is what is shown, whatever it is, and nothing of it is HTML."""

from html import unescape

import pytest

from admin_console.messages import json_tree
from admin_console.messages.bodies import Body, shown
from admin_console.messages.visible import visible


def text_of(body: Body) -> str:
    """What a browser shows in the <pre>."""
    css = "body hex" if body.form == "hex" else "body"
    return unescape(body.html.removeprefix(f'<pre class="{css}" tabindex="0">\n').removesuffix("</pre>"))


@pytest.mark.parametrize(
    ("body", "form", "shown_form", "text"),
    [
        (b'{"b":1}', "text", "text", '{"b":1}'),
        (b"{broken", "auto", "text", "{broken"),
        (b"{broken", "json", "text", "{broken"),
        (b"7", "auto", "text", "7"),
        (b"\nfirst", "auto", "text", "\nfirst"),
        (b"\xff\x00ab", "auto", "hex", "00000000  ff 00 61 62" + " " * 38 + "..ab"),
        (b"\xffab", "text", "text", "\ufffdab"),
        (b"ab", "hex", "hex", "00000000  61 62" + " " * 44 + "ab"),
        ("é".encode() * 2_100, "auto", "text", "é" * 2_048),
        (b"x" + "é".encode() * 2_100, "auto", "text", "x" + "é" * 2_047),  # the cut halves one
        (b"\xc3", "auto", "hex", "00000000  c3" + " " * 47 + "."),
    ],
)
def test_a_body_is_shown_in_the_form_that_suits(body: bytes, form: str, shown_form: str, text: str) -> None:
    found = shown(body, form)
    assert (found.form, text_of(found)) == (shown_form, text)


def test_a_long_body_is_cut_and_says_so() -> None:
    assert shown(b"x" * 5_000).cut == "the first 4,096 of 5,000 bytes"
    assert shown(b"x" * 4_096).cut == ""
    assert shown(b"x" * 100, size=5_000).cut == "the first 100 of 5,000 bytes"
    # Half a JSON text is none.
    assert shown(b'{"a": [' + b"1," * 3_000 + b"1]}").form == "text"
    assert shown(b'{"a": [' + b"1," * 3_000 + b"1]}", bytes_max=10_000).form == "json"


def test_a_tree_shows_what_was_published_and_not_what_python_makes_of_it() -> None:
    tree = shown(
        b'{"n": 1.10, "big": 12345678901234567890123, "n": 1e999, "t": true, "z": null, "e": [], "s": "a\\"b"}'
    )
    assert tree.form == "json"
    for part in (
        '<b>&quot;n&quot;</b>: <span class="json-number">1.10</span>',
        '<b>&quot;n&quot;</b>: <span class="json-number">1e999</span>',
        "12345678901234567890123",
        '<span class="json-word">true</span>',
        '<span class="json-word">null</span>',
        "[]",
        "&quot;a\\&quot;b&quot;",
        "<summary>{ <small>7 fields</small> }</summary>",
    ):
        assert part in tree.html, part


@pytest.mark.parametrize("body", [b"[NaN]", b"[" * 100_000, b'{"a":', b"[1]]", b'"text"', b"\xff[1]"])
def test_what_is_no_json_is_no_tree(body: bytes) -> None:
    with pytest.raises(json_tree.NotJsonError):
        json_tree.parse(body)


def test_a_tree_has_an_end_in_width_and_depth() -> None:
    wide = json_tree.tree_html(json_tree.parse(b"[" + b"1," * 999 + b"1]"))
    assert wide.count("json-number") == json_tree.NODES_MAX - 1
    assert "801 more, not shown in the tree" in wide
    deep = json_tree.tree_html(json_tree.parse(b"[" * 50 + b"1" + b"]" * 50))
    assert deep.count("<details") == json_tree.DEPTH_MAX
    assert "not shown: level 25" in deep


@pytest.mark.parametrize("form", ["auto", "text", "json", "hex"])
@pytest.mark.parametrize(
    "body",
    [
        b"<script>run()</script>",
        b'{"<img src=x onerror=run()>": "</pre></td><script>run()</script>"}',
        b"</pre><iframe>",
        b"\xff<b>&amp;</b>",
    ],
)
def test_nothing_of_a_body_is_html(body: bytes, form: str) -> None:
    html = shown(body, form).html.lower()
    assert not any(tag in html for tag in ("<script", "<img", "<iframe", "</td", "<b>&amp;</b>")), html


def test_what_can_not_be_seen_is_made_visible() -> None:
    assert visible("a\u202eb\x00\x1b\x7f\ud800\tc\n") == "a⟨202E⟩b␀␛␡⟨D800⟩\tc\n"
    # JSON may write half of a pair, which no answer could carry.
    assert "⟨D800⟩" in shown(b'["\\ud800"]').html
    shown(b'["\\ud800"]').html.encode()
    assert shown(b"a\r\n  b\x00c").preview == "a b␀c"
