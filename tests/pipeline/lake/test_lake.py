"""The lake on a simulated disk that ends at every step, and its lock between real processes."""

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from queue_engine.disk.checked_line import decode_line, encode_line
from queue_engine.pipeline.lake.lake import HISTORY_MANIFEST, Lake
from queue_engine.pipeline.lake.lake_lock import holder_of
from queue_engine.vocabulary.errors import LakeDamagedError, LakeHeldError, PipelineError
from tests.support.clock import ManualClock
from tests.support.disks.faulty_disk import FAULT_KINDS, FaultyDisk
from tests.support.disks.simulated_disk import SimulatedFiles

LAKE = "/data/pipeline"


class CutOffError(Exception):
    """The process ends here."""


def write(disk: SimulatedFiles, path: str, data: bytes) -> None:
    """Write a file as Spark does: nothing is synced."""
    fd = disk.open(path, 0o102)
    disk.write_all(fd, data, 0)
    disk.close(fd)


def take_step(lake: Lake, disk: SimulatedFiles, step: int) -> None:
    """One whole act of a job: stage two files, publish them, name them beside those that counted."""
    moves, contents = [], {}
    for part in range(2):
        staged = f"{lake.staging()}/part-{step}-{part}"
        target = f"history/minutes/{lake.data_name('minutes.parquet')}"
        contents[target] = f"step {step} part {part} ".encode() * 200
        write(disk, lake.within(staged), contents[target])
        moves.append((staged, target))
    lake.publish(moves)
    manifest = lake.read_manifest(HISTORY_MANIFEST) or {"version": 1, "step": 0, "files": []}
    files = [{"path": path.removeprefix("history/"), "bytes": len(data)} for path, data in contents.items()]
    lake.write_manifest(HISTORY_MANIFEST, {**manifest, "step": step, "files": [*manifest["files"], *files]})


def check(disk: SimulatedFiles, steps: set[int]) -> int:
    """The manifest is one of these steps' and every file that it names is whole. Returns its step; 0: none."""
    data = disk.contents().get(f"{LAKE}/{HISTORY_MANIFEST}")
    manifest = {"step": 0, "files": []} if data is None else decode_line(data)
    assert manifest is not None
    assert manifest["step"] in steps
    assert len(manifest["files"]) == 2 * manifest["step"]
    for number, one in enumerate(manifest["files"]):
        expected = f"step {number // 2 + 1} part {number % 2} ".encode() * 200
        assert disk.contents()[f"{LAKE}/history/{one['path']}"] == expected
    return int(manifest["step"])


def data_files(disk: SimulatedFiles) -> set[str]:
    return {path for path in disk.contents() if path.endswith(".parquet")}


