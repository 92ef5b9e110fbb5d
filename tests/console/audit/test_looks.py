"""Looks of a user at messages: one row a minute, however often the page is read, and nothing hidden."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from sqlite3 import connect
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test import RequestFactory

from admin_console.audit.chain import append
from admin_console.audit.models import AuditRow, Phase
from admin_console.audit.record import NotAuditedError, record_look, set_row_buffer
from admin_console.audit.repeated_acts import LOOK, RepeatedRows
from admin_console.audit.verification import ChainCheck, all_rows, open_to_read
from admin_console.audit.writer import AuditWriter
from queue_engine.service.act_file.repeated_acts import SEVERAL
from tests.console.audit.test_audit import row
from tests.console.audit.test_chain import DATABASE, TABLE, migrated
from tests.support.clock import ManualClock
from tests.support.processes.server import ROOT

__all__ = ["migrated"]
START_MS = 1_700_000_000_000  # 22:13:20 UTC
# What the list may take in a year for one user who looks at one topic once a second, with names of the greatest length.
YEAR_BYTES_MAX = 600_000_000
MINUTES_OF_A_YEAR = 365 * 24 * 60


def look(second: int = 0, **fields: object) -> AuditRow:
    """Ada's look at 20 messages of orders, so many seconds after START_MS."""
    values: dict[str, object] = {
        "phase": Phase.EVENT,
        "action": "read_messages",
        "at_ms": START_MS + second * 1000,
        "address": "192.0.2.7",
        "channel": "",
        "message": "Looked at 20 messages of orders.",
        "detail": "",
        "counts": {"messages": 20, "first_offset": second, "last_offset": second + 19},
    }
    return row(second, **(values | fields))


def test_a_minute_of_looks_is_one_row_that_says_how_many_and_when() -> None:
    acts = RepeatedRows()
    assert [acts.take(look(second), float(second)) for second in range(60)] == [False] + [True] * 59
    assert acts.close_windows(59.9) == []
    [told] = acts.close_windows(60.0)
    assert (told.actor, told.role, told.address, told.topic, told.phase) == (
        "ada",
        "admin",
        "192.0.2.7",
        "orders",
        "event",
    )
    assert told.message == (
        "59 more within a minute, 2023-11-14 22:13:21 UTC to 2023-11-14 22:14:19 UTC. "
        "The last: Looked at 20 messages of orders."
    )
    assert told.counts == {
        "times": 59,
        "messages": 59 * 20,
        "first_ms": START_MS + 1_000,
        "last_ms": START_MS + 59_000,
        "first_offset": 1,
        "last_offset": 78,
    }


def test_looks_that_go_on_are_one_row_a_minute_and_after_a_rest_the_next_is_a_row_at_once() -> None:
    acts = RepeatedRows()
    at_once = rows = 0
    for second in range(600):
        at_once += not acts.take(look(second), float(second))
        rows += len(acts.close_windows(float(second)))
    rows += len(acts.close_windows(600.0))
    assert (at_once, rows) == (1, 10)
    assert acts.close_windows(660.0) == []  # a minute without a look
    assert not acts.take(look(661), 661.0)


def test_users_topics_channels_and_addresses_are_counted_apart() -> None:
    acts = RepeatedRows()
    apart = [{}, {"actor": "eve"}, {"topic": "clicks"}, {"channel": "billing"}, {"address": "192.0.2.8"}]
    for fields in apart:
        assert [acts.take(look(**fields), 1.0) for _ in range(3)] == [False, True, True]
    told = acts.close_windows(61.0)
    assert sorted((one.actor, one.topic, one.channel, one.address, one.counts["times"]) for one in told) == sorted(
        (one.actor, one.topic, one.channel, one.address, 2) for one in (look(**fields) for fields in apart)
    )


def test_the_row_names_what_was_asked_for() -> None:
    acts = RepeatedRows()
    for second in range(13):
        acts.take(look(second, detail=f"offset={second * 100}"), 1.0)
    [told] = acts.close_windows(61.0)
    assert told.detail.startswith("offset=100, offset=200, ")
    assert told.detail.endswith("offset=1000 and others")


