"""What looks after written audit rows: the file that names the newest, the check, and the removal of old ones."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copyfile

import pytest
from django.db import DatabaseError, connection
from django.test import Client

from admin_console.audit import upkeep as upkeep_module
from admin_console.audit.ageing import remove_old_rows, remove_rows_for_size
from admin_console.audit.chain import append
from admin_console.audit.models import AuditRow
from admin_console.audit.record import now_ms
from admin_console.audit.upkeep import AuditUpkeep, ChainState, ListSize
from admin_console.audit.verification import ChainCheck, all_rows
from admin_console.views.notices import notices
from admin_console.vocabulary.roles import Role
from tests.console.audit.test_audit import row
from tests.console.audit.test_chain import DATABASE, TABLE, add_rows, insert, manage, migrated, tampered, values_of
from tests.support.pages.console import client_of, make_user
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

__all__ = ["migrated"]
START_MS = 1_800_000_000_000
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


@pytest.fixture
def data_path(migrated: Path, tmp_path: Path) -> Path:
    """Ten rows."""
    copyfile(migrated / DATABASE, tmp_path / DATABASE)
    add_rows(tmp_path, 1, 10)
    return tmp_path


@pytest.fixture
def upkeep(data_path: Path) -> AuditUpkeep:
    return AuditUpkeep(data_path, data_path / DATABASE, retention_ms=0)


def named(data_path: Path) -> int:
    return int(json.loads((data_path / "audit-head").read_text())["id"])


@pytest.mark.slow(reason="starts processes")
def test_the_newest_hash_goes_to_a_private_file_every_minute(upkeep: AuditUpkeep, data_path: Path) -> None:
    upkeep.run_once(START_MS)
    path = data_path / "audit-head"
    with closing(sqlite3.connect(data_path / DATABASE)) as database:
        (newest,) = database.execute(f"SELECT hash FROM {TABLE} WHERE id = 10").fetchone()
    assert json.loads(path.read_text()) == {"version": 1, "id": 10, "hash": newest, "at_ms": START_MS}
    assert path.stat().st_mode & 0o777 == 0o600
    number = path.stat().st_ino
    add_rows(data_path, 11, 12)
    upkeep.run_once(START_MS + MINUTE_MS - 1)
    assert named(data_path) == 10
    upkeep.run_once(START_MS + MINUTE_MS)
    assert named(data_path) == 12
    assert path.stat().st_ino != number  # another file took its place: no moment had half of one
    assert sorted(one.name for one in data_path.iterdir() if "tmp" in one.name) == []


def test_a_missing_file_is_logged_where_rows_of_an_earlier_start_are(
    upkeep: AuditUpkeep, data_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep.run_once(START_MS)
    assert f"{data_path / 'audit-head'} is missing; the server writes a new one for row 10" in caplog.text
    caplog.clear()
    AuditUpkeep(data_path, data_path / DATABASE, retention_ms=0).run_once(START_MS)
    (data_path / "audit-head").unlink()
    tampered(data_path, "UPDATE T SET at_ms = 9223372036854775807")  # as those of this start are
    AuditUpkeep(data_path, data_path / DATABASE, retention_ms=0).run_once(START_MS)
    assert "is missing" not in caplog.text


def test_it_is_named_once_more_at_the_end_and_when_the_clock_was_set_back(upkeep: AuditUpkeep, data_path: Path) -> None:
    upkeep.run_once(START_MS)
    add_rows(data_path, 11, 11)
    upkeep.run_once(START_MS - 5 * DAY_MS)
    assert named(data_path) == 11
    add_rows(data_path, 12, 12)
    upkeep.run_once(START_MS - 5 * DAY_MS + 1, is_last=True)
    assert named(data_path) == 12


@pytest.mark.parametrize(
    "statements",
    [["DELETE FROM T WHERE id > 8"], ["UPDATE T SET hash = previous_hash WHERE id = 10"]],
    ids=["cut off", "written anew"],
)
def test_rows_that_were_cut_off_are_not_covered_up(upkeep: AuditUpkeep, data_path: Path, statements: list[str]) -> None:
    upkeep.run_once(START_MS)
    tampered(data_path, *statements)
    upkeep.run_once(START_MS + MINUTE_MS)
    assert named(data_path) == 10
    assert f"Row 10 is not there as {data_path / 'audit-head'} names it" in upkeep.state.faults[-1]
    (data_path / "audit-head").unlink()
    upkeep.run_once(START_MS + 2 * MINUTE_MS)
    assert (named(data_path) == 8) == (len(statements[0]) < 30)


def test_a_damaged_file_is_told_and_left_as_it_is(upkeep: AuditUpkeep, data_path: Path) -> None:
    (data_path / "audit-head").write_text("{")
    upkeep.run_once(START_MS)
    assert "audit-head is damaged" in upkeep.state.faults[0]
    assert (data_path / "audit-head").read_text() == "{"


def test_all_rows_are_looked_at_piece_by_piece_and_the_new_ones_as_they_come(
    upkeep: AuditUpkeep, data_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_module, "ROWS_A_TICK", 4)
    seen = []
    for _ in range(3):
        upkeep.run_once(START_MS)
        seen.append((upkeep.state.row_count, upkeep.state.is_complete))
    assert seen == [(4, False), (8, False), (10, True)]
    add_rows(data_path, 11, 11)
    upkeep.run_once(START_MS + 1)
    assert upkeep.state == ChainState(11, 11, START_MS + 1, is_complete=True)


def test_while_the_list_is_checked_anew_the_last_answer_stands(
    upkeep: AuditUpkeep, data_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep.run_once(START_MS)
    monkeypatch.setattr(upkeep_module, "ROWS_A_TICK", 5)
    tampered(data_path, "UPDATE T SET actor = 'eve' WHERE id = 3")
    seen = []
    for number in range(3):
        upkeep.run_once(START_MS + DAY_MS + number)
        seen.append((upkeep.state.row_count, upkeep.state.is_complete, len(upkeep.state.faults)))
    assert seen == [(10, True, 0), (10, True, 0), (10, True, 1)]


def test_a_link_in_the_place_of_the_file_is_neither_followed_nor_replaced(
    upkeep: AuditUpkeep, data_path: Path, tmp_path: Path
) -> None:
    (data_path / "audit-head").symlink_to(tmp_path / "elsewhere")
    upkeep.run_once(START_MS)
    assert "audit-head can't be read" in upkeep.state.faults[0]
    assert (data_path / "audit-head").is_symlink()
    assert not (tmp_path / "elsewhere").exists()


def test_what_was_changed_later_is_found_by_the_next_days_check(upkeep: AuditUpkeep, data_path: Path) -> None:
    upkeep.run_once(START_MS)
    tampered(data_path, "UPDATE T SET actor = 'eve' WHERE id = 3")
    upkeep.run_once(START_MS + 1)
    assert upkeep.state.faults == ()
    upkeep.run_once(START_MS + DAY_MS)
    assert upkeep.state.faults == ("Row 3 was changed. Its content now: pause_topic t3 by eve done.",)


def test_a_new_database_in_the_place_of_a_damaged_one_is_checked_from_its_beginning(
    upkeep: AuditUpkeep, data_path: Path, migrated: Path
) -> None:
    upkeep.run_once(START_MS)
    (data_path / DATABASE).rename(data_path / "aside")
    (data_path / "audit-head").unlink()
    copyfile(migrated / DATABASE, data_path / DATABASE)
    add_rows(data_path, 1, 2)
    upkeep.run_once(START_MS + MINUTE_MS)
    assert (upkeep.state.row_count, upkeep.state.faults) == (2, ())


def test_a_disk_that_takes_no_file_harms_nothing(
    upkeep: AuditUpkeep, data_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(upkeep_module, "write_head", full)
    upkeep.run_once(START_MS)
    assert (upkeep.state.row_count, upkeep.state.faults) == (10, ())
    monkeypatch.undo()
    upkeep.run_once(START_MS + MINUTE_MS)
    assert named(data_path) == 10


# Removing old rows.


@pytest.fixture
def rows(db: None) -> Iterator[None]:
    """Ten rows, a day between them, in Django's own database."""
    append([row(number, at_ms=START_MS + number * DAY_MS) for number in range(1, 11)])
    return


