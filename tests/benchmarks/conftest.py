"""What these tests leave to those that follow in the same process: its limit of descriptors as it was."""

import resource
from collections.abc import Iterator

import pytest

from tests.support import disk_files

tmp_path_factory = disk_files.tmp_path_factory


@pytest.fixture(autouse=True)
def _descriptors_as_before() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
