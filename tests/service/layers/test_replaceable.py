"""What is made of files is made anew when one of them is replaced."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from queue_engine.service.tls.replaceable import LOOK_INTERVAL_NS, MadeOfFiles
from tests.support.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def replace(path: Path, text: str) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)


def test_a_replaced_file_is_read_within_the_interval(tmp_path: Path, clock: ManualClock) -> None:
    path, made = tmp_path / "certificate", []
    path.write_text("old")

    def make() -> str:
        made.append(path.read_text())
        return made[-1]

    one = MadeOfFiles([str(path), ""], make, subject="it", now_ns=clock.monotonic_ns)
    assert one.current() == "old"
    replace(path, "newer")
    assert one.current() == "old"
    clock.advance(ns=LOOK_INTERVAL_NS)
    assert one.current() == "newer"
    clock.advance(ns=LOOK_INTERVAL_NS)
    assert one.current() == "newer"
    assert made == ["old", "newer"]


def test_files_that_can_t_be_used_leave_what_there_was_until_they_can(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    certificate.write_text("old")
    key.write_text("old")

    def make() -> str:
        if certificate.read_text() != key.read_text():
            raise ValueError("the key does not belong to it")
        return key.read_text()

    one = MadeOfFiles([str(certificate), str(key)], make, subject="the certificate", now_ns=clock.monotonic_ns)
    replace(certificate, "newer")
    for _ in range(3):
        clock.advance(ns=LOOK_INTERVAL_NS)
        assert one.current() == "old"
    assert caplog.text.count("the certificate stays as it was") == 1
    assert "the key does not belong to it" in caplog.text
    key.unlink()
    clock.advance(ns=LOOK_INTERVAL_NS)
    assert one.current() == "old"
    replace(key, "newer")
    clock.advance(ns=LOOK_INTERVAL_NS)
    assert one.current() == "newer"


def test_files_whose_rights_are_mended_are_read_again(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "key"
    path.write_text("old")

    def make() -> str:
        if not path.stat().st_mode & 0o400:  # root may read all
            raise PermissionError("permission denied")
        return path.read_text()

    one = MadeOfFiles([str(path)], make, subject="it", now_ns=clock.monotonic_ns)
    replace(path, "newer")
    path.chmod(0)
    clock.advance(ns=LOOK_INTERVAL_NS)
    assert one.current() == "old"
    path.chmod(0o400)
    clock.advance(ns=LOOK_INTERVAL_NS)
    assert one.current() == "newer"


def test_files_that_can_t_be_used_at_the_start_are_the_caller_s(tmp_path: Path) -> None:
    def make() -> str:
        raise ValueError("no certificate")

    with pytest.raises(ValueError, match="no certificate"):
        MadeOfFiles([str(tmp_path / "nowhere")], make, subject="it")


@pytest.mark.parametrize("put_there", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_holds_nothing_up(
    tmp_path: Path, clock: ManualClock, put_there: Callable[[Path], None]
) -> None:
    path = tmp_path / "certificate"
    path.write_text("old")
    one = MadeOfFiles([str(path)], path.read_text, subject="it", now_ns=clock.monotonic_ns)
    path.unlink()
    put_there(path)
    clock.advance(ns=LOOK_INTERVAL_NS)
    assert one.current() == "old"
    one.read_again()
    assert one.complaint == f"it stays as it was: {path} is no regular file"
