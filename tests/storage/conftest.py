"""What all storage tests share."""

from collections.abc import Iterator

import pytest

from tests.support.disks.files import close_left_open


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """Tests end processes without closing anything; thousands of them would use up this one's descriptors."""
    yield
    close_left_open()
