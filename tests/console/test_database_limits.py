"""What the console's database leaves behind stays small: sessions that expired, and SQLite's -wal file."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from sqlite3 import connect

import pytest
from django.conf import settings

from admin_console.database.version import complaint_about_version
from tests.console.audit.test_chain import DATABASE, migrate, migrated
from tests.support.processes.server import ROOT

__all__ = ["migrated"]

_WATCHED = """
import sys
from datetime import timedelta
from pathlib import Path
import django
django.setup()
from django.contrib.sessions.models import Session
from django.db import connections
from django.utils import timezone
from admin_console.database import opening
from admin_console.database.condition import CONDITION
from tests.support.waiting import wait_for
opening.CHECK_AGAIN_S = 0.02
path = Path(sys.argv[1])
now_s = [0.0]
database = opening.ConsoleDatabase(path, CONDITION, lambda: [], print, path.with_name("audit-head"), lambda: now_s[0])
database.open()
database.watch()
now = timezone.now()
for number in range(50):
    Session(session_key=f"over{number}", session_data="", expire_date=now - timedelta(seconds=1)).save()
Session(session_key="lives", session_data="", expire_date=now + timedelta(hours=12)).save()
now_s[0] = 3_599.0
# The watching thread has come round a few times when it has asked for the time again.
asked = []
database._monotonic_s = lambda: asked.append(True) or now_s[0]
wait_for("a few rounds", lambda: len(asked) > 3, timeout_s=60)
print(Session.objects.count())
now_s[0] = 3_600.0
wait_for("only the session that lives", lambda: Session.objects.count() == 1, timeout_s=60)
print(Session.objects.get().session_key)
database.close()
connections.close_all()
"""


def tables_of(path: Path) -> set[str]:
    with closing(connect(path)) as database:
        return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


@pytest.mark.slow(reason="starts processes")
def test_a_new_database_has_the_tables_that_the_console_uses_and_an_older_one_keeps_its_own(
    migrated: Path, tmp_path: Path
) -> None:
    used = {"admin_console_auditrow", "admin_console_user", "django_migrations", "django_session", "sqlite_sequence"}
    assert tables_of(migrated / DATABASE) == used
    path = tmp_path / DATABASE
    copyfile(migrated / DATABASE, path)
    with closing(connect(path)) as database, database:
        database.execute("CREATE TABLE auth_group (id integer PRIMARY KEY, name varchar(150))")
        done = ("auth", "0012_alter_user_first_name_max_length", "2026-01-01")
        database.execute("INSERT INTO django_migrations (app, name, applied) VALUES (?, ?, ?)", done)
    assert complaint_about_version(path) == ""
    migrated_again = migrate(tmp_path)
    assert migrated_again.returncode == 0, migrated_again.stderr
    assert tables_of(path) == {*used, "auth_group"}


@pytest.mark.slow(reason="starts a process")
def test_sessions_that_expired_are_removed_each_hour(migrated: Path, tmp_path: Path) -> None:
    copyfile(migrated / DATABASE, tmp_path / DATABASE)
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "admin_console.settings",
        "PENSTOCK_DATA_PATH": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, str(tmp_path / DATABASE)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["51", "lives"]


def test_the_wal_file_is_cut_after_a_large_transaction(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "database")) as database:
        database.executescript(settings.DATABASES["default"]["OPTIONS"]["init_command"])
        database.execute("CREATE TABLE t (content)")
        with database:
            database.executemany("INSERT INTO t VALUES (?)", [(b"x" * 1_000_000,)] * 40)
        wal = tmp_path / "database-wal"
        assert wal.stat().st_size > 30 << 20
        for _ in range(2):  # the first moves the rows over, the second begins the file anew
            with database:
                database.execute("INSERT INTO t VALUES (1)")
        assert wal.stat().st_size <= 16 << 20
