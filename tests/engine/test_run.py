"""Runs: how much of one fits in a budget of bytes."""

import pytest

from queue_engine.vocabulary.message import FRAME_HEADER_BYTES
from queue_engine.vocabulary.run import Batch, Run

FRAME_BYTES = FRAME_HEADER_BYTES + 100


@pytest.fixture
def run() -> Run:
    return Batch(1, [b"%016d" % number for number in range(4)], [b"x" * 100] * 4).run()


def test_nothing_fits_in_less_than_the_first_message_and_a_spent_budget_is_no_negative_count(run: Run) -> None:
    for bytes_max in (-(1 << 40), -4 * FRAME_BYTES, -FRAME_BYTES, -1, 0, 1, FRAME_BYTES - 1):
        assert [run.count_within(start, bytes_max) for start in range(4)] == [0] * 4, bytes_max


def test_as_many_fit_as_the_bytes_hold_and_no_more_than_there_are(run: Run) -> None:
    for start in range(4):
        for count in range(1, 4 - start + 1):
            assert run.count_within(start, count * FRAME_BYTES) == count, start
        assert run.count_within(start, 100 * FRAME_BYTES) == 4 - start
