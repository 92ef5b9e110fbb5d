"""The file of acts: every line durable, numbered and checked; torn, damaged, full and refused."""

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from queue_engine.act_file.act_file import FILES_MAX, NAME, ActFile
from queue_engine.act_file.act_reader import has_entries, read_page
from queue_engine.act_file.act_writer import REPEATS_AT_ONCE, WAITING_MAX_OF_ACTS, ActWriter
from queue_engine.act_file.entry import Entry, decode_entry, encode_entry, entry_of
from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.disk.background import InlineBackground
from queue_engine.disk.files import Files
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.stores.background import HeldBackground


def entry(number: int) -> Entry:
    return Entry(
        number, "event", "", "empty_topic", f"t{number}", "", "192.0.2.1:5", actor="deploy", counts={"depth": 3}
    )


def act(action: str = "empty_topic", *, act_id: str = "", error: str = "", topic: str = "t") -> ActRecord:
    outcome = None if error else Outcome(depth=7)
    return ActRecord(action, topic, "", "192.0.2.1:5", error, outcome, act_id=act_id, actor="deploy")


def numbers(directory: Path, count: int = 1_000, before: int = 0) -> list[int | None]:
    return [one.number for one in read_page(directory, count=count, before=before).entries]


def test_lines_are_read_newest_first_and_survive_a_restart(tmp_path: Path) -> None:
    assert not has_entries(tmp_path)
    for start in (1, 4):
        file = ActFile(str(tmp_path), Files())
        file.append([entry(n) for n in range(start, start + 3)])
        file.close()
    assert has_entries(tmp_path)
    page = read_page(tmp_path, count=4)
    assert [(one.number, one.entry) for one in page.entries] == [(n, entry(n)) for n in (6, 5, 4, 3)]
    assert page.has_older
    assert numbers(tmp_path, before=3) == [2, 1]
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_the_line_has_the_documented_form() -> None:
    line = encode_entry(7, entry(5))
    assert line.endswith(b"\n")
    assert line[8:9] == b" "
    assert decode_entry(line[:-1]) == (7, entry(5))
    assert b'"times"' not in line
    assert [
        at for at in range(len(line) - 1) if decode_entry(line[:at] + bytes([line[at] ^ 1]) + line[at + 1 : -1])
    ] == []


def test_a_torn_tail_is_cut_off_at_every_byte(tmp_path: Path) -> None:
    file = ActFile(str(tmp_path), Files())
    # The torn line is longer than the next one, which would not cover it.
    file.append([entry(1), replace(entry(2), error="e" * 200)])
    file.close()
    whole = (tmp_path / NAME).read_bytes()
    end = len(encode_entry(1, entry(1)))
    for at in range(end, len(whole), 3):
        (tmp_path / NAME).write_bytes(whole[:at])
        file = ActFile(str(tmp_path), Files())
        file.append([entry(9)])
        file.close()
        found = read_page(tmp_path, count=9)
        assert [(one.number, one.entry) for one in found.entries] == [(2, entry(9)), (1, entry(1))]
        assert os.listdir(tmp_path) == [NAME]
        assert (tmp_path / NAME).stat().st_size == end + len(encode_entry(2, entry(9)))


def test_damage_in_the_middle_stays_and_shows(tmp_path: Path) -> None:
    file = ActFile(str(tmp_path), Files())
    file.append([entry(n) for n in (1, 2, 3)])
    file.close()
    whole = (tmp_path / NAME).read_bytes()
    at = len(whole) // 2
    (tmp_path / NAME).write_bytes(whole[:at] + b"X" + whole[at + 1 :])
    file = ActFile(str(tmp_path), Files())
    file.append([entry(4)])
    file.close()
    assert numbers(tmp_path) == [4, 3, None, 1]


def test_a_damaged_end_is_kept_aside(tmp_path: Path) -> None:
    file = ActFile(str(tmp_path), Files())
    file.append([entry(n) for n in (1, 2, 3)])
    file.close()
    first = len(encode_entry(1, entry(1)))
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:first] + bytes(byte ^ 1 if byte != 10 else 10 for byte in whole[first:]))
    file = ActFile(str(tmp_path), Files())
    file.append([entry(4)])
    file.close()
    assert sorted(os.listdir(tmp_path)) == ["api-audit.000000000001.log", NAME]
    assert numbers(tmp_path) == [2, None, None, 1]


def test_full_files_get_their_number_and_the_oldest_go(tmp_path: Path) -> None:
    file = ActFile(str(tmp_path), Files(), file_bytes_max=1)
    for number in range(1, FILES_MAX + 5):
        file.append([entry(number)])
    file.close()
    assert len(os.listdir(tmp_path)) == FILES_MAX + 1
    assert numbers(tmp_path) == list(range(FILES_MAX + 4, 3, -1))
    again = ActFile(str(tmp_path), Files(), file_bytes_max=1)
    again.append([entry(99)])
    again.close()
    assert numbers(tmp_path)[0] == FILES_MAX + 5