def test_an_end_at_any_step_leaves_the_old_manifest_or_the_new_one_and_its_files_whole() -> None:
    steps_seen, has_leftovers = set(), False
    for at in range(200):
        disk = SimulatedFiles()
        lake = Lake(LAKE, files=disk)
        lake.begin()
        take_step(lake, disk, 1)
        left = at

        def end(operation: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise CutOffError

        disk.before_operation = end
        try:
            take_step(lake, disk, 2)
        except CutOffError:
            pass
        else:
            break
        finally:
            disk.before_operation = lambda operation: None
        for found in [disk.after_kill(), *(disk.after_power_cut(Random(at * 100 + seed)) for seed in range(20))]:
            step = check(found, {1, 2})
            steps_seen.add(step)
            has_leftovers |= len(data_files(found)) > 2 * step
            # The next holder finds nothing of it but what counts, and goes on.
            after = Lake(LAKE, files=found)
            after.begin()
            assert after.generation == 2
            assert len(data_files(found)) == 2 * check(found, {step})
            assert not [path for path in found.contents() if "/staging/" in path or path.endswith(".tmp")]
            take_step(after, found, step + 1)
            check(found, {step + 1})
    else:
        pytest.fail("the step did not come to its end")
    assert steps_seen == {1, 2}
    assert has_leftovers


def test_an_end_at_any_step_of_taking_over_costs_nothing_and_no_generation_comes_twice() -> None:
    for at in range(200):
        disk = SimulatedFiles()
        lake = Lake(LAKE, files=disk)
        lake.begin()
        take_step(lake, disk, 1)
        write(disk, f"{LAKE}/{lake.staging()}/half", b"half a file")
        write(disk, f"{LAKE}/history/minutes/{lake.data_name('leftover.parquet')}", b"nobody names it")
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
            # A process that used its number had it on the disk before.
            assert third.generation > max(1, after.generation)
            assert len(data_files(found)) == 2
    else:
        pytest.fail("taking over did not come to its end")


@pytest.mark.parametrize("kind", FAULT_KINDS, ids=lambda kind: kind.name)
def test_a_disk_that_refuses_at_any_step_leaves_the_old_manifest_or_the_new_one(kind) -> None:
    for at in range(200):
        disk = FaultyDisk()
        lake = Lake(LAKE, files=disk)
        lake.begin()
        take_step(lake, disk, 1)
        met = len(disk.met)
        disk.fail(kind, at)
        try:
            take_step(lake, disk, 2)
        except OSError:
            pass
        is_past_the_end = len(disk.met) - met <= at
        disk.heal()
        for found in [disk.after_kill(), disk.after_power_cut(Random(at))]:
            check(found, {1, 2})
        # The same process goes on from what counts.
        take_step(lake, disk, check(disk, {1, 2}) + 1)
        check(disk, {2, 3})
        if is_past_the_end:
            break
    else:
        pytest.fail("the step did not come to its end")


def test_a_damaged_manifest_is_told_and_costs_no_data_file() -> None:
    disk = SimulatedFiles()
    lake = Lake(LAKE, files=disk)
    lake.begin()
    take_step(lake, disk, 1)
    content = bytearray(disk.contents()[f"{LAKE}/{HISTORY_MANIFEST}"])
    content[12] ^= 1
    write(disk, f"{LAKE}/{HISTORY_MANIFEST}", bytes(content))
    after = Lake(LAKE, files=disk)
    after.begin()
    assert len(data_files(disk)) == 2
    with pytest.raises(LakeDamagedError, match=r"history/manifest\.json is damaged"):
        after.read_manifest(HISTORY_MANIFEST)


@pytest.mark.parametrize(
    "content",
    [{"files": [{}]}, {"files": ["a.parquet"]}, {"files": [{"path": 7}]}, {"files": {}}, {"version": 9}, ["a"]],
    ids=repr,
)
def test_a_manifest_that_does_not_say_which_files_count_is_told_and_costs_none(
    content: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody wrote it with the right check: the bytes are what was written, and still say nothing."""
    disk = SimulatedFiles()
    lake = Lake(LAKE, files=disk)
    lake.begin()
    take_step(lake, disk, 1)
    write(disk, f"{LAKE}/history/minutes/g000001-000009-left.parquet", b"x")
    disk.replace(f"{LAKE}/{HISTORY_MANIFEST}", encode_line(content))
    before = data_files(disk)
    Lake(LAKE, files=disk).begin()
    assert data_files(disk) == before
    assert len(before) == 3
    assert "leftovers not removed folder=history error=manifest" in caplog.text
    assert "history/manifest.json is damaged" in caplog.text


def test_a_damaged_generation_stops_the_next_holder() -> None:
    disk = SimulatedFiles()
    Lake(LAKE, files=disk).begin()
    write(disk, f"{LAKE}/generation", b"\0\0")
    with pytest.raises(LakeDamagedError, match="expected a number"):
        Lake(LAKE, files=disk).begin()


def test_only_the_holder_writes(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    for act in (lake.staging, lambda: lake.write_manifest(HISTORY_MANIFEST, {}), lambda: lake.publish([])):
        with pytest.raises(PipelineError, match="is not locked by this process"):
            act()
    with lake.lock():
        lake.write_manifest(HISTORY_MANIFEST, {"version": 1, "files": []})
    with pytest.raises(PipelineError, match="is not locked by this process"):
        lake.write_manifest(HISTORY_MANIFEST, {})
    assert lake.read_manifest(HISTORY_MANIFEST) == {"version": 1, "files": []}


def test_two_holders_exclude_each_other_and_the_second_learns_who_the_first_is(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from queue_engine.pipeline.lake.lake import Lake\n"
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
    lake = Lake(str(tmp_path))
    with lake.lock():
        assert lake.generation == 2


def test_a_retired_file_stays_for_a_minute() -> None:
    disk, clock = SimulatedFiles(), ManualClock()
    lake = Lake(LAKE, files=disk, clock=clock)
    lake.begin()
    take_step(lake, disk, 1)
    first, second = sorted(path.removeprefix(f"{LAKE}/") for path in data_files(disk))
    lake.retire([first])
    clock.advance(ms=59_999)
    lake.retire([second])
    assert len(data_files(disk)) == 2
    clock.advance(ms=1)
    lake.retire([])
    assert data_files(disk) == {f"{LAKE}/{second}"}
