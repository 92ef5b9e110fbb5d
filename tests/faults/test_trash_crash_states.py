"""Ends at every step of emptying, deleting and restoring: a sample in CI, more by
`python -m tests.faults.trash_crash_states`."""

import logging
from collections.abc import Iterator

import pytest

from queue_engine.storage.progress.journal_entries import JournalEntries
from queue_engine.storage.progress.trashed_channels import TrashedChannels
from tests.faults.exploring import PromiseBrokenError, explore
from tests.faults.trash_crash_states import TrashScript

STATES = 150


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow(reason="starts an engine for each of many crash states")
def test_what_is_not_finished_comes_back_exactly_after_an_end_at_any_step() -> None:
    assert explore(TrashScript, STATES, 1).states == STATES


@pytest.mark.slow(reason="starts an engine for each of many crash states")
def test_it_notices_a_copy_that_the_journal_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    put = TrashedChannels.put
    monkeypatch.setattr(TrashedChannels, "put", lambda self, one, *, is_new=False: put(self, one))
    with pytest.raises(PromiseBrokenError):
        explore(TrashScript, STATES, 1)


@pytest.mark.slow(reason="starts an engine for each of many crash states")
def test_it_notices_what_is_finished_while_an_emptying_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JournalEntries, "mirror", lambda self, channel, copy: None)
    with pytest.raises(PromiseBrokenError, match="too much"):
        explore(TrashScript, 60, 5)
