"""Files that a killed run left in the work directory: finished at the next start, whole messages alone."""

import fcntl
import gzip
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from queue_engine.client.tools.left_files import finish_left_files
from queue_engine.client.tools.topic_file import FileLayout, TopicFile

NOW = datetime(2026, 11, 23, 8, 30, tzinfo=UTC)
TORN = b"not sync"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "done").mkdir()
    return tmp_path / "work"


def layout_of(work: Path, **options: object) -> FileLayout:
    return FileLayout(str(work.parent / "done"), str(work), host="h", **options)  # type: ignore[arg-type]


def killed(layout: FileLayout, *bodies: bytes, topic: str = "t", torn: bytes = TORN) -> Path:
    """What a run leaves that has synced `bodies`, was writing `torn`, and was killed."""
    file = TopicFile(topic, layout, lambda: NOW)
    for body in bodies:
        file.write(body)
    file.sync()
    path = Path(file.path)
    data = path.read_bytes()
    file.abandon()
    path.write_bytes(data + torn)
    return path


def is_t(topic: str) -> bool:
    return topic == "t"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gzip_level": 6},
        {"filename": "<TOPIC><REV>.log"},
        {"filename": "<DATETIME>/<TOPIC>.<HOST>.<PID><REV>.log", "datetime_format": "%Y/%m/%d"},
        {"filename": "<HOST>.<TOPIC>.<TOPIC><REV>.<DATETIME>"},
    ],
    ids=["plain", "gzip", "no time", "folders", "twice"],
)
def test_it_moves_to_the_finished_ones_without_what_was_not_synced(work: Path, options: dict[str, object]) -> None:
    layout = layout_of(work, **options)
    torn = gzip.compress(b"one more\n")[:-4] if "gzip_level" in options else TORN
    left = killed(layout, b"one", b"two\nlines", torn=torn)
    (found,) = finish_left_files(layout, is_t)
    assert found == str(work.parent / "done" / left.relative_to(work))
    data = Path(found).read_bytes()
    assert (gzip.decompress(data) if "gzip_level" in options else data) == b"one\ntwo\nlines\n"
    assert not left.exists()
    assert finish_left_files(layout, is_t) == []


@pytest.mark.parametrize("level", [0, 6])
def test_cut_off_anywhere_it_keeps_what_was_synced(work: Path, level: int) -> None:
    layout = layout_of(work, gzip_level=level)
    one = gzip.compress(b"one\n") if level else b"one\n"
    two = gzip.compress(b"two\n") if level else b"two\n"
    for cut in range(len(one + two) + 1):
        path = work / layout.name("t", NOW, 0)
        path.write_bytes((one + two)[:cut])
        whole = b"" if cut < len(one) else one if cut < len(one + two) else one + two
        found = finish_left_files(layout, is_t)
        assert [Path(name).read_bytes() for name in found] == ([whole] if whole else []), cut
        assert not path.exists()


def test_it_never_replaces_a_finished_file(work: Path) -> None:
    layout = layout_of(work)
    left = killed(layout, b"one")
    (work.parent / "done" / left.name).write_bytes(b"another\n")
    (found,) = finish_left_files(layout, is_t)
    assert Path(found).name == layout.name("t", NOW, 1)
    assert Path(found).read_bytes() == b"one\n"
    assert (work.parent / "done" / left.name).read_bytes() == b"another\n"


def test_a_kill_between_the_new_name_and_the_old_one_makes_no_second_file(work: Path) -> None:
    layout = layout_of(work)
    left = killed(layout, b"one", torn=b"")
    os.link(left, work.parent / "done" / left.name)
    assert finish_left_files(layout, is_t) == [str(work.parent / "done" / left.name)]
    assert [path.name for path in (work.parent / "done").iterdir()] == [left.name]
    assert not left.exists()


