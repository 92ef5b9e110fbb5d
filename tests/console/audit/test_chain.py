"""The audit list's chain of hashes: whatever is done to the rows past Penstock, `audit verify` names it."""

import io
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from admin_console.audit import head_file
from admin_console.audit.chain import COLUMNS, GENESIS, hash_of
from admin_console.audit.head_file import Head
from tests.support.processes.server import ROOT

pytestmark = pytest.mark.slow(reason="starts processes")

TABLE = "admin_console_auditrow"
DATABASE = "console.sqlite3"
REPLACED = (
    "Row {} is not the one that row {} was written behind: it was changed together with its hash, or rows between the "
    "two were removed."
)


def manage(data_path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *arguments, f"--data-path={data_path}"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def migrate(data_path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Django's own command, which `penstock` does not have."""
    return subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity=0", *arguments],
        cwd=ROOT,
        env={
            "PATH": "/usr/bin:/bin",
            "DJANGO_SETTINGS_MODULE": "admin_console.settings",
            "PENSTOCK_DATA_PATH": str(data_path),
        },
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with an empty database."""
    path = tmp_path_factory.mktemp("audit")
    done = migrate(path)
    assert done.returncode == 0, done.stderr
    return path


def values_of(number: int, **fields: object) -> dict[str, object]:
    return {
        "act_id": f"act{number}",
        "phase": "event",
        "at_ms": 1_700_000_000_000 + number,
        "actor": "ada",
        "role": "admin",
        "address": "192.0.2.7",
        "via": "console",
        "action": "pause_topic",
        "topic": f"t{number}",
        "channel": "",
        "detail": "",
        "reason": "día ☃",
        "verdict": "done",
        "message": f"Sentence {number}.",
        "counts": {"in_flight": 1, "depth": number},
    } | fields


def insert(database: sqlite3.Connection, row_id: int, previous: str, values: dict[str, object]) -> str:
    """Put a row in, as Penstock would; its hash."""
    found = hash_of(previous, values)
    stored = [*(values[name] for name in COLUMNS[:-1]), json.dumps(values["counts"])]
    database.execute(
        f"INSERT INTO {TABLE} (id, previous_hash, hash, {', '.join(COLUMNS)})"
        f" VALUES (?, ?, ?, {', '.join('?' * len(COLUMNS))})",
        (row_id, previous, found, *stored),
    )
    return found


def add_rows(data_path: Path, first: int, last: int, **fields: object) -> str:
    """Rows behind those that are there, as Penstock writes them; the last one's hash."""
    with closing(sqlite3.connect(data_path / DATABASE)) as database, database:
        newest = database.execute(f"SELECT hash FROM {TABLE} ORDER BY id DESC LIMIT 1").fetchone()
        previous = newest[0] if newest else GENESIS
        for number in range(first, last + 1):
            previous = insert(database, number, previous, values_of(number, **fields))
    return previous


@pytest.fixture
def data_path(migrated: Path, tmp_path: Path) -> Path:
    """Ten rows, 1 to 10, and a file that names the newest."""
    (tmp_path / DATABASE).write_bytes((migrated / DATABASE).read_bytes())
    newest = add_rows(tmp_path, 1, 10)
    head_file.write_head(head_file.path_of(tmp_path), Head(10, newest), 1)
    return tmp_path


@pytest.fixture
def verify(data_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Runs `audit verify` in this process; returns what it says, faults too."""
    settings.DATA_PATH = data_path
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", data_path / DATABASE)

    def run(*arguments: str) -> str:
        out = io.StringIO()
        try:
            call_command("audit", "verify", *arguments, stdout=out)
        except CommandError as exc:
            return str(exc)
        return out.getvalue()

    return run


def tampered(data_path: Path, *statements: str) -> None:
    """Past Penstock and past the triggers."""
    with closing(sqlite3.connect(data_path / DATABASE)) as database, database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in names:
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement.replace("T ", f"{TABLE} ", 1))


def test_a_list_that_nobody_touched_holds(verify: Callable[[], str], data_path: Path) -> None:
    told = verify()
    assert "The audit list is as it was written: 10 rows, the newest is 10." in told
    assert "audit-head agrees: it names row 10." in told


@pytest.mark.parametrize(
    ("statements", "faults"),
    [
        (
            ["UPDATE T SET actor = 'eve' WHERE id = 4"],
            ["Row 4 was changed. Its content now: pause_topic t4 by eve done."],
        ),
        (
            ["UPDATE T SET counts = '{}' WHERE id = 1", "UPDATE T SET at_ms = at_ms + 1 WHERE id = 10"],
            [
                "Row 1 was changed. Its content now: pause_topic t1 by ada done.",
                "Row 10 was changed. Its content now: pause_topic t10 by ada done.",
            ],
        ),
        (["DELETE FROM T WHERE id = 4"], ["Row 4 was removed."]),
        (["DELETE FROM T WHERE id IN (4, 5, 8)"], ["Rows 4 to 5 were removed.", "Row 8 was removed."]),
        (["DELETE FROM T WHERE id <= 3"], ["Rows 1 to 3 were removed, and not by Penstock."]),
        (
            ["DELETE FROM T WHERE id > 7"],
            ["Rows 8 to 10 were removed: the file beside the database names row 10."],
        ),
        (
            ["DELETE FROM T WHERE id = 4", "UPDATE T SET id = id - 1 WHERE id > 4"],
            [
                REPLACED.format(3, 4),
                "Row 10 was removed: the file beside the database names row 10.",
            ],
        ),
        (
            [
                "UPDATE T SET id = 100 WHERE id = 4",
                "UPDATE T SET id = 4 WHERE id = 7",
                "UPDATE T SET id = 7 WHERE id = 100",
            ],
            ["Row 4 was moved: written behind row 6.", "Row 7 was moved: written behind row 3."],
        ),
        (
            [
                "UPDATE T SET id = 100 WHERE id = 1",
                "UPDATE T SET id = 1 WHERE id = 2",
                "UPDATE T SET id = 2 WHERE id = 100",
            ],
            ["Row 1 was moved: written behind row 2.", "Row 2 was moved: written in front of all others."],
        ),
        (
            ["UPDATE T SET actor = x'ff00', counts = '[1]', message = 5 WHERE id = 6"],
            ["Row 6 was changed. Its content now: pause_topic t6 by b'\\xff\\x00' done."],
        ),
        (
            ["UPDATE T SET action = char(27) || '[2J', hash = '', previous_hash = '' WHERE id = 10"],
            ["Row 10 was not written by Penstock: it has no hash. Its content: ?[2J t10 by ada done."],
        ),
        (["DELETE FROM T "], ["Rows 1 to 10 were removed: the file beside the database names row 10."]),
    ],
)
def test_what_was_changed_removed_or_moved_is_named(
    verify: Callable[[], str], data_path: Path, statements: list[str], faults: list[str]
) -> None:
    tampered(data_path, *statements)
    assert [line.strip() for line in verify().splitlines()[1:]] == faults


def test_a_row_that_was_rewritten_with_a_hash_of_its_own_is_named(verify: Callable[[], str], data_path: Path) -> None:
    tampered(data_path, "DELETE FROM T WHERE id = 5")
    with closing(sqlite3.connect(data_path / DATABASE)) as database, database:
        (previous,) = database.execute(f"SELECT hash FROM {TABLE} WHERE id = 4").fetchone()
        insert(database, 5, previous, values_of(5, actor="eve"))
    assert verify().splitlines()[1:] == [f"  {REPLACED.format(5, 6)}"]


def test_a_list_written_anew_is_told_by_the_file_beside_it(verify: Callable[[], str], data_path: Path) -> None:
    tampered(data_path, "DELETE FROM T ")
    add_rows(data_path, 1, 12, actor="eve")
    assert "  Row 10 is not the one that the file beside the database names: the list was replaced." in verify()


def test_rows_that_were_put_in_are_named(verify: Callable[[], str], data_path: Path) -> None:
    tampered(data_path, "UPDATE T SET id = id + 100 WHERE id > 4", "UPDATE T SET id = id - 99 WHERE id > 100")
    with closing(sqlite3.connect(data_path / DATABASE)) as database, database:
        (previous,) = database.execute(f"SELECT hash FROM {TABLE} WHERE id = 4").fetchone()
        insert(database, 5, previous, values_of(5, actor="eve"))
    assert "  Row 5 was put in: row 6 was written behind row 4." in verify()


@pytest.mark.parametrize(
    "content", ["", "no json", '{"version": 1}', '{"version": 9, "id": 1, "hash": ""}', "[" * 4000]
)
def test_a_damaged_file_beside_the_database_is_a_fault(
    verify: Callable[[], str], data_path: Path, content: str
) -> None:
    head_file.path_of(data_path).write_text(content)
    assert f"{data_path / 'audit-head'} is " in verify().splitlines()[1]


@pytest.mark.slow(reason="starts a process")
def test_a_missing_file_beside_the_database_is_a_fault_and_a_copy_of_it_proves_more(
    verify: Callable[..., str], data_path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    head_file.path_of(data_path).rename(copy)
    told = manage(data_path, "audit", "verify")
    assert (told.returncode, told.stdout) == (1, "")
    assert "10 rows of the audit list that are there" in told.stderr
    assert f"{data_path / 'audit-head'} is missing, so rows may have been cut off at the end." in told.stderr
    assert "penstock audit verify --head COPY" in told.stderr
    assert f"{copy} agrees: it names row 10." in verify(f"--head={copy}")
    tampered(data_path, "DELETE FROM T WHERE id > 8")
    assert "rows may have been cut off" in verify()
    assert "Rows 9 to 10 were removed: the file beside the database names row 10." in verify(f"--head={copy}")


def test_verify_compares_with_a_copy_of_the_file_from_elsewhere(
    verify: Callable[..., str], data_path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    head_file.write_head(copy, Head(3, "a" * 64), 1)
    assert "Row 3 is not the one that the file beside the database names" in verify(f"--head={copy}")


def test_the_database_refuses_to_rewrite_a_row_in_every_way_that_sqlite_has(data_path: Path) -> None:
    with closing(sqlite3.connect(data_path / DATABASE)) as database:
        rows = database.execute(f"SELECT * FROM {TABLE} ORDER BY id").fetchall()
        columns = ", ".join(one[1] for one in database.execute(f"PRAGMA table_info({TABLE})"))
        copy = f"SELECT {columns.replace('actor', chr(39) + 'eve' + chr(39))} FROM {TABLE} WHERE id = 4"
        for statement in (
            f"UPDATE {TABLE} SET actor = 'eve'",
            f"UPDATE OR REPLACE {TABLE} SET id = 4 WHERE id = 5",
            f"DELETE FROM {TABLE} WHERE id = 4",
            f"INSERT OR REPLACE INTO {TABLE} ({columns}) {copy}",
            f"REPLACE INTO {TABLE} ({columns}) {copy}",
            f"INSERT INTO {TABLE} ({columns}) {copy} ON CONFLICT (id) DO UPDATE SET actor = 'eve'",
            f"INSERT INTO {TABLE} ({columns}) {copy.replace('SELECT id', 'SELECT -1')}",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="audit rows are"):
                database.execute(statement)
        assert database.execute(f"SELECT * FROM {TABLE} ORDER BY id").fetchall() == rows


def test_a_database_of_before_the_chain_gets_one_over_its_rows(migrated: Path, tmp_path: Path) -> None:
    assert migrate(tmp_path, "admin_console", "0002").returncode == 0
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database, database:
        for number in (1, 2, 3):
            values = values_of(number)
            database.execute(
                f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})",
                [*(values[name] for name in COLUMNS[:-1]), '{"in_flight": 2, "depth": 1}'],
            )
    told = manage(tmp_path, "audit", "verify")
    assert (told.returncode, told.stderr.strip()) == (
        2,
        f"penstock: The rows of {tmp_path / DATABASE} have no hashes yet: the next start of the server makes them.",
    )
    assert migrate(tmp_path).returncode == 0
    told = manage(tmp_path, "audit", "verify")
    assert told.returncode == 1
    assert "3 rows of the audit list that are there" in told.stderr
    tampered(tmp_path, "UPDATE T SET actor = 'eve' WHERE id = 2")
    assert "Row 2 was changed." in manage(tmp_path, "audit", "verify").stderr
