"""Sentences and names say who does it: words that hide the actor are left out of the product, but for those of REASONS.

"It is told what was asked" leaves open who tells, asks and answers. A component reads, returns, stores, reports; a noun
stands for a thing. Headings of tables ("what it is") and questions are no riddles.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("queue_engine", "admin_console", "templates", "static", "pyspark_penstock")
KINDS = {".py", ".md", ".html", ".js", ".css", ".json", ".yaml"}
HIDING = re.compile(r"\b(?:ask|asked|told|known|kept|nobody|whoever|somebody|anybody)\b", re.IGNORECASE)
WHAT = re.compile(r"\bwhat\b(?! (?:it is|each imports)\b)", re.IGNORECASE)
# Of all files: a question, a heading, the object of a verb. It falls; a sentence that needs one more finds one to mend.
WHATS_MAX = 66

# File or folder → words, and why they stay.
REASONS: dict[str, tuple[str, str]] = {
    "queue_engine/lake/replay/": ("known", "a key of the state's file"),
    "queue_engine/service/http/": ("asked known", "keys of answers"),
    "queue_engine/wire/batch.py": ("known", "a key of answers"),
    "queue_engine/service/monitoring/dashboard.json": ("kept", "the title of a panel, by which operators find it"),
    "admin_console/accounts/": ("known", "known browsers, a term that its README defines"),
    "admin_console/gateway/node_requests.py": ("asked", "a key of answers"),
    "admin_console/screens/cursors.py": ("kept", "a column's key in links that users have stored"),
    "admin_console/views/": ("ask", "a field of forms"),
    "templates/acts/_bulk_results.html": ("ask", "a field of forms"),
    "templates/acts/_node_results.html": ("ask", "a field of forms"),
    "templates/partials/by_node.html": ("ask", "a field of forms"),
    "templates/partials/selected.html": ("ask", "a field of forms"),
    "static/selection.js": ("ask", "a field of forms"),
}


def sources() -> list[Path]:
    return [
        path
        for part in PARTS
        for path in sorted((ROOT / part).rglob("*"))
        if path.suffix in KINDS and path.is_file() and "__pycache__" not in path.parts
    ]


def found(pattern: re.Pattern[str]) -> list[tuple[str, int, str]]:
    """File, line and word."""
    return [
        (path.relative_to(ROOT).as_posix(), number, word[0].lower())
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for word in pattern.finditer(line)
    ]


def reason_for(path: str, word: str) -> str | None:
    """The row that lets it stay."""
    return next(
        (place for place, (words, _) in REASONS.items() if path.startswith(place) and word in words.split()), None
    )


def test_no_word_hides_who_does_it() -> None:
    complaints = [f"{path}:{number}: {word}" for path, number, word in found(HIDING) if not reason_for(path, word)]
    assert complaints == []


def test_each_reason_has_its_word() -> None:
    used = Counter(reason_for(path, word) for path, _, word in found(HIDING))
    assert [place for place in REASONS if not used[place]] == []


def test_what_stands_for_a_noun_in_few_sentences() -> None:
    places = [f"{path}:{number}" for path, number, _ in found(WHAT)]
    assert len(places) <= WHATS_MAX, "\n".join(places)


@pytest.mark.parametrize("text", ["It is told.", "Nobody asks.", "kept = 3"])
def test_the_pattern_finds_words_and_names(text: str) -> None:
    assert HIDING.search(text)
