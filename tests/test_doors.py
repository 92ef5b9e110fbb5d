"""The doors' pages: each says what the door imports, as the floors have it, and its example runs as it stands there."""

import doctest
import re
from typing import Any

import pytest

from tests.test_floors import DOORS, MAY_IMPORT, ROOT, door_of


def page_of(door: str) -> str:
    return (ROOT / "queue_engine" / door / "README.md").read_text()


@pytest.mark.parametrize("door", DOORS)
def test_the_page_of_a_door_names_the_doors_that_it_imports_from(door: str) -> None:
    found = re.search(r"^This door imports from (.*?) ?(?:alone|other)\.", page_of(door), re.MULTILINE)
    assert found
    rooms = [package for package in MAY_IMPORT if door_of(package) == door]
    imported = {door_of(one) for package in rooms for one in MAY_IMPORT[package].split()} - {door}
    assert set(re.findall(r"`(\w+)/`", found[1])) == imported


@pytest.mark.parametrize("door", DOORS)
def test_the_example_of_a_door_runs_as_it_stands_on_its_page(door: str) -> None:
    blocks = re.findall(r"<!-- example: door -->\n```python\n(.*?)```\n", page_of(door), re.DOTALL)
    assert len(blocks) == 1
    example = doctest.DocTestParser().get_doctest(blocks[0], {}, door, f"queue_engine/{door}/README.md", 0)
    runner = doctest.DocTestRunner(verbose=False)
    complaints: list[str] = []
    result = runner.run(example, out=complaints.append)
    assert result.attempted > 1
    assert (result.failed, "".join(complaints)) == (0, "")


def test_programs_of_spark_import_from_one_place_whose_names_stay() -> None:
    """Installed, `queue_engine/lake/pyspark_penstock.py` is the module `pyspark_penstock`."""
    names: dict[str, Any] = {}
    exec("from queue_engine.lake.pyspark_penstock import *", names)
    assert names.keys() - {"__builtins__"} == {"DefaultSource", "make_session"}
    assert names["DefaultSource"].name() == "penstock"
    with pytest.raises(TypeError, match="scratch"):
        names["make_session"]("questions")
