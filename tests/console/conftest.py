"""What all tests of the console share."""

import pytest

from admin_console.accounts.hashing_queue import hashing


@pytest.fixture(scope="session", autouse=True)
def _no_pause_between_log_ins() -> None:
    """Strangers' passwords are hashed one right after the other; the pause has a test with a clock of its own."""
    hashing.strangers_share = 1.0