@pytest.mark.parametrize("steps", range(9))
def test_a_process_that_dies_leaves_all_that_was_acknowledged(tmp_path: Path, steps: int) -> None:
    files = FaultyFiles()
    file = ActFile(str(tmp_path), files, file_bytes_max=300)
    acknowledged = 0
    files.dies_after = steps
    try:
        for number in range(1, 6):
            file.append([entry(number)])
            acknowledged = number
    except ProcessDiedError:
        pass
    files.abandon()
    again = ActFile(str(tmp_path), Files(), file_bytes_max=300)
    again.append([entry(0)])
    again.close()
    found = [one.entry for one in read_page(tmp_path, count=99).entries]
    assert None not in found
    kept = [one.at_ms for one in reversed(found) if one is not None]
    assert kept[-1] == 0
    assert kept[:acknowledged] == list(range(1, acknowledged + 1))
    assert len(kept) - 1 in (acknowledged, acknowledged + 1)
    assert numbers(tmp_path) == list(range(len(kept), 0, -1))


@pytest.mark.parametrize("operation", ["write", "sync_data", "create", "sync"])
def test_a_refused_line_is_written_once_when_the_disk_is_well(tmp_path: Path, operation: str) -> None:
    files = FaultyFiles()
    file = ActFile(str(tmp_path), files)
    files.fail(operation, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        file.append([entry(1)])
    file.append([entry(1)])
    file.append([entry(2)])
    file.close()
    assert numbers(tmp_path) == [2, 1]
    assert not files.open_fds


def writer(directory: Path, background: HeldBackground | InlineBackground, files: Files | None = None) -> ActWriter:
    return ActWriter(ActFile(str(directory), files or Files()), background, ManualClock())


def test_an_act_begins_once_its_line_is_on_the_disk(tmp_path: Path) -> None:
    background = HeldBackground()
    acts = writer(tmp_path, background)
    begun: list[str] = []
    acts.begin(replace(act(act_id="a"), outcome=None), lambda is_kept: begun.append(f"a {is_kept}"))
    acts.begin(replace(act(act_id="b"), outcome=None), lambda is_kept: begun.append(f"b {is_kept}"))
    assert begun == []
    background.work()
    background.answer()
    assert begun == ["a True"]
    assert [one.entry.act for one in read_page(tmp_path, count=9).entries if one.entry] == ["a"]
    background.finish()
    assert begun == ["a True", "b True"]
    acts.tell(act(act_id="a"))
    background.finish()
    found = [one.entry for one in read_page(tmp_path, count=9).entries]
    # An intent with a result is one line of the page.
    assert [(one.phase, one.act, one.counts) for one in found if one is not None] == [
        ("result", "a", {"depth": 7}),
        ("intent", "b", {}),
    ]
    acts.close()


def test_while_the_disk_refuses_acts_go_on_until_memory_is_full(tmp_path: Path) -> None:
    files = FaultyFiles()
    acts = writer(tmp_path, InlineBackground(), files)
    files.fail("write", errno.ENOSPC, count=10**9)
    begun: list[bool] = []
    for number in range(WAITING_MAX_OF_ACTS):
        acts.begin(act(act_id=f"{number}"), begun.append)
    assert acts.error
    assert begun == [True] * WAITING_MAX_OF_ACTS
    assert not acts.has_room
    acts.begin(act(act_id="one too many"), begun.append)
    assert begun[-1] is False
    files.heal()
    acts.look()
    assert acts.error == ""
    assert acts.has_room
    assert len(numbers(tmp_path, count=20_000)) == WAITING_MAX_OF_ACTS
    acts.close()


def test_what_an_address_repeats_is_counted(tmp_path: Path) -> None:
    acts = writer(tmp_path, InlineBackground())
    for _ in range(REPEATS_AT_ONCE + 1_000):
        acts.tell(act(error="TOKEN_REQUIRED: no"))
    for _ in range(50):
        acts.tell(act("read_messages"))
    acts.tell(act("pause_topic"))
    acts.tell(act("pause_topic"))
    acts.close()
    found = [one.entry for one in reversed(read_page(tmp_path, count=99).entries) if one.entry]
    assert [(one.action, bool(one.error), one.times) for one in found] == [
        *[("empty_topic", True, 1)] * REPEATS_AT_ONCE,
        ("read_messages", False, 1),
        *[("pause_topic", False, 1)] * 2,
        ("empty_topic", True, 1_000),
        ("read_messages", False, 49),
    ]


def test_a_stop_writes_each_line_once(tmp_path: Path) -> None:
    """The worker has begun nothing yet, and does its jobs when all is closed."""
    background = HeldBackground()
    acts = writer(tmp_path, background)
    for topic in ("a", "b"):
        acts.tell(act("read_messages", topic=topic))
        acts.tell(act("read_messages", topic=topic))
    acts.close()
    background.finish()
    found = [one.entry for one in reversed(read_page(tmp_path, count=99).entries) if one.entry]
    assert [one.topic for one in found] == ["a", "b", "a", "b"]
    assert numbers(tmp_path) == [4, 3, 2, 1]


def test_a_line_says_whether_the_act_created_anything() -> None:
    for created in (True, False):
        made = entry_of(ActRecord("create_topic", "t", "", "a", "", Outcome(created=created)), 1)
        assert decode_entry(encode_entry(1, made)[:-1]) == (1, made)
        assert made.created is created
    refused = entry_of(ActRecord("create_topic", "t", "", "a", "no", None), 1)
    assert b"created" not in encode_entry(1, refused)


def test_long_texts_are_cut() -> None:
    long = ActRecord("x" * 900, "t", "c", "a", "e" * 9_000, None, details={"reason": "r" * 900, "n": 5})
    made = entry_of(long, 1)
    assert (len(made.action), len(made.error), len(made.details["reason"]), made.details["n"]) == (500, 500, 500, 5)
