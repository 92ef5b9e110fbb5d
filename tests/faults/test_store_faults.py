"""Faults of the disk and damage to files, over the whole log store: a sample of all cases, and what they must cover."""

import logging
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.faults.exploring import PromiseBrokenError
from tests.faults.mutants.log import Mutant
from tests.faults.mutants.store_faults import DAMAGE_MUTANTS, ERROR_MUTANTS
from tests.faults.store_damage import DamageBench
from tests.faults.store_faults import Case, Faults
from tests.support.disks.faulty_disk import FAULT_KINDS, FaultKind, FaultyDisk
from tests.support.disks.simulated_disk import SimulatedFiles

FAULT_CASES = 120
DAMAGE_CASES = 250
MUTANT_CASES = 800
# Of the sample whose first cases meet a mutant, where those of 1 do so after a hundred.
MUTANT_SEEDS = {"want of descriptors ends the journal": 111}

pytestmark = pytest.mark.slow(reason="tries thousands of faults")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Hundreds of full disks, I/O errors and damaged files have nothing to tell anybody."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def faults() -> Faults:
    return Faults()


@pytest.fixture(scope="module")
def cases(faults: Faults) -> list[Case]:
    return list(faults.cases())


@pytest.fixture(scope="module", params=[True, False], ids=["with a checkpoint", "without a checkpoint"])
def bench(request: pytest.FixtureRequest) -> DamageBench:
    return DamageBench(has_checkpoint=request.param)


def run_all(bench: Faults | DamageBench, cases: list[Any]) -> None:
    for case in cases:
        bench.run(case)


# Faults.


def test_the_script_uses_all_that_the_store_has(faults: Faults, cases: list[Case]) -> None:
    names = {path for image in faults.images for path in image.disk.contents()}
    for part in ("/checkpoint", "/holds.json", "/floors", ".index", ".journal", ".queue", "/deferred"):
        assert any(name.endswith(part) for name in names), part
    segments = [{path for path in image.disk.contents() if path.endswith(".log")} for image in faults.images]
    assert segments[0] - segments[-1], "segments were removed"
    journals = {path for path in names if path.endswith(".journal")}
    assert len(journals) > 3, "journals were merged"
    assert {case.kind for case in cases} == set(FAULT_KINDS)
    assert len(cases) > 5_000


def test_no_fault_at_any_operation_breaks_a_promise(faults: Faults, cases: list[Case]) -> None:
    run_all(faults, Random(1).sample(cases, FAULT_CASES))


# Damage.


def test_no_damage_costs_more_than_it_must(bench: DamageBench) -> None:
    every = list(bench.cases())
    assert len(every) > 50_000
    sample = Random(1).sample(every, DAMAGE_CASES)
    # Small files are met seldom, and a whole file never.
    for path in bench.contents:
        of_file = [case for case in every if case.path == path]
        sample += Random(2).sample(of_file, 10)
        sample += [case for case in of_file if case.kind in ("garbage", "gone", "a block of zeros")]
    run_all(bench, sample)


# That all of this would notice what it is there to notice.


@pytest.mark.parametrize("mutant", ERROR_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_made_on_purpose_is_noticed_by_errors(
    mutant: Mutant, faults: Faults, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.apply(monkeypatch)
    with pytest.raises(PromiseBrokenError):
        run_all(faults, Random(MUTANT_SEEDS.get(mutant.name, 1)).sample(cases, MUTANT_CASES))


@pytest.mark.parametrize(("mutant", "ending"), DAMAGE_MUTANTS, ids=lambda value: getattr(value, "name", value))
def test_a_fault_made_on_purpose_is_noticed_by_damage(
    mutant: Mutant, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = DamageBench()
    cases = [case for case in bench.cases() if case.path.endswith(ending)]
    mutant.apply(monkeypatch)
    with pytest.raises(PromiseBrokenError):
        run_all(bench, Random(1).sample(cases, min(MUTANT_CASES, len(cases))))


# The disk itself.


@pytest.fixture
def disk() -> FaultyDisk:
    files = FaultyDisk()
    files.make_directory("/d")
    return files


def kind_of(name: str) -> FaultKind:
    return next(kind for kind in FAULT_KINDS if kind.name == name)


def test_one_operation_fails_or_all_from_there_on(disk: FaultyDisk) -> None:
    fd = disk.open("/d/f", 0o102)
    disk.fail(kind_of("EIO once"), 1)
    disk.write_at(fd, b"a", 0)
    with pytest.raises(OSError, match="Input/output error"):
        disk.read_at(fd, 1, 0)
    assert disk.read_at(fd, 1, 0) == b"a"
    disk.fail(kind_of("ENOSPC until there is room"), 0)
    for _ in range(2):
        assert disk.read_at(fd, 1, 0) == b"a", "reading needs no room"
        with pytest.raises(OSError, match="No space"):
            disk.write_at(fd, b"b", 0)
    disk.heal()
    assert disk.write_at(fd, b"b", 0) == 1


def test_a_short_write_is_no_error(disk: FaultyDisk) -> None:
    fd = disk.open("/d/f", 0o102)
    disk.fail(kind_of("a short write"), 0)
    assert disk.write_at(fd, b"1234", 0) == 2
    assert disk.write_at(fd, b"34", 2) == 2


def test_what_a_failed_sync_left_is_never_synced_later(disk: FaultyDisk) -> None:
    disk.write_synced("/d/f", b"a")
    disk.sync_directory("/d")
    left = set()
    for _ in range(50):
        fd = disk.open("/d/f", 2)
        disk.write_at(fd, b"b", 0)
        disk.fail(kind_of("EIO once"), 0)
        with pytest.raises(OSError, match="Input/output error"):
            disk.sync(fd)
        assert disk.read_at(fd, 1, 0) == b"b"
        disk.sync(fd)
        left.add(disk.after_power_cut(Random(1)).read_whole("/d/f", 9))
        left.add(disk.after_kill().after_power_cut(Random(1)).read_whole("/d/f", 9))
        disk.write_at(fd, b"a", 0)
        disk.sync(fd)
    assert left == {b"a", b"b"}


def test_a_name_that_was_not_durably_replaced_leads_to_the_old_file_or_the_new_one() -> None:
    seen = set()
    for seed in range(50):
        files = SimulatedFiles.holding({"/d/f": b"old"})
        files.write_synced("/d/new", b"new")
        files.rename("/d/new", "/d/f")
        seen.add(files.after_kill().after_power_cut(Random(seed)).read_whole("/d/f", 9))
    assert seen == {b"old", b"new"}
