"""For tests whose files are on the disk where those of others are in memory: they kill real servers, or measure them.

A sync of the disk takes milliseconds, in which a kill falls between what was written and what was acknowledged; one in
memory takes none. A test file has the fixture, or the conftest of a folder:

    tmp_path_factory = disk_files.tmp_path_factory
"""

import copy
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.run_costs import ON_DISK


@pytest.fixture(scope="session")
def tmp_path_factory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pytest.TempPathFactory]:
    """What makes `tmp_path` here. Where the run has its files on the disk anyway, it is that of all tests."""
    place = os.environ.get(ON_DISK)
    if place is None:
        yield tmp_path_factory
        return
    directory = Path(tempfile.mkdtemp(prefix="penstock-tests-", dir=place)).resolve()
    factory = copy.copy(tmp_path_factory)
    factory._basetemp = directory
    yield factory
    if not request.session.testsfailed:
        shutil.rmtree(directory, ignore_errors=True)
