"""The operations page: each of its recipes as it stands, in the order in which somebody would need them."""

import json
import os
import re
import shutil
import subprocess
import urllib.error
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from queue_engine.vocabulary.version import VERSION
from queue_engine.wire.error_answers import read_error_answer
from tests.operations.machine import Machine
from tests.operations.page import PAGE, ROOT, blocks, file_patterns, recipe
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.small_disk import SmallDiskServer
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="installs Penstock and starts real servers"), pytest.mark.timeout(900)]

SMALL_DISK_BYTES = 24 << 20
SMALL_SEGMENTS = ("--log-segment-bytes=2097152", "--max-body-size=100000", "--max-msg-size=60000")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which Penstock is installed and serves, as the page's first recipes leave it."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    try:
        installed = machine.run(recipe("install"))
        assert installed.splitlines()[-1] == f"penstock {VERSION}"
        started = machine.run(recipe("first start"))
        assert is_ready(started)
        assert "user: admin\npassword: " in started
        yield machine
    finally:
        machine.kill()


def is_ready(written: str) -> bool:
    """Whether `/readyz` or `/ping` was good, in what a recipe wrote."""
    return "OK" in [line[:2] for line in written.splitlines()]


def depth(machine: Machine, topic: str) -> int:
    (found,) = json.loads(machine.get(f"/stats?format=json&topic={topic}"))["topics"]
    return int(found["depth"])


def test_the_first_message_waits(machine: Machine) -> None:
    shown = machine.run(recipe("first message"))
    assert shown.startswith("OK")
    assert "greetings" in shown
    assert depth(machine, "greetings") >= 1


def test_users_are_added_listed_and_disabled(machine: Machine) -> None:
    shown = machine.run(recipe("users"))
    assert ["grace", "operator"] in [line.split()[:2] for line in shown.splitlines()]


def test_a_backup_is_restored(machine: Machine) -> None:
    machine.get("/pub?topic=kept", body=b"before the backup")
    machine.run(recipe("backup"))
    machine.get("/pub?topic=kept", body=b"after the backup")
    assert depth(machine, "kept") == 2
    assert is_ready(machine.run(recipe("restore")))
    assert depth(machine, "kept") == 1
    assert "before the backup" in machine.get("/topic/messages?topic=kept&limit=5")


def test_an_upgrade_and_the_way_back_lose_nothing(machine: Machine) -> None:
    machine.get("/pub?topic=upgraded", body=b"through both")
    assert is_ready(machine.run(recipe("upgrade")))
    assert "/opt/penstock/0.3.0/" in machine.unit
    assert not list((machine.root / "etc/systemd/system").glob("*.new"))
    assert depth(machine, "upgraded") == 1
    assert is_ready(machine.run(recipe("going back")))
    assert "/opt/penstock/0.2.0/" in machine.unit
    assert depth(machine, "upgraded") == 1


def test_a_damaged_message_is_reported_and_the_others_are_delivered(machine: Machine) -> None:
    for body in (b"first", b"a body that is damaged", b"last"):
        machine.get("/pub?topic=damaged", body=body)
    machine.run("systemctl stop penstock")
    (segment,) = [
        path for path in (machine.data_path / "log/segments").glob("*.log") if b"that is damaged" in path.read_bytes()
    ]
    segment.write_bytes(segment.read_bytes().replace(b"that is damaged", b"that was damaged"[:15]))
    machine.run("systemctl start penstock")
    shown = machine.run(recipe("check the whole log"))
    assert is_ready(shown)
    assert "1 message lost: 1 of topic damaged (offset 1)" in shown
    assert list((machine.data_path / "log/quarantine").iterdir())
    messages = machine.get("/topic/messages?topic=damaged&limit=5")
    assert "first" in messages
    assert "last" in messages
    assert "as it was written" in machine.run(recipe("check the audit list"))


def test_a_damaged_topology_is_made_anew(machine: Machine) -> None:
    machine.get("/pub?topic=renamed", body=b"still there")
    machine.run("systemctl stop penstock")
    damaged = machine.data_path / "topology.json"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    shown = machine.run(recipe("topology"))
    assert "renamed" in shown
    assert depth(machine, "renamed") == 1


def test_a_lost_password_is_set_anew(machine: Machine) -> None:
    machine.run(recipe("password"))
    ConsoleClient(machine.console_port).log_in("admin", "another long passphrase")
    assert not (machine.data_path / "admin-password").exists()


