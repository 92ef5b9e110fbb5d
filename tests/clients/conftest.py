"""One real server for a test file and a storage kind, and the real lines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import disk_files, storage_kinds
from tests.support.processes.server import ROOT, ServerProcess

tmp_path_factory = disk_files.tmp_path_factory

EARTHQUAKES = ROOT / "tests" / "data" / "earthquakes.jsonl"


@pytest.fixture(scope="session")
def lines() -> list[bytes]:
    """Every line of the real file, without its newline: 1,707 different message bodies."""
    found = EARTHQUAKES.read_bytes().splitlines()
    assert len(found) == len(set(found)) == 1_707
    return found


@pytest.fixture(scope="module", autouse=True)
def storage_kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """The storage kind of the servers, for the file's tests on it one after another."""
    with storage_kinds.chosen(request) as kind:
        yield kind


@pytest.fixture(scope="module")
def server(storage_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that the tests of one file share, for each storage kind; each test uses a topic of its own."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server for a test that stops or kills it."""
    with ServerProcess(tmp_path / "data") as running:
        yield running
