"""A part of a Markdown file that is made from the code.

    <!-- generated: NAME -->
    … what the reference makes, an empty line before and behind it …
    <!-- end: NAME -->

What stands between the two lines is replaced as a whole.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

BAR = r"\|"
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Reference:
    """name: of the part. path: of the file, from the top. make: its lines."""

    name: str
    path: str
    make: Callable[[], Iterable[str]]

    def renewed(self, text: str) -> str:
        """The file's text with this part made anew. Raises ValueError where the part is not there once."""
        begin, end = f"<!-- generated: {self.name} -->\n", f"<!-- end: {self.name} -->\n"
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
            raise ValueError(f"{self.path} needs the lines {begin.strip()} and {end.strip()} once, in this order")
        before, _, rest = text.partition(begin)
        _, _, behind = rest.partition(end)
        return "".join((before, begin, "\n", *(f"{line}\n" for line in self.make()), "\n", end, behind))


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    lines = [heading, ["---"] * len(heading), *rows]
    return ["|" + "|".join(f" {cell.replace('|', BAR)} " if cell else " " for cell in line) + "|" for line in lines]


def code(text: str) -> str:
    """`text`, or nothing for none."""
    return f"`{text}`" if text else ""
