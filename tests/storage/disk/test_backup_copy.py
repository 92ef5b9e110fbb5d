"""Copying files into a backup, and reading back what was written."""

import os
from pathlib import Path

import pytest

from queue_engine.storage.disk.backup_copy import check_files, copy_files
from queue_engine.storage.disk.backup_files import LIST_NAME, Staging, read_list, wanted_files
from queue_engine.vocabulary.errors import StorageError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    (directory / "log").mkdir(parents=True)
    (directory / "log" / "a").write_bytes(b"abc" * 1_000_000)
    (directory / "secret").write_bytes(b"xyz")
    (directory / "secret").chmod(0o600)
    return directory


def copied(source: Path, target: Path, *names: str) -> int:
    counts: list[int] = []
    files = copy_files(str(source), str(target), [(name, None) for name in names], counts.append)
    check_files(str(target), files, counts.append)
    return sum(counts)


def test_files_are_copied_with_their_permissions_and_told_as_they_advance(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (source / "secret").chmod(0o400)
    assert copied(source, target, "log/a", "secret") == 2 * 3_000_003
    assert (target / "log" / "a").read_bytes() == (source / "log" / "a").read_bytes()
    assert (target / "secret").stat().st_mode & 0o777 == 0o400


def test_a_byte_that_is_not_as_it_was_written_is_found(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    files = copy_files(str(source), str(target), [("log/a", 1_000)], lambda _: None)
    assert (target / "log" / "a").stat().st_size == 1_000
    with open(target / "log" / "a", "r+b") as file:
        file.seek(500)
        file.write(b"!")
    with pytest.raises(StorageError, match="Length or checksum mismatch in log/a of the backup"):
        check_files(str(target), files, lambda _: None)


def test_a_file_that_is_shorter_than_told_or_a_link_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="has 3 bytes, not the 4 noted"):
        copy_files(str(source), str(tmp_path / "one"), [("secret", 4)], lambda _: None)
    (source / "link").symlink_to(source / "secret")
    with pytest.raises(StorageError, match="link can't be copied"):
        copy_files(str(source), str(tmp_path / "two"), [("link", None)], lambda _: None)
    assert sorted(wanted_files(str(source), is_running=False)) == ["log/a", "secret"]


def test_pipeline_files_that_are_replaced_or_go_meanwhile_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = tmp_path / "pipeline" / "jobs"
    jobs.mkdir(parents=True)
    for name in ("a", "b", "c"):
        (jobs / f"{name}.json").write_text("old")
    (tmp_path / "pipeline" / "checkpoints").mkdir()
    (tmp_path / "pipeline" / "checkpoints" / "derived").touch()
    link, changes = os.link, iter([True])

    def link_while_the_worker_reports(path: str, *args: object, **kwargs: object) -> None:
        link(path, *args, **kwargs)
        if next(changes, False):
            left = sorted({"a", "b", "c"} - {Path(path).stem})
            (jobs / "new").write_text("newer")
            (jobs / "new").rename(jobs / f"{left[0]}.json")
            (jobs / f"{left[1]}.json").unlink()

    monkeypatch.setattr(os, "link", link_while_the_worker_reports)
    staging = Staging(str(tmp_path), "1")
    staging.take({})
    staging.finish()
    listed = read_list(staging.directory)
    assert listed is not None
    assert sorted(length for _, length in listed) == [3, 5]


def test_a_list_of_another_version_is_refused(tmp_path: Path) -> None:
    assert read_list(str(tmp_path)) is None
    (tmp_path / LIST_NAME).write_text('{"version": 2, "files": []}')
    with pytest.raises(StorageError, match="has version 2, and this version of Penstock knows 1"):
        read_list(str(tmp_path))
