"""`penstock sql`: what it prints, with whose rights, and what stands in the audit list."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.core.management.base import CommandError

from admin_console.accounts.models import User
from admin_console.audit.models import AuditRow
from admin_console.management.commands.sql import Command
from admin_console.paths import account_name
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.service.act_file.act_file import ActFile
from queue_engine.service.act_file.line import shortened
from queue_engine.storage.disk.files import Files
from tests.pipeline.query.archived_topic import archive_days
from tests.pipeline.query.test_query import ENDLESS, is_alive
from tests.support.processes.server import ROOT
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow(reason="starts a process for each query"),
]


@pytest.fixture
def data_path(tmp_path: Path, settings: Any) -> Path:
    """A data directory with an archived topic."""
    settings.DATA_PATH = tmp_path
    archive_days(str(tmp_path / "pipeline"), "orders.eu", 1, 3)
    return tmp_path


def sql(*arguments: str) -> None:
    command = Command()
    given = vars(command.create_parser("penstock", "sql").parse_args(arguments))
    command.execute(**given)


def rows(capture: pytest.CaptureFixture[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capture.readouterr().out.splitlines()]


def test_the_owner_reads_bodies_and_the_audit_list_says_so(
    data_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql('SELECT "offset", json->>\'$.magnitude\' AS m FROM "orders.eu" ORDER BY 1 DESC LIMIT 2')
    assert capsysbinary.readouterr().out.decode().split() == ["offset", "m", "2", "2", "1", "1"]
    row = AuditRow.objects.get()
    assert (row.actor, row.via, row.action, row.topic, row.phase, row.verdict) == (
        account_name(os.getuid()),
        "command-line",
        "query_archive",
        "orders.eu",
        "event",
        "done",
    )
    assert row.detail.startswith('SELECT "offset", json->>')
    query_file = data_path / "busiest.sql"
    query_file.write_text("SELECT action, list, actor FROM audit\n")
    record = ActRecord("create_topic", "orders", "", "10.0.0.1", "", Outcome(created=True), actor="ci")
    acts = ActFile(str(data_path), Files())
    acts.append([shortened(record, 1_700_000_000_000)])
    acts.close()
    sql("-f", str(query_file), "--format", "json")
    assert rows(capsysbinary) == [
        {"action": "query_archive", "list": "console", "actor": row.actor},
        {"action": "create_topic", "list": "file", "actor": "ci"},
    ]
    assert AuditRow.objects.count() == 1, "history and audit list are no bodies"
    monkeypatch.setattr("sys.stdin", open(query_file))  # noqa: SIM115 - pytest ends before it matters
    sql("--format", "csv")
    assert capsysbinary.readouterr().out.count(b"\n") == 3


def test_a_user_has_the_views_of_the_role(data_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for name, role in (("vera", Role.VIEWER), ("otto", Role.OPERATOR), ("gone", Role.ADMIN)):
        User.objects.create_user(name, "long-enough-7", role)
    User.objects.filter(username="gone").update(is_active=False)
    sql("--list", "--user", "vera")
    assert capsysbinary.readouterr().out.split() == [b"archive_gaps", b"history_hours", b"history_minutes"]
    sql("--list", "--user", "otto")
    assert capsysbinary.readouterr().out.split() == [
        b"archive_gaps", b"audit", b"history_hours", b"history_minutes", b"orders.eu"
    ]  # fmt: skip
    with pytest.raises(CommandError, match=r"There is no view orders\.eu\."):
        sql('SELECT * FROM "orders.eu"', "--user", "vera")
    assert not AuditRow.objects.exists()
    sql('SELECT count(*) FROM "orders.eu"', "--user", "otto")
    assert AuditRow.objects.get().detail == 'as otto: SELECT count(*) FROM "orders.eu"'
    for name, complaint in (("gone", "gone is disabled."), ("nobody", "There is no user nobody.")):
        with pytest.raises(CommandError) as caught:
            sql("SELECT 1", "--user", name)
        assert str(caught.value) == complaint


def test_a_file_gets_all_rows_or_is_not_written(data_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    target = data_path / "out.parquet"
    sql("SELECT * FROM range(2000)", "--format", "parquet", "-o", str(target))
    assert pq.read_table(target).num_rows == 2_000
    before = target.read_bytes()
    with pytest.raises(CommandError) as caught:
        sql("SELECT * FROM range(2000)", "--format", "parquet", "-o", str(target), "--rows", "1999")
    assert str(caught.value) == (
        f"The result has more than 1,999 rows, the limit: {target} was not written. --rows sets another limit."
    )
    assert target.read_bytes() == before
    assert sorted(os.listdir(data_path)) == ["out.parquet", "pipeline"]
    sql("SELECT * FROM range(9)", "--rows", "2")
    told = capsysbinary.readouterr()
    assert (told.out.split(), told.err) == ([b"range", b"0", b"1"], b"There are more than 2 rows; --rows shows more.\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["SELECT 1", "-f", "x"], "The query is given twice, as an argument and by -f."),
        (["SELECT 1", "--format", "parquet"], "Parquet is a binary format: name the file for it with -o FILE."),
        (["SELECT 1", "--rows", "0"], "argument --rows: '0' is not a whole number above 0"),
        (["SELECT 1", "--timeout", "5"], "argument --timeout: '5' is not a duration such as 60s, 500ms or 1m30s"),
        (["SELECT 1", "--memory-bytes", "1"], "The limit of memory, 1 bytes, is not from 67,108,864"),
        (["DROP VIEW audit"], "DROP is no query: "),
        (["SELECT 1", "--lake", "http://x/y"], "http"),
    ],
)
def test_a_mistake_costs_one_sentence(data_path: Path, arguments: list[str], complaint: str) -> None:
    with pytest.raises(CommandError) as caught:
        sql(*arguments)
    assert complaint in str(caught.value)


def test_without_a_row_in_the_audit_list_nothing_is_read(
    data_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import OperationalError

    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr("admin_console.management.commands.sql.record_command", refuse)
    with pytest.raises(CommandError) as caught:
        sql('SELECT * FROM "orders.eu"')
    assert str(caught.value) == "The audit list can't be written: database or disk is full. Nothing was read."
    assert capsysbinary.readouterr().out == b""


def test_ctrl_c_ends_the_command_and_its_query(data_path: Path) -> None:
    command = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "sql", ENDLESS, f"--data-path={data_path}"],
        env={"PATH": os.environ["PATH"]},
        stderr=subprocess.PIPE,
    )
    with command:
        children = Path("/proc") / str(command.pid) / "task" / str(command.pid) / "children"
        child = int(wait_for("the query's process", lambda: children.read_text().split())[0])
        command.send_signal(signal.SIGINT)
        assert command.stderr is not None
        assert (command.wait(60), command.stderr.read()) == (130, b"")
    wait_for("the end of the query's process", lambda: not is_alive(child))
