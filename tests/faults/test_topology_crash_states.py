"""Ends at every step of writing what exists: a sample in CI, more by `python -m tests.faults.topology_crash_states`."""

import errno
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from queue_engine.engine.topology import change_log
from queue_engine.engine.topology.change_log import RETRY_NS, ChangeLog
from queue_engine.engine.topology.files import TopologyFiles
from queue_engine.engine.topology.topology import largest_msg_size_raised, numbers_reserved
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.vocabulary.errors import TopologyError
from tests.faults.exploring import PromiseBrokenError, explore
from tests.faults.topology_crash_states import DIRECTORY, TopologyScript, names_on
from tests.support.disks.simulated_disk import SimulatedFiles

STATES = 6_000
OLD_FILE = Path(__file__).parent.parent / "storage" / "fixtures" / "topology_v1.json"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow(reason="tries thousands of crash states")
def test_a_start_finds_what_is_in_force_after_an_end_at_any_step() -> None:
    assert explore(TopologyScript, STATES, 1).states == STATES


def test_it_notices_a_change_that_is_told_before_it_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedFiles, "sync_data", lambda self, fd: None)
    with pytest.raises(PromiseBrokenError):
        explore(TopologyScript, STATES, 1)


def test_it_notices_an_unknown_outcome_that_is_told_as_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "OutcomeUnknownError", change_log.TopologyError)
    with pytest.raises(PromiseBrokenError):
        explore(TopologyScript, STATES, 1)


def test_the_first_start_after_an_upgrade_may_end_at_any_step() -> None:
    files = SimulatedFiles.holding({f"{DIRECTORY}/topology.json": OLD_FILE.read_bytes()})
    before, rng = names_on(files), Random(1)
    steps: list[str] = []

    def judge(step: str) -> None:
        steps.append(step)
        for disk in (files.after_kill(), *(files.after_power_cut(rng) for _ in range(20))):
            again = ChangeLog(DIRECTORY, disk, InlineBackground())
            again.read()
            again.begin([])
            assert names_on(disk) == before, step

    files.before_operation = judge
    log = ChangeLog(DIRECTORY, files, InlineBackground())
    log.read()
    log.begin([numbers_reserved(1_000)])
    assert len(before) == 2
    assert steps.count("rename") >= 3


@pytest.mark.parametrize("nth", [1, 2, 3], ids=["sync before", "write", "sync"])
def test_what_a_start_promises_is_on_the_disk_once_it_takes_it(nth: int) -> None:
    files = SimulatedFiles()
    files.make_directory(DIRECTORY)
    log = ChangeLog(DIRECTORY, files, InlineBackground())
    log.read()
    log.begin([])
    log.abandon()

    steps: list[str] = []

    def refuse(step: str) -> None:
        steps.append(step)
        if len(steps) == nth:
            raise OSError(errno.EIO, step)

    log = ChangeLog(DIRECTORY, files, InlineBackground())
    log.read()
    files.before_operation = refuse
    with pytest.raises(TopologyError):
        log.begin([numbers_reserved(1_000), largest_msg_size_raised(5_000)])
    files.before_operation = lambda step: None
    log.tick(RETRY_NS)
    assert log.error is None
    state = TopologyFiles(DIRECTORY, files.after_kill()).read().state
    assert (state.next_number, state.largest_msg_size) == (1_000, 5_000)
