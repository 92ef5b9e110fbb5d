"""One real server for a test file, and the real lines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ROOT, ServerProcess

EARTHQUAKES = ROOT / "tests" / "data" / "earthquakes.jsonl"


@pytest.fixture(scope="session")
def lines() -> list[bytes]:
    """Every line of the real file, without its newline: 1,707 different message bodies."""
    found = EARTHQUAKES.read_bytes().splitlines()
    assert len(found) == len(set(found)) == 1_707
    return found


@pytest.fixture(scope="module", params=["log", "diskqueue"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that the tests of one file share; each uses a topic of its own."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", options=[f"--storage={request.param}"]) as running:
        yield running


@pytest.fixture(params=["log", "diskqueue"])
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server for a test that stops or kills it."""
    with ServerProcess(tmp_path / "data", options=[f"--storage={request.param}"]) as running:
        yield running
