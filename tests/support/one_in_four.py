"""A pytest plugin: of each test file one test in four runs, the first among them.

For the newest Python of the machine, once the oldest has run all tests. What another Python changes is in its library
and in the packages that are built for it: an import, a call, an event loop, the text of an error. Such a change fails
every test that comes by, not one case of many, and some test of every file comes by here.
"""

from collections import Counter
from pathlib import Path

import pytest

ONE_IN = 4


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of those that other options have chosen."""
    seen = Counter[Path]()
    chosen, left = [], []
    for item in items:
        (left if seen[item.path] % ONE_IN else chosen).append(item)
        seen[item.path] += 1
    config.hook.pytest_deselected(items=left)
    items[:] = chosen