@pytest.mark.parametrize("name", ["t.other.2026-11-23_08.log", "u.h.2026-11-23_08.log", "notes.txt", "t.h.log"])
def test_what_is_not_of_this_run_s_topics_and_names_stays(work: Path, name: str) -> None:
    (work / name).write_bytes(b"one\n")
    assert finish_left_files(layout_of(work), is_t) == []
    assert (work / name).read_bytes() == b"one\n"


def test_what_another_program_is_writing_stays(work: Path) -> None:
    left = killed(layout_of(work), b"one")
    with left.open("ab") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert finish_left_files(layout_of(work), is_t) == []
    assert left.read_bytes() == b"one\n" + TORN
    assert len(finish_left_files(layout_of(work), is_t)) == 1


def test_a_file_system_without_locks_keeps_its_files(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    left = killed(layout_of(work), b"one")
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert finish_left_files(layout_of(work), is_t) == []
    assert left.exists()


def test_without_a_work_directory_nothing_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "t.h.2026-11-23_08.log"
    path.write_bytes(TORN)
    assert finish_left_files(FileLayout(str(tmp_path), host="h"), is_t) == []
    assert path.read_bytes() == TORN


@pytest.mark.parametrize("way", ["same", "link", "by a parent"])
def test_finished_files_are_never_taken_for_left_ones(tmp_path: Path, way: str) -> None:
    """Where the directories are the same, by whatever name."""
    done = tmp_path / "done"
    done.mkdir()
    (tmp_path / "linked").symlink_to(done)
    work = {"same": done, "link": tmp_path / "linked", "by a parent": done / ".." / "done"}[way]
    finished = done / "t.h.2026-11-22_07.log"
    finished.write_bytes(b"one\n")
    assert finish_left_files(FileLayout(str(done), str(work), host="h"), is_t) == []
    assert {path.name: path.read_bytes() for path in done.iterdir()} == {finished.name: b"one\n"}


def test_finished_files_below_the_work_directory_stay(tmp_path: Path) -> None:
    done = tmp_path / "done"
    done.mkdir()
    layout = FileLayout(
        str(done), str(tmp_path), filename="<DATETIME>/<TOPIC><REV>.log", datetime_format="%A", host="h"
    )
    (done / "t.log").write_bytes(b"one\n")
    assert finish_left_files(layout, is_t) == []
    assert (done / "t.log").read_bytes() == b"one\n"


def test_a_target_that_is_the_file_itself_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a directory that is mounted twice, which no name tells."""
    monkeypatch.setattr(os.path, "samefile", lambda *_: False)
    (tmp_path / "t.h.2026-11-22_07.log").write_bytes(b"one\n")
    finish_left_files(FileLayout(str(tmp_path), str(tmp_path), host="h"), is_t)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"one\n"]


def test_a_file_that_is_being_finished_is_never_taken_for_a_left_one(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, link, found = layout_of(work), os.link, []

    def link_while_another_run_begins(path: str, target: str) -> None:
        found.extend(finish_left_files(layout, is_t))
        link(path, target)

    file = TopicFile("t", layout, lambda: NOW)
    file.write(b"one")
    monkeypatch.setattr(os, "link", link_while_another_run_begins)
    file.close()
    (done,) = (work.parent / "done").iterdir()
    assert (found, done.read_bytes(), list(work.iterdir())) == ([], b"one\n", [])


def test_a_new_file_that_another_run_takes_for_a_left_one_is_made_again(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, lock, removed = layout_of(work, filename="<TOPIC><REV>.log"), fcntl.flock, []

    def lock_after_another_run_began(file: object, how: int) -> None:
        if not removed:
            removed.append(1)
            finish_left_files(layout, is_t)
        lock(file, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", lock_after_another_run_began)
    file = TopicFile("t", layout, lambda: NOW)
    file.write(b"one")
    file.close()
    (done,) = (work.parent / "done").iterdir()
    assert (removed, done.read_bytes()) == ([1], b"one\n")
