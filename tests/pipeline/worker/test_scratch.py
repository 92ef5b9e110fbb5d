"""The worker's own files: measured now and then, and too large temporary ones end the worker."""

from pathlib import Path

import pytest

from queue_engine.lake.worker.scratch import MEASURE_EVERY_NS, Scratch, log_bytes, temporary_bytes
from queue_engine.vocabulary.errors import PipelineError
from tests.support.clock import ManualClock

MIB = 1 << 20


def put(lake_path: Path, name: str, size: int) -> Path:
    path = lake_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def test_temporary_files_and_log_files_are_measured(tmp_path: Path) -> None:
    assert (temporary_bytes(tmp_path), log_bytes(tmp_path)) == (0, 0)
    put(tmp_path, "scratch/spark/blockmgr/0a/shuffle_0.data", MIB)
    put(tmp_path, "scratch/warehouse/part", MIB)
    put(tmp_path, "scratch/java/release", 5 * MIB)  # no temporary file
    put(tmp_path, "worker.log", MIB)
    put(tmp_path, "worker.log.1", 3 * MIB)
    assert (temporary_bytes(tmp_path), log_bytes(tmp_path)) == (2 * MIB, 4 * MIB)


def test_what_a_link_points_to_does_not_count(tmp_path: Path) -> None:
    elsewhere = put(tmp_path, "scratch/java/large", 5 * MIB)
    put(tmp_path, "scratch/spark/rows", MIB)
    (tmp_path / "scratch/spark/link").symlink_to(elsewhere)
    (tmp_path / "scratch/spark/folder").symlink_to(elsewhere.parent)
    assert MIB <= temporary_bytes(tmp_path) < 2 * MIB


def test_files_beyond_the_limit_end_the_worker_by_the_next_measurement(tmp_path: Path) -> None:
    clock = ManualClock()
    scratch = Scratch(tmp_path, clock, MIB, free_bytes=lambda _: 2 * MIB - 1)
    put(tmp_path, "scratch/spark/rows", MIB)
    scratch.check()
    put(tmp_path, "scratch/spark/more", MIB)
    clock.advance(ns=MEASURE_EVERY_NS - 1)
    scratch.check()
    clock.advance(ns=1)
    with pytest.raises(
        PipelineError,
        match="take 2,097,152 bytes, of at most 1,048,576 where the disk has 2,097,151 left",
    ):
        scratch.check()


def test_files_stay_while_as_much_is_left_on_the_disk(tmp_path: Path) -> None:
    """They may be one job's work: ended for them, it would begin anew and make as many again."""
    put(tmp_path, "scratch/spark/rows", 3 * MIB)
    Scratch(tmp_path, ManualClock(), MIB).check()
    Scratch(tmp_path, ManualClock(), MIB, free_bytes=lambda _: 3 * MIB).check()
