"""What a run of the tests spends beside the tests: each file is compiled once, and files are in memory.

Containers often set PYTHONDONTWRITEBYTECODE. Then each process of pytest-xdist rewrites the assertions of all tests,
and compiles all libraries that were installed without bytecode.
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest
from _pytest.pathlib import ImportMode, import_path

MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 << 30
ON_DISK = "TESTS_ON_DISK"  # where tests that import `support.disk_files` have their files


def use_memory() -> str:
    """Put the files of the tests that this process starts in memory, unless TMPDIR names a place. Returns the place.

    A sync takes some milliseconds on a disk, and a test makes about 30. Containers often have 64 MiB of such memory.
    """
    if "TMPDIR" in os.environ:
        return f"files in {os.environ['TMPDIR']}, as TMPDIR says"
    free_bytes = _free_bytes(MEMORY)
    if free_bytes < MEMORY_BYTES_MIN:
        return (
            f"files on the disk, in {tempfile.gettempdir()}, which takes longer:"
            f" {MEMORY} has {free_bytes >> 20:,} MiB of the {MEMORY_BYTES_MIN >> 20:,} that the tests need"
        )
    os.environ[ON_DISK] = tempfile.gettempdir()
    os.environ["TMPDIR"] = str(MEMORY)
    return f"files in memory, in {MEMORY}"


def _free_bytes(directory: Path) -> int:
    if not os.access(directory, os.W_OK):
        return 0
    figures = os.statvfs(directory)
    return figures.f_bavail * figures.f_frsize


def store_bytecode() -> None:
    """Store bytecode from now on: in this process, and in those that it starts."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def share_of(files: list[Path], index: int, count: int) -> list[Path]:
    """The files that process `index` of `count` compiles for all."""
    return files[index::count]


def import_share(config: pytest.Config) -> None:
    """Import a share of the tests before they are collected, where several processes collect all of them.

    Each process needs all modules. In the same order all would compile the same file at the same time.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    files = sorted((config.rootpath / "tests").rglob("test_*.py"))
    for path in share_of(files, int(worker["workerid"].removeprefix("gw")), worker["workercount"]):
        try:
            import_path(path, mode=ImportMode.importlib, root=config.rootpath, consider_namespace_packages=False)
        except Exception:  # the collection reports it
            continue
