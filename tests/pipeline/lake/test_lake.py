"""The lake on a simulated disk that ends at every step, and its lock between real processes."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.directory.lake_lock import holder_of
from queue_engine.storage.disk.checked_line import decode_line
from queue_engine.vocabulary.errors import LakeDamagedError, LakeHeldError, PipelineError
from tests.support.disks.faulty_disk import FAULT_KINDS, FaultyDisk
from tests.support.disks.simulated_disk import SimulatedFiles

LAKE = "/data/pipeline"
MANIFEST = "jobs/manifest.json"


class CutOffError(Exception):
    """The process ends here."""


def write(disk: SimulatedFiles, path: str, data: bytes) -> None:
    """Write a file that nothing syncs."""
    fd = disk.open(path, 0o102)
    disk.write_all(fd, data, 0)
    disk.close(fd)


def take_step(lake: Lake, step: int) -> None:
    """One whole act of a job."""
    lake.write_manifest(MANIFEST, {"version": 1, "step": step, "text": f"step {step} " * 2_000})


def check(disk: SimulatedFiles, steps: set[int]) -> int:
    """The manifest is one of these steps', as a whole. Returns its step; 0: none."""
    data = disk.contents().get(f"{LAKE}/{MANIFEST}")
    manifest = {"step": 0} if data is None else decode_line(data)
    assert manifest is not None
    assert manifest["step"] in steps
    if manifest["step"]:
        assert manifest["text"] == f"step {manifest['step']} " * 2_000
    return int(manifest["step"])


def test_an_end_at_any_step_leaves_the_old_manifest_or_the_new_one() -> None:
    steps_seen = set()
    for at in range(200):
        disk = SimulatedFiles()
        lake = Lake(LAKE, files=disk)
        lake.begin()
        take_step(lake, 1)
        left = at

        def end(operation: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise CutOffError

        disk.before_operation = end
        try:
            take_step(lake, 2)
        except CutOffError:
            pass
        else:
            break
        finally:
            disk.before_operation = lambda operation: None
        for found in [disk.after_kill(), *(disk.after_power_cut(Random(at * 100 + seed)) for seed in range(20))]:
            step = check(found, {1, 2})
            steps_seen.add(step)
            # The next holder finds nothing of it but what counts, and goes on.
            after = Lake(LAKE, files=found)
            after.begin()
            check(found, {step})
            assert not [path for path in found.contents() if path.endswith(".tmp")]
            take_step(after, step + 1)
            check(found, {step + 1})
    else:
        pytest.fail("the step did not come to its end")
    assert steps_seen == {1, 2}


def test_an_end_at_any_step_of_taking_over_costs_nothing() -> None:
    for at in range(200):
        disk = SimulatedFiles()
        lake = Lake(LAKE, files=disk)
        lake.begin()
        take_step(lake, 1)
        write(disk, f"{LAKE}/jobs/manifest.json.7.tmp", b"half a file")
        left, after = at, Lake(LAKE, files=disk)

        def end(operation: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise CutOffError

        disk.before_operation = end
        try:
            after.begin()
        except CutOffError:
            pass
        else:
            break
        finally:
            disk.before_operation = lambda operation: None
        for found in [disk.after_kill(), disk.after_power_cut(Random(at))]:
            check(found, {1})
            third = Lake(LAKE, files=found)
            third.begin()
            check(found, {1})
            assert not [path for path in found.contents() if path.endswith(".tmp")]
    else:
        pytest.fail("taking over did not come to its end")


@pytest.mark.parametrize("kind", FAULT_KINDS, ids=lambda kind: kind.name)
def test_a_disk_that_refuses_at_any_step_leaves_the_old_manifest_or_the_new_one(kind) -> None:
    for at in range(200):
        disk = FaultyDisk()
        lake = Lake(LAKE, files=disk)
        lake.begin()
        take_step(lake, 1)
        met = len(disk.met)
        disk.fail(kind, at)
        try:
            take_step(lake, 2)
        except OSError:
            pass
        is_past_the_end = len(disk.met) - met <= at
        disk.heal()
        for found in [disk.after_kill(), disk.after_power_cut(Random(at))]:
            check(found, {1, 2})
        # The same process goes on from what counts.
        take_step(lake, check(disk, {1, 2}) + 1)
        check(disk, {2, 3})
        if is_past_the_end:
            break
    else:
        pytest.fail("the step did not come to its end")


def test_a_damaged_manifest_is_told() -> None:
    disk = SimulatedFiles()
    lake = Lake(LAKE, files=disk)
    lake.begin()
    take_step(lake, 1)
    content = bytearray(disk.contents()[f"{LAKE}/{MANIFEST}"])
    content[12] ^= 1
    write(disk, f"{LAKE}/{MANIFEST}", bytes(content))
    after = Lake(LAKE, files=disk)
    after.begin()
    with pytest.raises(LakeDamagedError, match=r"jobs/manifest\.json is damaged"):
        after.read_manifest(MANIFEST)


def test_what_an_earlier_version_left_half_written_goes(tmp_path: Path) -> None:
    (tmp_path / "staging/g000001").mkdir(parents=True)
    (tmp_path / "staging/g000001/half").write_bytes(b"half a file")
    with Lake(str(tmp_path)).lock():
        assert not (tmp_path / "staging").exists()


def test_only_the_holder_writes(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    with pytest.raises(PipelineError, match="is not locked by this process"):
        lake.write_manifest(MANIFEST, {})
    with lake.lock():
        lake.write_manifest(MANIFEST, {"version": 1, "files": []})
    with pytest.raises(PipelineError, match="is not locked by this process"):
        lake.write_manifest(MANIFEST, {})
    assert lake.read_manifest(MANIFEST) == {"version": 1, "files": []}


def test_two_holders_exclude_each_other_and_the_second_learns_who_the_first_is(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from queue_engine.lake.directory.lake import Lake\n"
        "with Lake(sys.argv[1]).lock():\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    assert holder_of(str(tmp_path)) is None
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        found = holder_of(str(tmp_path))
        assert found is not None
        assert found.pid == holder.pid
        assert str(tmp_path) in found.command
        with pytest.raises(LakeHeldError, match=f"held by pid {holder.pid} on "), Lake(str(tmp_path)).lock():
            pass
        holder.kill()
    # The lock went with its process; its text did not.
    assert holder_of(str(tmp_path)) is None
    with Lake(str(tmp_path)).lock():
        pass
