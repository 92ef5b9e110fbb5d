"""The lock on a data directory, against this process and against another one."""

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.storage.disk.dirlock import DirectoryLock
from queue_engine.vocabulary.errors import DirectoryLockedError, StorageError

HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another program that holds the directory as nsqd does, until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate(timeout=30)


def test_a_directory_has_one_holder_until_it_lets_go(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(DirectoryLockedError):
        DirectoryLock(str(tmp_path))
    lock.release()
    lock.release()
    with DirectoryLock(str(tmp_path)), pytest.raises(DirectoryLockedError):
        DirectoryLock(str(tmp_path))
    DirectoryLock(str(tmp_path)).release()
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_who_is_refused_reads_who_holds_it(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(DirectoryLockedError) as refusal:
        DirectoryLock(str(tmp_path))
    assert str(refusal.value) == (
        f"cannot flock directory {tmp_path} - Resource temporarily unavailable"
        f" (possibly in use by another instance of penstock or nsqd, pid {holder.pid})"
    )


def test_the_lock_goes_with_a_killed_process(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait(30)
    DirectoryLock(str(tmp_path)).release()


def test_the_lock_is_the_one_that_nsqd_takes(tmp_path: Path) -> None:
    with DirectoryLock(str(tmp_path)):
        fd = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(fd)


def open_on(directory: Path) -> int:
    """How many descriptors of this process are of the directory itself; others come and go with other tests."""
    targets = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this very listing
            targets.append(os.readlink(f"/proc/self/fd/{name}"))
    return targets.count(str(directory))


def test_a_refusal_leaks_no_descriptor_and_a_child_inherits_none(tmp_path: Path) -> None:
    with DirectoryLock(str(tmp_path)):
        before = open_on(tmp_path)
        for _ in range(5):
            with pytest.raises(DirectoryLockedError):
                DirectoryLock(str(tmp_path))
        assert open_on(tmp_path) == before == 1
        child = subprocess.run(
            ["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True, close_fds=False, timeout=30
        )
        assert str(tmp_path) not in child.stdout


def test_what_is_no_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, tmp_path / "missing"):
        with pytest.raises(StorageError, match=f"cannot open data directory {path}: N"):
            DirectoryLock(str(path))
