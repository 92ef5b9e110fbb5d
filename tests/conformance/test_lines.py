"""The table of lines: each names tests that exist, or a departure that is documented with its reason."""

import ast
from functools import cache
from itertools import chain
from pathlib import Path

from tests.conformance.lines import admin, http, lookup, protocol, queues, side_by_side

TESTS = Path(__file__).resolve().parent.parent
PROTOCOL = TESTS.parent / "queue_engine/wire/protocol/README.md"
SECTIONS = (queues.LINES, protocol.LINES, http.LINES, lookup.LINES, admin.LINES, side_by_side.LINES)
LINES = dict(chain.from_iterable(section.items() for section in SECTIONS))
DEPARTURE = "DEPARTURE "


@cache
def functions_of(path: str) -> frozenset[str]:
    """The tests of a file below tests/."""
    tree = ast.parse((TESTS / path).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def departures() -> frozenset[str]:
    """The first cell of each row of the table of departures."""
    text = PROTOCOL.read_text().partition("## Departures")[2]
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    return frozenset(row.strip("`") for row in rows[1:])


def test_no_line_is_in_two_sections() -> None:
    assert len(LINES) == sum(map(len, SECTIONS))


def test_each_part_has_lines() -> None:
    parts = {"DQ", "CH", "TP", "ND", "PQ", "P2", "P2x", "HT", "ST", "LK", "NA", "SBS", "departure:"}
    assert parts <= {line.split()[0] for line in LINES}


def test_a_line_names_tests_that_exist_or_a_departure() -> None:
    for line, names in LINES.items():
        assert names, line
        for name in names:
            if name.startswith(DEPARTURE):
                assert name.removeprefix(DEPARTURE) in departures(), line
            else:
                path, _, test = name.partition("::")
                assert test in functions_of(path), (line, name)


def test_each_departure_belongs_to_a_line_or_is_our_own() -> None:
    """A row of the table without a line is one that nsqd's tests do not show."""
    assert {name.removeprefix(DEPARTURE) for names in LINES.values() for name in names if name[:9] == "DEPARTURE"} <= (
        departures()
    )
