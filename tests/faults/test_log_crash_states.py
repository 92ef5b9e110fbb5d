"""The commit log under crash states, and the proof that these would notice what they are there to notice."""

import logging
from collections.abc import Iterator
from random import Random

import pytest

from tests.faults.exploring import PromiseBrokenError, explore
from tests.faults.log_crash_states import Script
from tests.faults.mutants.log import MUTANTS, Mutant
from tests.faults.mutants.store import STORE_MUTANTS
from tests.faults.store_crash_states import StoreScript
from tests.support.disks.simulated_disk import SECTOR_BYTES, SimulatedFiles

# More by hand: see README. Each mutant is found within MUTANT_STATES of them.
STATES = 6_000
STORE_STATES = 3_000
MUTANT_STATES = 5_000
# The first script that meets a mutant, by its seed, where those before it take more than a second of the processor.
MUTANT_SEEDS = {
    "a checkpoint beyond what is synced": 6,
    "queues not synced before a checkpoint": 9,
    "queues not cut at the checkpoint": 10,
    "leases are ignored": 21,
    "a lease is said to be durable at once": 5,
    "progress is said to be synced at once": 4,
    "finished by hand, and still in line": 6,
    "a quarantine is not noted": 8,
    "a redrive is not noted": 13,
    "quarantined messages wait after a start": 8,
    "merged without the quarantined": 8,
}

pytestmark = pytest.mark.slow(reason="tries thousands of crash states")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of full disks and I/O errors have nothing to tell anybody."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(300)
def test_every_promise_of_the_log_holds_in_every_state() -> None:
    tally = explore(Script, STATES, 1)
    assert tally.states == STATES
    assert tally.nested > STATES // 10
    assert len(tally.kinds) == 6, "each policy, after a kill and after a power cut"


@pytest.mark.timeout(300)
def test_every_promise_of_the_whole_store_holds_in_every_state() -> None:
    tally = explore(StoreScript, STORE_STATES, 1)
    assert tally.states == STORE_STATES
    assert tally.nested > STORE_STATES // 10
    assert len(tally.kinds) == 4


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_made_on_purpose_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.apply(monkeypatch)
    with pytest.raises(PromiseBrokenError):
        explore(Script, MUTANT_STATES, 1)


@pytest.mark.parametrize("mutant", STORE_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_made_on_purpose_above_the_log_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.apply(monkeypatch)
    with pytest.raises(PromiseBrokenError):
        explore(StoreScript, MUTANT_STATES, MUTANT_SEEDS.get(mutant.name, 1))


def test_there_are_enough_faults_on_purpose() -> None:
    assert len({mutant.name for mutant in [*MUTANTS, *STORE_MUTANTS]}) >= 20
    assert MUTANT_SEEDS.keys() <= {mutant.name for mutant in STORE_MUTANTS}


# The disk itself.


@pytest.fixture
def disk() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directory("/d")
    return files


def test_what_was_synced_is_left_and_what_was_not_may_be() -> None:
    outcomes: set[bytes | None] = set()
    for seed in range(200):
        files = SimulatedFiles()
        files.make_directory("/d")
        files.write_synced("/d/f", b"a" * 2_000)
        files.sync_directory("/d")
        fd = files.open("/d/f", 2)
        files.write_at(fd, b"b" * 2_000, 0)
        left = files.after_power_cut(Random(seed)).read_whole("/d/f", 9_999)
        assert left is not None
        assert len(left) == 2_000
        outcomes.add(left)
        assert files.after_kill().read_whole("/d/f", 9_999) == b"b" * 2_000
        files.sync(fd)
        assert files.after_power_cut(Random(seed)).read_whole("/d/f", 9_999) == b"b" * 2_000
    assert {b"a" * 2_000, b"b" * 2_000} < outcomes
    torn = outcomes - {b"a" * 2_000, b"b" * 2_000}
    assert all(len(set(one[at : at + SECTOR_BYTES])) == 1 for one in torn for at in range(0, 2_000, SECTOR_BYTES))


def test_names_are_left_when_their_directory_was_synced_and_a_rename_is_both_or_neither() -> None:
    seen: set[tuple[str, ...]] = set()
    for seed in range(200):
        files = SimulatedFiles()
        files.make_directory("/d")
        files.write_synced("/d/old", b"old")
        files.sync_directory("/d")
        files.write_synced("/d/new", b"new")
        files.rename("/d/new", "/d/old")
        left = files.after_power_cut(Random(seed))
        seen.add(tuple(sorted(left.listdir("/d"))))
        assert left.read_whole("/d/old", 9) in (b"old", b"new")
        files.sync_directory("/d")
        assert files.after_power_cut(Random(seed)).contents() == {"/d/old": b"new"}
    assert seen == {("old",), ("new", "old")}


def test_a_killed_process_leaves_what_it_had_not_synced_to_a_power_cut_later(disk: SimulatedFiles) -> None:
    fd = disk.open("/d/f", 0o102)
    disk.write_at(fd, b"x", 0)
    killed = disk.after_kill()
    assert killed.contents() == {"/d/f": b"x"}
    assert {str(killed.after_power_cut(Random(seed)).contents()) for seed in range(50)} > {"{}"}


def test_a_full_disk_writes_short_and_then_not_at_all(disk: SimulatedFiles) -> None:
    fd = disk.open("/d/f", 0o102)
    disk.bytes_free = 5
    assert disk.write_at(fd, b"1234567", 0) == 5
    with pytest.raises(OSError, match="No space"):
        disk.write_at(fd, b"67", 5)
    assert disk.write_at(fd, b"abc", 0) == 3
