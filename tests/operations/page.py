"""The operations page as tests read it: its blocks by name, and its table of files."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / ".github" / "OPERATIONS.md"

_NAME = re.compile(r"<!-- recipe: (.+) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of the page. name: what its comment calls it, None without one. above: the line above it."""

    name: str | None
    above: str
    kind: str
    text: str


def blocks() -> list[Block]:
    """All blocks of the page, in its order."""
    found: list[Block] = []
    lines = PAGE.read_text().splitlines()
    number = 0
    while number < len(lines):
        if lines[number].startswith("```"):
            kind = lines[number][3:]
            end = lines.index("```", number + 1)
            above = next(line for line in reversed(lines[:number]) if line)
            match = _NAME.search(above)
            text = "\n".join(lines[number + 1 : end]) + "\n"
            found.append(Block(match[1] if match else None, above, kind, text))
            number = end
        number += 1
    return found


def recipe(name: str) -> str:
    """The text of one recipe. Raises KeyError when the page has none of that name."""
    return {block.name: block.text for block in blocks()}[name]


def file_patterns() -> list[str]:
    """What the page's table of files names, as patterns of `fnmatch`, below the data directory."""
    table = PAGE.read_text().partition("<!-- table: files -->")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return [pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row.split("|")[1])]
