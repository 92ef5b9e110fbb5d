"""Reads an answer of /metrics: Prometheus' text format."""

import re
from dataclasses import dataclass, field

_LINE = re.compile(r'([a-z_]+)(\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)+\})? (-?[0-9.e+-]+|\+Inf)\Z')


@dataclass
class Figures:
    """kinds, helps: by family. values: by the line's name and labels, as written."""

    kinds: dict[str, str] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def of(self, name: str) -> dict[str, float]:
        """The labels, as written, and the value of each sample of that name."""
        found = {key.partition("{"): value for key, value in self.values.items()}
        return {labels: value for (own, _, labels), value in found.items() if own == name}

    @property
    def names(self) -> set[str]:
        """Of all samples."""
        return {key.partition("{")[0] for key in self.values}


def read_exposition(body: bytes) -> Figures:
    """Raises AssertionError for a line that is not well formed, twice there, or of no family that was begun."""
    figures = Figures()
    text = body.decode()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, text = line.split(" ", 3)
            assert name not in figures.helps, line
            figures.helps[name] = text
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in figures.kinds, line
            figures.kinds[name] = kind
        else:
            found = _LINE.match(line)
            assert found, line
            key = found[1] + (found[2] or "")
            assert key not in figures.values, line
            family = re.sub("_(bucket|sum|count)$", "", found[1])
            assert found[1] in figures.kinds or figures.kinds.get(family) == "histogram", line
            figures.values[key] = float(found[3])
    assert figures.kinds.keys() == figures.helps.keys()
    return figures
