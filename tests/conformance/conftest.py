"""One server for the conversations that need nothing special of it, and others with flags of their own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.server import NsqServer, new_name, running

# Starts a server with nsqd's flags; it stops when the test ends.
StartNsq = Callable[..., NsqServer]


@pytest.fixture(scope="package")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NsqServer]:
    with running({}, tmp_path_factory.mktemp("nsq")) as server:
        yield server


@pytest.fixture
def nsq(_shared: NsqServer) -> Iterator[NsqServer]:
    """A server with nsqd's defaults, which other tests use, too."""
    yield _shared
    _shared.close_clients()


@pytest.fixture
def start_nsq(tmp_path: Path) -> Iterator[StartNsq]:
    with ExitStack() as stack:
        numbers = iter(range(1_000))

        def start(data_path: Path | None = None, **flags: str) -> NsqServer:
            """Flags with underscores: `max_msg_size="100"`. data_path: that of a server that has stopped; by default
            a new one."""
            named = {name.replace("_", "-"): text for name, text in flags.items()}
            return stack.enter_context(running(named, data_path or tmp_path / f"data-{next(numbers)}"))

        yield start


@pytest.fixture
def topic() -> str:
    """A topic's name that no other test uses."""
    return new_name()