def test_users_and_the_audit_list_come_back_from_a_backup(machine: Machine) -> None:
    """After a kill, too, which leaves a write-ahead log of the new database."""
    machine.run(recipe("users").replace("grace", "ada"))
    machine.run("rm -rf /var/backups/penstock")
    machine.run(recipe("backup"))
    machine.kill()
    database = machine.data_path / "console.sqlite3"
    database.write_bytes(b"damaged" * 10_000)
    machine.run("systemctl start penstock")
    machine.get("/topic/create?topic=audited", body=b"")
    machine.kill()
    machine.run(recipe("users of a backup"))
    listed = machine.run("/opt/penstock/0.2.0/bin/penstock user list --data-path /var/lib/penstock")
    assert "ada" in [line.split()[0] for line in listed.splitlines()]
    assert "as it was written" in machine.run(recipe("check the audit list"))


def test_the_worker_says_what_it_does(machine: Machine) -> None:
    machine.get("/pub?topic=archived", body=b"a message for the archive")
    machine.get("/cursor/create?topic=archived&cursor=archive&start=start", body=b"")
    log = machine.data_path / "pipeline/worker.log"
    wait_for("the worker's first line", lambda: log.exists() and log.stat().st_size > 0, timeout_s=300)
    shown = machine.run(recipe("worker"))
    assert shown.startswith("The worker is ")
    assert len(shown.splitlines()) > 1


def test_every_file_of_the_data_directory_is_in_the_table(machine: Machine) -> None:
    machine.get("/topic/create?topic=nsqds&storage=diskqueue", body=b"")
    machine.get("/channel/create?topic=nsqds&channel=one", body=b"")
    machine.get("/pub?topic=nsqds", body=b"in a disk queue")
    machine.run("systemctl restart penstock")
    patterns = file_patterns()
    # os.walk passes over a directory that goes while it looks; rglob fails.
    found = [
        (Path(folder) / name).relative_to(machine.data_path).as_posix()
        for folder, _, names in os.walk(machine.data_path)
        for name in names
    ]
    assert [name for name in found if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert any(name.endswith(".dat") for name in found)


def test_the_table_names_no_file_that_the_code_does_not_know() -> None:
    code = "".join(
        path.read_text() for folder in ("queue_engine", "admin_console") for path in (ROOT / folder).rglob("*.py")
    )
    words = {word for pattern in file_patterns() for word in re.split(r"[/*]+", pattern)}
    assert sorted(word for word in words if word.strip(".") not in code) == []


def test_a_lost_data_directory_is_restored(machine: Machine) -> None:
    machine.run("rm -rf /var/backups/penstock")
    machine.get("/pub?topic=restored", body=b"in the backup")
    machine.run(recipe("backup"))
    machine.kill()
    shutil.rmtree(machine.data_path / "log")
    assert is_ready(machine.run(recipe("lost directory")))
    assert depth(machine, "restored") == 1


def test_a_full_disk_gets_room(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    server = SmallDiskServer(machine.data_path, options=SMALL_SEGMENTS)
    server.tcp_port, server.http_port, server.console_port = machine.tcp_port, machine.http_port, machine.console_port
    server.limit_bytes = SMALL_DISK_BYTES
    with server:
        machine.get("/topic/create?topic=greetings", body=b"")
        machine.get("/channel/create?topic=greetings&channel=nobody", body=b"")
        refused = ""
        while not refused:
            try:
                machine.get("/mpub?topic=greetings", body=b"\n".join([b"x" * 900] * 100))
            except urllib.error.HTTPError as error:
                refused = read_error_answer(error.read(), error.headers).detail
        assert "full" in refused.lower() or "room" in refused.lower(), refused
        shown = machine.run(recipe("disk full"))
        assert not shown.startswith("OK")
        assert "nobody" in shown
        assert is_ready(machine.run(recipe("room")))
        machine.get("/pub?topic=greetings", body=b"accepted again")


def test_prometheus_takes_the_configuration_and_the_alert_rules(machine: Machine) -> None:
    machine.run(recipe("alert rules"))
    path = machine.root / "etc/prometheus/prometheus.yml"
    path.write_text(machine.here(recipe("prometheus.yml")))
    checked = subprocess.run(["promtool", "check", "config", str(path)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    assert "SUCCESS: 1 rule files found" in checked.stdout


def test_each_block_is_run_here_or_says_that_it_is_not() -> None:
    run_here = Path(__file__).read_text()
    for block in blocks():
        if block.name is None:
            assert block.above.startswith("*Not run by a test: "), block
        else:
            assert f'recipe("{block.name}")' in run_here, block.name


def test_the_page_installs_this_version() -> None:
    assert f"/opt/penstock/{VERSION}/bin/pip install" in PAGE.read_text()
