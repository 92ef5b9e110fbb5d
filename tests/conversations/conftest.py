"""A running engine with the options that a conversation needs."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.running_engine import RunningEngine


@pytest.fixture
def start_engine(tmp_path: Path) -> Iterator[Callable[..., RunningEngine]]:
    """Starts an engine with the given options; it stops when the test ends."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(RunningEngine(tmp_path / "data", **options))


@pytest.fixture
def engine(start_engine: Callable[..., Any]) -> RunningEngine:
    """An engine as it comes, but for names and sizes that do not matter."""
    running: RunningEngine = start_engine()
    return running
