"""One thing has one name on all pages: what they say is read from the sources, and the words that were left stay away.

Names of the HTTP API, of fields and of columns stay as they are: what has a capital or a space in it is for people.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from admin_console.permissions.table import ACTS

ROOT = Path(__file__).parents[2]
DOORS = ("", "accounts", "audit", "pacing", "views")
SPOKEN = ("screens", "views", "messages", "message_views", "diagnosis", "gateway", "history", "audit")
# Word that is not said → what is said, with what it may stand beside.
UNSAID = {
    r"\bclients?\b(?! librar)": "consumer",
    r"\bwaiting\b": "depth",  # Waiting, with a capital, is the state of a message
    r"\bmessages? waits?\b": "the depth is",
    r"\b[Ss]eek": "rewind",
    r"\b[Mm]ov\w+ (?:a |the )?channels?\b|\b[Mm]ove to\b": "rewind, not move",
    r"(?i)\b(?:is (?:that|this) meant|see what it means)\b": "Confirm, and Preview",
    r"\btakes? publishes\b|\bPublishing works\b": "accepting messages",
    r"\bmessages a second\b|\bAt most so many\b": "messages/s",
    r"\b[Oo]ld messages\b|\bbeen due for\b": "the oldest message is 15m 19s old",
    r"\bstands? out\b|\bno single one\b": "none of them most",
    r"\bengine OK\b": "every message is finished",
    r"\bof lost connections\b": "more from lost connections",
    r"\bleast to most\b": "lowest to highest value",
    r"\busual order\b": "default order",
    r"\b[Cc]hain of hashes\b": "no row was changed",
    r"\bsays something else\b": "a file of it is damaged",
    r"\bkeep\s+of the log\b": "the size of the log",
    r"\b[Ss]omebody\b|\b[Nn]obody\b": "a user, an operator",
    r"\bWhat (?:is|was|has|one|you|waits|fails|happened)\b": "messages, by their state",
    r"\b(?:made|counted|written) anew\b": "created again, reset",
    r"\bthis look\b|\bevery look\b": "every view",
    r"\b[Ff]or want of\b|\bof then\b|\bstands? beside\b": "for lack of, from that time",
}
OF_ANYBODY = "NSQ client"  # of producers and consumers


def of_code(path: Path) -> Iterator[tuple[int, str]]:
    """What code says to people: its strings without docstrings, of several words or one with a capital."""
    tree = ast.parse(path.read_text())
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in documentation:
            continue
        if re.search(" |^[A-Z][a-z]*$", node.value) and "SELECT" not in node.value:
            yield node.lineno, node.value


def of_template(path: Path) -> Iterator[tuple[int, str]]:
    """The words between tags, and those of attributes that are read."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = re.sub(r"{%.*?%}|{{.*?}}|{#.*?#}", " ", line)
        for attribute in re.findall(r'(?:title|aria-label|placeholder|label)="([^"]*)"', line):
            yield number, attribute
        yield number, re.sub(r"<[^>]*>", " ", line)


def of_script(path: Path) -> Iterator[tuple[int, str]]:
    """Strings with a space in them, without comments."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for text in re.findall(r'"([^"]* [^"]*)"|`([^`]* [^`]*)`', line.partition("// ")[0]):
            yield number, text[0] or text[1]


def of_readme(path: Path) -> Iterator[tuple[int, str]]:
    """The prose about users and acts, behind the tables of modules. A client may be anybody's there, of TCP or HTTP."""
    text = path.read_text()
    prose = re.sub(r"^\| `\w+\.py` \|.*$|`[^`]*`|\bclients?\b", " ", text, flags=re.MULTILINE)
    yield from enumerate(prose.splitlines(), 1)


@cache
def spoken() -> list[tuple[str, str]]:
    """(place, text) of everything that a page can say."""
    console = ROOT / "admin_console"
    found = [(path, of_code(path)) for name in SPOKEN for path in sorted((console / name).rglob("*.py"))]
    found += [(path, of_template(path)) for path in sorted((ROOT / "templates").rglob("*.html"))]
    found += [(path, of_script(path)) for path in sorted((ROOT / "static").glob("*.js"))]
    found += [(path, of_readme(path)) for path in (console / name / "README.md" for name in DOORS)]
    # Whose role does not cover an act reads its verb, and the audit list has all of it.
    found.append((console / "permissions/table.py", ((0, act.replace("_", " ")) for act in ACTS)))
    return [(f"{path.relative_to(ROOT)}:{number}", text) for path, texts in found for number, text in texts]


def test_the_sources_are_read() -> None:
    texts = [text for _, text in spoken()]
    for said in ("Rewind to", "Acts ▾", "The server did not answer. Nothing was done.", "Oldest message"):
        assert any(said in text for text in texts), said


def test_one_thing_has_one_name_on_all_pages() -> None:
    found = [
        f"{place}: {text.strip()!r}: say {said}"
        for unsaid, said in UNSAID.items()
        for place, text in spoken()
        if re.search(unsaid, text.replace(OF_ANYBODY, ""))
    ]
    assert not found, "\n".join(found)
