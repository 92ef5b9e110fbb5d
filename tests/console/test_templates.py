"""Rules of the look that a test can see: nothing inline, an empty state for every list, contrast in both themes."""

import re
from itertools import product

import pytest
from django.conf import settings

TEMPLATES = sorted((settings.BASE_DIR / "templates").rglob("*.html"))
SCRIPTS = sorted((settings.BASE_DIR / "static").glob("*.js"))
STYLES = (settings.BASE_DIR / "static" / "penstock.css").read_text()


def test_templates_have_nothing_inline() -> None:
    for path in TEMPLATES:
        text = path.read_text()
        assert not re.search(r"\sstyle\s*=", text), f"{path}: the policy refuses style attributes"
        assert not re.search(r"<style\b", text), path
        assert not re.search(r"\son[a-z]+\s*=\s*[\"']", text), f"{path}: no handlers in attributes"
        for script in re.findall(r"<script\b[^>]*>", text):
            assert "src=" in script, f"{path}: scripts are files"
        outside = re.search(r"https?://(?!127)", re.sub(r'xmlns="[^"]*"', "", text))
        assert not outside, f"{path}: nothing comes from elsewhere"


def test_lines_of_templates_end_at_160_characters() -> None:
    long = [
        f"{path.name}:{number}: {len(line)}"
        for path in TEMPLATES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 160
    ]
    assert long == []


def test_each_tag_ends_on_its_line() -> None:
    """Django writes one that goes on in the next line to the page, as it stands."""
    texts = [(path.name, line) for path in TEMPLATES for line in path.read_text().splitlines()]
    open_tags = [(name, line) for name, line in texts if re.search(r"\{[{%](?:(?![%}]\}).)*$", line)]
    assert open_tags == []


def test_scripts_set_no_style_attribute_and_fetch_nothing_foreign() -> None:
    for path in SCRIPTS:
        text = path.read_text()
        assert "eval(" not in text, path
        assert not re.search(r"setAttribute\(\s*[\"']style", text), path
        assert not re.search(r"[\"'`](?:https?:)?//", text), path


def test_every_list_has_words_for_when_it_is_empty() -> None:
    for path in TEMPLATES:
        text = path.read_text()
        if '<table class="list"' in text:
            assert re.search(r'class="empty"', text), path


COLOURS = re.findall(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", STYLES)
LIGHT = {name: light for name, light, _ in COLOURS}
DARK = {name: dark for name, _, dark in COLOURS}


def luminance(colour: str) -> float:
    channels = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_each_colour_stands_once_with_a_value_for_each_theme() -> None:
    names = re.findall(r"^ +--([a-z0-9-]+): .*#[0-9a-f]{6}", STYLES, re.MULTILINE)
    assert names == list(LIGHT) == list(dict.fromkeys(names))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_keeps_its_contrast(theme: dict[str, str]) -> None:
    grounds = ("ground", "panel", "sunk")
    pairs = [*product(("ink", "muted", "accent", "danger", "warning", "held", "ok"), grounds)]
    pairs += [(state, f"{state}-ground") for state in ("danger", "warning", "held", "ok")]
    pairs += [("ink", f"{state}-ground") for state in ("danger", "warning", "held", "ok")]
    pairs += [("accent", "danger-ground"), ("accent", "warning-ground"), ("accent", "held-ground")]
    pairs += [("accent-ink", "accent"), ("panel", "danger")]
    weak = {f"{text} on {ground}": round(contrast(theme[text], theme[ground]), 2) for text, ground in pairs}
    assert {name: value for name, value in weak.items() if value < 4.5} == {}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_of_graphs_keep_theirs(theme: dict[str, str]) -> None:
    assert {number for number in range(1, 5) if contrast(theme[f"series-{number}"], theme["panel"]) < 3} == set()
