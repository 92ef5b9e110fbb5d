"""What `Files` makes of the system's calls: replacing a file whole, writing on after a short write, listing once."""

import errno
import os
import tracemalloc
from pathlib import Path

import pytest

from queue_engine.storage.disk.descriptors import DescriptorBudget
from queue_engine.storage.disk.files import Files
from tests.support.disks.files import FaultyFiles


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_a_file_is_replaced_whole_or_stays_as_it_was(tmp_path: Path, operation: str) -> None:
    path = tmp_path / "topology.json"
    files = FaultyFiles()
    files.replace(str(path), b"old")
    files.fail(operation, errno.ENOSPC)
    with pytest.raises(OSError, match="No space left on device"):
        files.replace(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["topology.json"]
    files.replace(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert files.open_fds == set()


def test_replacing_syncs_the_content_before_the_name_and_the_name_before_it_returns(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.replace(str(tmp_path / "file"), b"x")
    assert [call for call in files.calls if call in ("write", "sync", "rename")] == ["write", "sync", "rename", "sync"]


def test_a_short_write_goes_on_and_a_full_disk_is_an_error(tmp_path: Path) -> None:
    files = FaultyFiles()
    path = str(tmp_path / "file")
    files.bytes_free = 10
    with pytest.raises(OSError, match="No space left on device"):
        files.write_synced(path, b"x" * 11)
    assert list(tmp_path.iterdir()) == []
    files.bytes_free = None
    files.write_synced(path, b"x" * 11)
    assert files.size_of(path) == 11
    assert files.size_of(str(tmp_path / "missing")) is None


def test_a_listing_is_kept_until_something_changes(tmp_path: Path) -> None:
    files = FaultyFiles()
    directory = str(tmp_path)
    (tmp_path / "a.1").write_text("")
    (tmp_path / "b.1").write_text("")
    for _ in range(5):
        assert files.names_starting_with(directory, "a.") == ["a.1"]
        assert files.names_starting_with(directory, "c") == []
    assert files.calls.count("listdir") == 1
    files.replace(str(tmp_path / "a.0"), b"")
    assert files.names_starting_with(directory, "a.") == ["a.0", "a.1"]
    files.rename(str(tmp_path / "a.1"), str(tmp_path / "a.2"))
    assert files.names_starting_with(directory, "a.") == ["a.0", "a.2"]
    files.unlink(str(tmp_path / "a.0"))
    assert files.names_starting_with(directory, "a.") == ["a.2"]


class Holder:
    def __init__(self, *, can_release: bool = True) -> None:
        self.can_release = can_release
        self.forced_count = self.asked_count = 0

    def release_descriptors(self, *, is_forced: bool = False) -> bool:
        self.asked_count += 1
        self.forced_count += is_forced
        return is_forced or self.can_release


def test_the_budget_asks_the_oldest_first_and_forces_only_when_none_can() -> None:
    budget = DescriptorBudget(3)
    stuck, easy, other, newest = Holder(can_release=False), Holder(), Holder(), Holder()
    for holder in (stuck, easy, other, stuck, newest):
        budget.opens(holder)
    assert (easy.asked_count, other.asked_count, stuck.forced_count) == (1, 0, 0)
    budget.forget(other)
    budget.forget(newest)
    for holder in (Holder(can_release=False), Holder(can_release=False), easy):
        budget.opens(holder)
    assert stuck.forced_count == 1


def test_a_small_file_takes_memory_for_what_is_in_it(tmp_path: Path) -> None:
    """Where memory is limited (`ulimit -v`), a stop failed for want of what the largest file may have."""
    (tmp_path / "file").write_bytes(b"x" * 100)
    tracemalloc.start()
    try:
        assert FaultyFiles().read_whole(str(tmp_path / "file"), 1 << 30) == b"x" * 100
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1 << 20
    assert FaultyFiles().read_whole(str(tmp_path / "file"), 10) == b"x" * 10


@pytest.mark.timeout(30)
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name, why in (("fifo", "it is no regular file"), ("folder", "Is a directory")):
        with pytest.raises(OSError, match=why):
            Files().read_whole(str(tmp_path / name), 100)
