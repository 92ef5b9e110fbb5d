"""A data directory lists its formats, and a version that lacks one of them refuses it before it changes anything."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from queue_engine.engine.data_formats import FORMATS, NAME, NewerDirectoryError
from queue_engine.storage.disk.checked_line import decode_line, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import NewerFormatError
from queue_engine.vocabulary.version import VERSION
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine
from tests.support.topology import unpack_897736b

ROOT = Path(__file__).parents[2]
# Modules with a format version that the list leaves out, and why an older version does no harm.
DERIVED = "an older version makes it anew"
OWN_CHECK = "whoever reads it checks its version, and nothing else needs it"
LEFT_OUT = {
    "queue_engine.engine.aside_files": DERIVED,
    "queue_engine.storage.commit_log.checkpoint": DERIVED,
    "queue_engine.engine.data_formats": "the list itself",
    "queue_engine.storage.disk.backup_files": OWN_CHECK,
    "queue_engine.service.identity.token_file": OWN_CHECK,
    "queue_engine.storage.key_index.key_file": DERIVED,
    "queue_engine.storage.key_index.key_state": DERIVED,
    "queue_engine.storage.log_store.clock_file": DERIVED,
    "queue_engine.daemon.nsqd_import.state": OWN_CHECK,
    "queue_engine.engine.samples.sample_format": "newer samples stay in place, unread, and stop nothing",
    "queue_engine.engine.samples.sample_log": "newer samples stay in place, unread, and stop nothing",
}


class FullForTheList(Files):
    """A disk that has room for all but the list."""

    def replace(self, path: str, data: bytes) -> None:
        if path.endswith(NAME):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().replace(path, data)


def listed(directory: Path) -> dict[str, object]:
    content = decode_line((directory / NAME).read_bytes())
    assert content is not None
    return content


def write(directory: Path, formats: dict[str, int]) -> None:
    (directory / NAME).write_bytes(encode_line({"version": 1, "written_by": "7.0.0", "formats": formats}))


def stopped(directory: Path) -> None:
    """A directory with a message, after a clean stop."""
    engine = make_engine(directory, ManualClock())
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.topics["orders"].publish([b"one"])
    engine.turn()
    engine.close()


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_a_start_lists_what_this_version_reads_and_writes(tmp_path: Path) -> None:
    stopped(tmp_path)
    assert listed(tmp_path) == {"version": 1, "written_by": VERSION, "formats": FORMATS}


@pytest.mark.parametrize("name", [*FORMATS, "quotas.json"])
def test_a_format_that_is_newer_or_unknown_is_refused_and_nothing_is_changed(tmp_path: Path, name: str) -> None:
    stopped(tmp_path)
    known = FORMATS.get(name, 0)
    write(tmp_path, {**FORMATS, name: known + 1})
    before = contents(tmp_path)
    with pytest.raises(NewerDirectoryError) as caught:
        make_engine(tmp_path, ManualClock())
    assert contents(tmp_path) == before
    of_this = f"up to {known}" if known else "none"
    assert str(caught.value) == (
        f"Penstock 7.0.0 has written {tmp_path}, with formats that this version, {VERSION}, can't read. Format of the "
        f"directory (of this version): {name} {known + 1} ({of_this}). Nothing was changed. Start 7.0.0 or a newer "
        "version, or restore a backup that was made before it started"
    )


def test_a_list_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    stopped(tmp_path)
    (tmp_path / NAME).write_bytes(encode_line({"version": 2, "anything": []}))
    with pytest.raises(NewerFormatError, match=r"formats\.json has format version 2"):
        make_engine(tmp_path, ManualClock())


def test_it_is_read_before_any_other_file(tmp_path: Path) -> None:
    """Also before those that are damaged, which a start would complain of or set aside."""
    stopped(tmp_path)
    write(tmp_path, {"topology.json": 99})
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != NAME:
            path.write_bytes(b"not what was written")
    with pytest.raises(NewerDirectoryError):
        make_engine(tmp_path, ManualClock())


@pytest.mark.parametrize("older", [{}, {"topology.json": 1}])
def test_an_older_directory_is_opened_and_its_list_is_brought_up_to_date(tmp_path: Path, older: dict[str, int]) -> None:
    stopped(tmp_path)
    write(tmp_path, older)
    engine = make_engine(tmp_path, ManualClock())
    assert listed(tmp_path)["formats"] == FORMATS
    client = Client(engine, "orders", "billing", ready=1)
    engine.turn()
    assert [one.body for one in client.sink.received] == [b"one"]


@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_a_directory_of_before_the_list_gets_one_at_its_first_start(tmp_path: Path, state: str) -> None:
    unpack_897736b(tmp_path)
    make_engine(
        tmp_path / state,
        ManualClock(time_ns=1_790_000_100_000_000_000),
        log_segment_bytes=1 << 16,
        max_msg_size=2_000,
        max_body_size=4_000,
    )
    assert listed(tmp_path / state)["formats"] == FORMATS


@pytest.mark.parametrize("damage", [b"", b"{", b'{"version": 1}\n00000000\n'])
def test_a_damaged_list_stops_nothing_and_is_written_again(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stopped(tmp_path)
    (tmp_path / NAME).write_bytes(damage)
    make_engine(tmp_path, ManualClock())
    assert "formats.json is damaged" in caplog.text
    assert listed(tmp_path)["formats"] == FORMATS


def test_a_disk_that_takes_no_list_stops_no_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stopped(tmp_path)
    (tmp_path / NAME).unlink()
    engine = make_engine(tmp_path, ManualClock(), files=FullForTheList())
    assert "formats.json can't be written: [Errno 28] No space left on device" in caplog.text
    engine.close()
    make_engine(tmp_path, ManualClock()).close()
    assert listed(tmp_path)["formats"] == FORMATS


def test_the_same_list_is_not_written_again(tmp_path: Path) -> None:
    stopped(tmp_path)
    before = (tmp_path / NAME).stat()
    stopped_again = make_engine(tmp_path, ManualClock())
    stopped_again.close()
    after = (tmp_path / NAME).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_commands_on_topology_refuse_it_too(tmp_path: Path) -> None:
    stopped(tmp_path)
    write(tmp_path, {"topology.json": 99})
    before = contents(tmp_path)
    for verb in ("show", "check", "accept", "rebuild"):
        done = subprocess.run(
            [sys.executable, ROOT / "manage.py", "topology", verb, f"--data-path={tmp_path}"],
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode != 0
        assert "Penstock 7.0.0 has written" in done.stderr
    assert contents(tmp_path) == before


def test_every_format_of_the_engine_is_in_the_list_or_left_out_for_a_reason() -> None:
    versioned = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "queue_engine").rglob("*.py")
        if re.search(r"^(?:VERSION|FORMAT|CHANGES_FORMAT) = \d+\b", path.read_text(), re.MULTILINE)
    }
    source = (ROOT / "queue_engine/engine/data_formats.py").read_text()
    taken = set(re.findall(r"^from (\S+) import (?:VERSION|FORMAT|CHANGES_FORMAT)\b", source, re.MULTILINE))
    of_pipeline = {name for name in versioned if name.startswith("queue_engine.lake.")}
    assert (taken - {"queue_engine.vocabulary.version"}) | LEFT_OUT.keys() == versioned - of_pipeline
