"""What all tests of the console share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from admin_console.accounts.hashing_queue import hashing
from queue_engine.service.runner import EngineRunner
from tests.support.pages.console import client_of, make_user, orders_engine


@pytest.fixture(scope="session", autouse=True)
def _no_pause_between_log_ins() -> None:
    """Strangers' passwords are hashed one right after the other; the pause has a test with a clock of its own."""
    hashing.strangers_share = 1.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    """Topic orders with the channel billing, and 5 messages; a module that needs another one has its own `engine`."""
    with orders_engine(tmp_path) as runner:
        yield runner


@pytest.fixture
def client(engine: EngineRunner) -> Client:
    """An administrator who is logged in."""
    return client_of(make_user())
