"""Where a topic's messages are written: names, when the next file begins, and what a sync promises."""

import fcntl
import gzip
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from queue_engine.client.tools.topic_file import FileLayout, TopicFile

NOON = datetime(2026, 1, 31, 12, 59, 59, tzinfo=UTC)


class Hand:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def topic_file(directory: Path, clock: Hand | None = None, **layout: Any) -> TopicFile:
    return TopicFile("t", FileLayout(output_dir=str(directory), host="h", **layout), clock or Hand())


def test_a_file_is_named_after_the_hour_and_the_next_hour_begins_another(tmp_path: Path) -> None:
    clock = Hand()
    file = topic_file(tmp_path, clock)
    file.write(b"one")
    clock.now += timedelta(seconds=2)
    file.write(b"two")
    file.close()
    file.close()
    assert files_of(tmp_path) == {"t.h.2026-01-31_12.log": b"one\n", "t.h.2026-01-31_13.log": b"two\n"}


def test_a_file_that_ends_with_a_line_is_continued_and_one_that_was_cut_off_is_not(tmp_path: Path) -> None:
    for body in (b"one", b"two"):
        file = topic_file(tmp_path)
        file.write(body)
        file.close()
    path = tmp_path / "t.h.2026-01-31_12.log"
    assert path.read_bytes() == b"one\ntwo\n"
    path.write_bytes(b"one\ntw")
    file = topic_file(tmp_path)
    file.write(b"two")
    file.close()
    assert files_of(tmp_path) == {"t.h.2026-01-31_12.log": b"one\ntw", "t.h-000001.2026-01-31_12.log": b"two\n"}


@pytest.mark.parametrize("how", ["size", "interval"])
def test_a_file_that_is_large_or_old_enough_is_followed_by_another(tmp_path: Path, how: str) -> None:
    clock = Hand()
    clock.now = NOON.replace(minute=0)
    file = topic_file(tmp_path, clock, **({"rotate_bytes": 8} if how == "size" else {"rotate_interval_s": 60.0}))
    for number in range(4):
        file.write(b"no%d" % number)
        clock.now += timedelta(seconds=30)
    file.close()
    assert files_of(tmp_path) == {
        "t.h.2026-01-31_12.log": b"no0\nno1\n",
        "t.h-000001.2026-01-31_12.log": b"no2\nno3\n",
    }


def test_what_was_synced_of_a_gzip_file_is_readable_before_its_end(tmp_path: Path) -> None:
    file = topic_file(tmp_path, gzip_level=6)
    file.write(b"one")
    file.sync()
    file.write(b"two")
    path = tmp_path / "t.h.2026-01-31_12.log.gz"
    assert gzip.decompress(path.read_bytes()) == b"one\n"
    file.close()
    assert gzip.decompress(path.read_bytes()) == b"one\ntwo\n"


def members(data: bytes) -> list[bytes]:
    """What each member of a gzip file has. Fails where one has no end."""
    found = []
    while data:
        inflate = zlib.decompressobj(wbits=31)
        found.append(inflate.decompress(data))
        assert inflate.eof
        data = inflate.unused_data
    return found


@pytest.mark.parametrize("has_synced", [True, False])
def test_a_gzip_file_has_a_member_for_each_sync_and_ends_with_the_last_one(tmp_path: Path, has_synced: bool) -> None:
    file = topic_file(tmp_path, gzip_level=6)
    file.write(b"one")
    file.sync()
    file.sync()
    file.write(b"two")
    file.write(b"three")
    if has_synced:
        file.sync()
    file.close()
    assert members((tmp_path / "t.h.2026-01-31_12.log.gz").read_bytes()) == [b"one\n", b"two\nthree\n"]


@pytest.mark.parametrize("gzip_level", [0, 6])
def test_an_abandoned_file_is_open_and_locked_no_more_and_has_what_was_synced(tmp_path: Path, gzip_level: int) -> None:
    file = topic_file(tmp_path, gzip_level=gzip_level)
    file.write(b"one")
    file.sync()
    path = Path(file.path)
    synced = path.read_bytes()
    file.write(b"two")
    file.abandon()
    file.abandon()
    assert file.path == ""
    assert path.read_bytes().startswith(synced)
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    file.write(b"three")
    assert file.path != str(path) or not gzip_level
    file.close()


def test_a_complete_file_is_moved_and_never_over_another(tmp_path: Path) -> None:
    work, done = tmp_path / "work", tmp_path / "done"
    work.mkdir()
    done.mkdir()
    file = topic_file(done, work_dir=str(work))
    file.write(b"one")
    file.sync()
    assert files_of(tmp_path) == {"work/t.h.2026-01-31_12.log": b"one\n"}
    (done / "t.h.2026-01-31_12.log").write_bytes(b"somebody else's\n")
    file.close()
    assert files_of(tmp_path) == {
        "done/t.h.2026-01-31_12.log": b"somebody else's\n",
        "done/t.h-000001.2026-01-31_12.log": b"one\n",
    }


def test_a_pattern_may_have_directories(tmp_path: Path) -> None:
    file = topic_file(tmp_path, filename="<TOPIC>/<DATETIME>/<HOST><REV>.log", datetime_format="%Y/%m")
    file.write(b"one")
    file.close()
    assert files_of(tmp_path) == {"t/2026/01/h.log": b"one\n"}


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("<TOPIC>.log", "has no <REV>: files would overwrite each other"),
        ("<REV>.log", "has no <TOPIC>"),
        ("../<TOPIC><REV>", "leads out of --output-dir"),
        ("/<TOPIC><REV>", "leads out of --output-dir"),
    ],
)
def test_a_pattern_that_files_could_share_or_that_leads_away_is_refused(pattern: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        FileLayout("out", filename=pattern).check()


def test_a_file_that_another_program_writes_is_left_to_it(tmp_path: Path) -> None:
    """Lines of both in one file would stand in each other."""
    first, second = topic_file(tmp_path), topic_file(tmp_path)
    first.write(b"one")
    second.write(b"two")
    first.write(b"three")
    first.close()
    second.close()
    assert files_of(tmp_path) == {"t.h.2026-01-31_12.log": b"one\nthree\n", "t.h-000001.2026-01-31_12.log": b"two\n"}


def test_a_file_whose_time_is_over_is_finished_though_nothing_comes(tmp_path: Path) -> None:
    work, done = tmp_path / "work", tmp_path / "done"
    work.mkdir()
    done.mkdir()
    clock = Hand()
    file = topic_file(done, clock, work_dir=str(work))
    file.write(b"one")
    file.close_if_over()
    assert (files_of(done), file.path) == ({}, str(work / "t.h.2026-01-31_12.log"))
    clock.now += timedelta(seconds=2)
    file.close_if_over()
    assert (files_of(done), file.path) == ({"t.h.2026-01-31_12.log": b"one\n"}, "")
    file.close_if_over()
