"""What a run of the tests spends beside the tests: each file is compiled once, and files in memory are freed.

Containers often set PYTHONDONTWRITEBYTECODE. Then each process of pytest-xdist rewrites the assertions of all tests,
and compiles all libraries that were installed without bytecode.
"""

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.pathlib import ImportMode, import_path

FAST = "not slow"


def store_bytecode() -> None:
    """Store bytecode from now on: in this process, and in those that it starts."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def free_memory(selected: str, directories: Iterable[Path]) -> None:
    """Remove the directories, if they may be in memory: those of all fast tests take 9 GB."""
    if selected == FAST:
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)


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