def check() -> list[str]:
    found = ChainCheck()
    for one in all_rows(connection.connection):
        found.take(one)
    return found.faults()


@pytest.mark.usefixtures("rows")
def test_only_a_whole_beginning_is_removed_and_the_last_removed_hash_is_kept() -> None:
    last_hash = AuditRow.objects.get(id=4).hash
    assert remove_old_rows(START_MS + 5 * DAY_MS, START_MS + 20 * DAY_MS) == 4
    assert list(AuditRow.objects.order_by("id").values_list("id", flat=True)) == [5, 6, 7, 8, 9, 10, 11]
    told = AuditRow.objects.get(id=11)
    assert (told.action, told.detail, told.counts) == ("remove_old_rows", f"4 {last_hash}", {"rows": 4})
    assert told.message == "Removed rows 1 to 4 of this list, up to 2027-01-19, for their age."
    assert check() == []


@pytest.mark.usefixtures("rows")
def test_a_young_row_keeps_those_behind_it() -> None:
    append([row(11, at_ms=START_MS), row(12, at_ms=START_MS + 12 * DAY_MS)])
    assert remove_old_rows(START_MS + 2 * DAY_MS, START_MS + 20 * DAY_MS) == 1
    assert AuditRow.objects.filter(at_ms=START_MS).exists()
    assert check() == []