def test_looks_at_more_topics_than_are_counted_apart_stay_the_users() -> None:
    acts = RepeatedRows()
    count = LOOK.windows_max + 50
    at_once = sum(not acts.take(look(topic=f"t{number}"), 1.0) for number in range(count))
    assert at_once == LOOK.rows_at_once_max
    [told] = acts.close_windows(61.0)
    assert (told.actor, told.address, told.topic, told.counts["times"]) == ("ada", SEVERAL, "", 50)


def test_an_act_between_looks_is_a_row_of_its_own() -> None:
    acts = RepeatedRows()
    for second in range(5):
        acts.take(look(second), float(second))
        assert not acts.take(row(second, phase=Phase.INTENT, verdict=""), float(second))
        assert not acts.take(row(second), float(second))


def test_a_look_that_can_not_be_kept_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that would only be counted: its row could not be kept later."""
    monkeypatch.setattr("admin_console.audit.writer.INTENT_ROWS_MAX", 1)
    request = RequestFactory().get("/")
    request.user = SimpleNamespace(is_authenticated=True, username="ada", role="admin")
    writer = AuditWriter()
    writer.refusal = "disk full"
    set_row_buffer(writer)
    try:
        record_look(request, "read_messages", topic="orders")
        with pytest.raises(NotAuditedError):
            record_look(request, "read_messages", topic="orders")
    finally:
        set_row_buffer(None)
    assert writer.waiting_count == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow(reason="counts a day of looks and writes their rows")
def test_a_year_of_looks_once_a_second_stays_small() -> None:
    """A day is simulated look by look. A window remembers nothing of earlier days, so a year is 365 times as much."""
    clock, acts = ManualClock(), RepeatedRows()
    rows: list[AuditRow] = []
    for second in range(24 * 3600):
        one = look(second, detail=f"offset={second}&form=json", topic="t" * 64)
        if not acts.take(one, clock.monotonic_ns() / 1e9):
            rows.append(one)
        rows += acts.close_windows(clock.monotonic_ns() / 1e9)
        clock.advance(ms=1_000)
    assert len(rows) <= 24 * 60
    looks = sum(one.counts.get("times", 1) for one in rows)
    assert looks > 24 * 3600 - 61, "looks are missing: only the window that is open may lack"
    before = _bytes_in_use()
    for start in range(0, len(rows), 200):
        append(rows[start : start + 200])
    a_row = (_bytes_in_use() - before) / len(rows)
    assert a_row * MINUTES_OF_A_YEAR < YEAR_BYTES_MAX


def _bytes_in_use() -> int:
    with connection.cursor() as cursor:
        found = [
            cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        ]
    return int((found[0] - found[1]) * found[2])


_KILLED = """
import os, signal, sys
import django
django.setup()
from types import SimpleNamespace
from django.test import RequestFactory
from admin_console.audit.record import begin_act, intent_of, record_look, set_row_buffer
from admin_console.audit.writer import AuditWriter
from admin_console.database.condition import CONDITION, Storage
CONDITION.is_now(Storage.DISK)
request = RequestFactory().get("/")
request.user = SimpleNamespace(is_authenticated=True, username="ada", role="admin")
writer = AuditWriter()
writer.start()
for _ in range(30):
    record_look(request, "read_messages", topic="orders", message="Looked.", counts={"messages": 1})
begin_act(intent_of(request, "empty_topic", topic="orders"))
record_look(request, "read_messages", topic="clicks", message="Looked.", counts={"messages": 1})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow(reason="starts a process")
def test_a_kill_loses_the_count_of_looks_and_no_row(migrated: Path, tmp_path: Path) -> None:
    copyfile(migrated / DATABASE, tmp_path / DATABASE)
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "admin_console.settings",
        "PENSTOCK_DATA_PATH": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", _KILLED], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    with closing(connect(tmp_path / DATABASE)) as database:
        found = database.execute(f"SELECT action, topic, phase FROM {TABLE} ORDER BY id").fetchall()
    assert found == [
        ("read_messages", "orders", "event"),
        ("empty_topic", "orders", "intent"),
        ("read_messages", "clicks", "event"),
    ]
    check = ChainCheck()
    with closing(open_to_read(tmp_path / DATABASE)) as database:
        for one in all_rows(database):
            check.take(one)
    assert check.faults() == []