@pytest.mark.usefixtures("rows")
def test_rows_go_in_pieces_and_the_row_about_it_is_no_reason_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_console.audit.ageing.ROWS_AT_ONCE", 4)
    assert remove_old_rows(START_MS + 50 * DAY_MS, START_MS + 20 * DAY_MS) == 12
    assert [one.action for one in AuditRow.objects.all()] == ["remove_old_rows"]
    assert remove_old_rows(START_MS + 50 * DAY_MS, START_MS + 30 * DAY_MS) == 0
    append([row(30)])
    assert check() == []


@pytest.mark.usefixtures("rows")
def test_a_beginning_that_was_removed_without_a_row_is_named() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {TABLE} WHERE id <= 3")
    assert check() == ["Rows 1 to 3 were removed, and not by Penstock."]


def test_the_upkeep_removes_once_a_day_and_never_from_a_list_with_faults(
    data_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[int] = []
    monkeypatch.setattr(upkeep_module, "remove_old_rows", lambda before_ms, _: removed.append(before_ms) or 0)
    upkeep = AuditUpkeep(data_path, data_path / DATABASE, retention_ms=400 * DAY_MS)
    for at_ms in (START_MS, START_MS + MINUTE_MS, START_MS + DAY_MS):
        upkeep.run_once(at_ms)
    assert removed == [START_MS - 400 * DAY_MS, START_MS - 399 * DAY_MS]
    tampered(data_path, "UPDATE T SET actor = 'eve' WHERE id = 3")
    upkeep.run_once(START_MS + 2 * DAY_MS)
    assert len(removed) == 2


def test_nothing_is_removed_in_the_middle_of_a_check_that_would_miss_it(
    data_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[int] = []
    monkeypatch.setattr(upkeep_module, "remove_old_rows", lambda before_ms, _: removed.append(before_ms) or 0)
    monkeypatch.setattr(upkeep_module, "ROWS_A_TICK", 4)
    upkeep = AuditUpkeep(data_path, data_path / DATABASE, retention_ms=400 * DAY_MS)
    counts = []
    # Both are due at once when the machine slept, or its clock was set.
    for at_ms in (START_MS, START_MS, START_MS, START_MS + 2 * DAY_MS, START_MS + 2 * DAY_MS, START_MS + 2 * DAY_MS):
        upkeep.run_once(at_ms)
        counts.append(len(removed))
    assert counts == [0, 0, 1, 1, 1, 2]


def test_the_database_lets_nothing_be_removed_behind_what_the_row_names(data_path: Path) -> None:
    with closing(sqlite3.connect(data_path / DATABASE)) as database, database:
        add_rows(data_path, 11, 11, action="remove_old_rows", via="server", detail="4 " + "a" * 64)
        database.execute(f"DELETE FROM {TABLE} WHERE id <= 4")
        with pytest.raises(sqlite3.IntegrityError, match="audit rows are never removed"):
            database.execute(f"DELETE FROM {TABLE} WHERE id <= 5")


# The size of the list.


@pytest.fixture
def few_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_console.audit.ageing.ROWS_MIN", 2)


@pytest.mark.usefixtures("rows", "few_stay")
def test_the_oldest_rows_go_for_the_size_and_the_chain_stays_whole() -> None:
    last_hash = AuditRow.objects.get(id=4).hash
    assert remove_rows_for_size(1_000, 700, START_MS + 20 * DAY_MS) == 4
    assert AuditRow.objects.order_by("id").values_list("id", flat=True)[0] == 5
    told = AuditRow.objects.get(id=11)
    assert (told.action, told.detail, told.counts) == ("remove_old_rows", f"4 {last_hash}", {"rows": 4})
    assert told.message == "Removed rows 1 to 4 of this list, up to 2027-01-19, since the list took 1,000 bytes."
    assert check() == []


@pytest.mark.usefixtures("rows", "few_stay")
def test_the_newest_rows_stay_whatever_the_database_takes() -> None:
    assert remove_rows_for_size(1_000_000, 1, START_MS + 20 * DAY_MS) == 8
    assert remove_rows_for_size(1_000_000, 1, START_MS + 20 * DAY_MS) == 1
    assert remove_rows_for_size(1_000_000, 1, START_MS + 20 * DAY_MS) == 1
    assert AuditRow.objects.count() == 3
    assert check() == []


@pytest.mark.usefixtures("rows", "few_stay")
def test_a_removal_that_fails_leaves_the_list_as_it_was() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TRIGGER full BEFORE DELETE ON {TABLE} WHEN OLD.id = 3 BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
    with pytest.raises(DatabaseError, match="disk full"):
        remove_rows_for_size(1_000, 500, START_MS + 20 * DAY_MS)
    assert list(AuditRow.objects.order_by("id").values_list("id", flat=True)) == list(range(1, 11))
    assert check() == []


def test_the_upkeep_removes_rows_while_the_list_is_too_large_and_has_no_faults(
    data_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[tuple[int, int]] = []
    monkeypatch.setattr(
        upkeep_module, "remove_rows_for_size", lambda used, bytes_max, _: removed.append((used, bytes_max)) or 1
    )
    size = (data_path / DATABASE).stat().st_size
    large = AuditUpkeep(data_path, data_path / DATABASE, retention_ms=0, bytes_max=size)
    large.run_once(START_MS)
    assert removed == []
    assert large.size == ListSize(size, size, size, 1_700_000_000_001)
    small = AuditUpkeep(data_path, data_path / DATABASE, retention_ms=0, bytes_max=size - 1)
    for second in range(3):
        small.run_once(START_MS + second * 1_000)  # each second, until enough are gone
    assert removed == [(size, int((size - 1) * 0.9))] * 3
    tampered(data_path, "UPDATE T SET actor = 'eve' WHERE id = 3")
    for second in range(3):
        small.run_once(START_MS + DAY_MS + second * 1_000)
    assert small.state.faults
    assert len(removed) == 3


@pytest.mark.slow(reason="a real server removes rows")
@pytest.mark.timeout(300)
def test_a_server_cuts_a_list_that_is_too_large_and_the_rest_holds(migrated: Path, tmp_path: Path) -> None:
    copyfile(migrated / DATABASE, tmp_path / DATABASE)
    add_rows(tmp_path, 1, 11_000, message="x" * 2_000, at_ms=now_ms())
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        count, first = f"SELECT count(*) FROM {TABLE}", f"SELECT min(id) FROM {TABLE}"
        told = "Upgrade: the audit list now takes at most --audit-retention-bytes, and this one is larger."
        with ServerProcess(tmp_path, options=["--no-pipeline", "--audit-retention-bytes=0"]) as unlimited:
            assert database.execute(first).fetchone()[0] == 1
        assert told not in unlimited.log
        with ServerProcess(tmp_path, options=["--no-pipeline", "--audit-retention-bytes", str(16 << 20)]) as limited:
            wait_for("a shorter list", lambda: database.execute(first).fetchone()[0] > 1, timeout_s=120)
        assert told in limited.log
        assert 10_000 <= database.execute(count).fetchone()[0] < 11_000
    verified = manage(tmp_path, "audit", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr


# The page.


@pytest.mark.parametrize(
    ("size", "faults", "sentence"),
    [
        (
            ListSize(5 << 20, 6 << 20, 1 << 30, 1_700_000_000_000),
            (),
            "The list takes 5.0 MiB of at most 1.0 GiB; its oldest row is of 2023-11-14 22:13:20 UTC.",
        ),
        (ListSize(5 << 20, 6 << 20, 0, 0), (), "The list takes 5.0 MiB without a limit."),
        (
            ListSize(2 << 30, 2 << 30, 1 << 30, 0),
            ("Row 4 was removed.",),
            "The list takes 2.0 GiB of at most 1.0 GiB. No row is removed while it is not as it was written.",
        ),
    ],
)
def test_the_page_says_how_large_the_list_is(
    db: None, monkeypatch: pytest.MonkeyPatch, size: ListSize, faults: tuple[str, ...], sentence: str
) -> None:
    upkeep = AuditUpkeep(Path("unused"), Path("unused"), retention_ms=0)
    upkeep.size = size
    upkeep.state = ChainState(9, 9, 1_700_000_000_000, is_complete=True, faults=faults)
    monkeypatch.setattr(upkeep_module, "_upkeep", upkeep)
    assert sentence in client_of(make_user("reader", Role.OPERATOR)).get("/audit/").content.decode()


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (
            ChainState(12_345, 12_400, 1_700_000_000_000, is_complete=True),
            "No row was changed or removed: 12,345 rows, checked up to row 12,400 at 2023-11-14 22:13:20 UTC.",
        ),
        (
            ChainState(1_000, 1_000, 1_700_000_000_000),
            "Checking whether a row was changed: 1,000 rows so far, none was.",
        ),
        (
            ChainState(9, 9, 1_700_000_000_000, is_complete=True, faults=("Row 4 was removed.", "Row 7 was removed.")),
            "Not as it was written: Row 4 was removed.",
        ),
    ],
)
def test_the_page_says_whether_the_chain_holds(
    db: None, monkeypatch: pytest.MonkeyPatch, state: ChainState, sentence: str
) -> None:
    upkeep = AuditUpkeep(Path("unused"), Path("unused"), retention_ms=0)
    upkeep.state = state
    monkeypatch.setattr(upkeep_module, "_upkeep", upkeep)
    page = client_of(make_user("reader", Role.OPERATOR)).get("/audit/").content.decode()
    assert sentence in page
    told = [notice.text for notice in notices() if "not as it was written" in notice.title]
    assert told == (["Row 4 was removed. 1 more: `penstock audit verify` names them."] if state.faults else [])


def test_a_row_on_the_page_that_is_not_as_it_was_written_is_marked(db: None) -> None:
    client: Client = client_of(make_user("reader", Role.OPERATOR))
    append([row(1)])
    assert "not as written" not in client.get("/audit/").content.decode()
    AuditRow(id=2, previous_hash="a" * 64, hash="b" * 64, **values_of(2, actor="eve")).save()
    page = client.get("/audit/").content.decode()
    assert page.count("not as written") == 1
    assert "The hash of row 2 does not match its content" in page


@pytest.mark.parametrize(
    "fields",
    [{"at_ms": 10**17}, {"at_ms": "noon"}, {"verdict": "fine"}, {"counts": [1]}, {"counts": {"depth": "many"}}],
    ids=str,
)
def test_a_row_that_says_nonsense_costs_no_other_row(db: None, fields: dict[str, object]) -> None:
    append([AuditRow(**values_of(1, actor="adam"))])
    insert(connection.connection, 2, "a" * 64, values_of(2, actor="eve") | fields)
    answer = client_of(make_user("reader", Role.OPERATOR)).get("/audit/")
    assert answer.status_code == 200
    assert all(name in answer.content.decode() for name in ("adam", "eve"))
