"""The console's files as a real server finds them: damaged, gone, refused by the disk, of a newer version.

Messages flow in every case; a newer version alone keeps the server from starting.
"""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from admin_console.database.inspection import damage_of
from admin_console.database.journals import JOURNALS
from admin_console.vocabulary.private_files import set_aside
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ADMIN_PASSWORD, ROOT, ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts real servers")

WAIT_S = 60.0
DATABASE = "console.sqlite3"

# SQLite itself refuses, with the errors of a full or read-only disk, while the file named first is there: a new
# database can't grow, and one that exists can't be written. Tables in memory are no concern of a disk.
REFUSING_DISK = """
import os, sqlite3, sys
flag = sys.argv.pop(1)
connect = sqlite3.connect
def connect_to_a_disk_that_refuses(database, *args, **kwargs):
    made = connect(database, *args, **kwargs)
    if os.path.exists(flag) and "memdb" not in str(database):
        made.execute("PRAGMA max_page_count = 1")
        made.execute("PRAGMA query_only = 1")
    return made
sqlite3.connect = sqlite3.dbapi2.connect = connect_to_a_disk_that_refuses
sys.argv[0] = "manage.py"
import manage
manage.main()
"""


class ServerOnRefusingDisk(ServerProcess):
    """A server whose console's database is refused while `flag` exists."""

    def __init__(self, data_path: Path, flag: Path) -> None:
        super().__init__(data_path, options=["--no-pipeline"])
        self._flag = flag

    def _command(self) -> list[str]:
        return ["-c", REFUSING_DISK, str(self._flag), *super()._command()[1:]]


def server_on(data_path: Path) -> ServerProcess:
    return ServerProcess(data_path, options=["--no-pipeline"])


@pytest.fixture(scope="module")
def used_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that a server has used: to be copied."""
    data_path = tmp_path_factory.mktemp("used") / "data"
    with server_on(data_path) as server:
        server.http("POST", "/pub?topic=orders", b"keep me")
    return data_path


@pytest.fixture
def data_path(used_directory: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "data"
    subprocess.run(["cp", "-a", str(used_directory), str(copy)], check=True)
    return copy


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def key_and_garbage(path: Path) -> None:
    garbage(path)
    (path.parent / "secret-key").write_bytes(b"")


def empty(path: Path) -> None:
    os.truncate(path, 0)


def damaged_page(path: Path) -> None:
    # Pages that are in the WAL are read there: the file gets them first.
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "a reader held it"
    size = path.stat().st_size
    with path.open("r+b") as file:
        for page in range(4096, size, 4096):
            file.seek(page)
            file.write(b"\xff" * 200)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("kept")


def other_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE admin_console_user (somebody TEXT); INSERT INTO admin_console_user VALUES (1)"
        )


@pytest.mark.parametrize("damage", [key_and_garbage, empty, damaged_page, directory])
def test_damaged_database_is_set_aside_and_messages_flow(data_path: Path, damage: Callable[[Path], None]) -> None:
    path = data_path / DATABASE
    damage(path)
    before = path.read_bytes() if path.is_file() else b""
    server = server_on(data_path)
    with server:
        assert server.topic_stats("orders")["depth"] == 1
        server.http("POST", "/pub?topic=orders", b"and me")
        assert server.http("GET", "/ping") == b"OK"
        assert b"OK\nconsole: The console's database was damaged and is replaced." in server.http("GET", "/readyz")
        console = ConsoleClient(server.console_port)
        console.log_in()
        page = console.get("/").text
        assert "The console&#x27;s database was damaged and is replaced." in page
        has_new_key = damage is key_and_garbage
        assert ("The console&#x27;s secret key was damaged and is replaced." in page) == has_new_key
        assert ("a new key was made, and everybody logs in again" in server.log) == has_new_key
        console.close()
    aside = data_path / f"{DATABASE}.bad-1"
    assert aside.read_bytes() == before if aside.is_file() else (aside / "inside").read_text() == "kept"
    assert f"It is now {DATABASE}.bad-1" in server.log
    assert "First start: made the admin admin with the password of PENSTOCK_ADMIN_PASSWORD." in server.log
    assert "penstock user add NAME --role ROLE" in server.log
    assert "Traceback" not in server.log


def test_damage_found_while_it_serves_is_set_aside_without_an_end(data_path: Path) -> None:
    server = server_on(data_path)
    with server:
        console = ConsoleClient(server.console_port)
        console.log_in()
        damaged_page(data_path / DATABASE)

        def set_aside() -> bool:
            # Whoever comes upon the damage gets a sentence, and no traceback of it.
            answer = console.get("/audit/")
            assert answer.status in (200, 302, 503), answer.text
            if answer.status == 503:
                assert "Messages are not affected." in answer.text
            return (data_path / f"{DATABASE}.bad-1").exists()

        wait_for("the damaged database to be set aside", set_aside, timeout_s=WAIT_S)
        wait_for("log-in with the new one", lambda: console.get("/login/").status == 200, timeout_s=WAIT_S)
        wait_for("an admin again", lambda: logs_in(console), timeout_s=WAIT_S)
        server.http("POST", "/pub?topic=orders", b"and me")
        assert server.topic_stats("orders")["depth"] == 2
        console.close()
    assert "made the admin admin" in server.log
    assert "Traceback" not in server.log
    assert "The audit list is as it was written" in verified(data_path)


def verified(data_path: Path) -> str:
    """What `audit verify` says; raises where it finds a fault."""
    command = [sys.executable, "manage.py", "audit", "verify", f"--data-path={data_path}"]
    environment = {"PATH": os.environ["PATH"]}
    return subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def logs_in(console: ConsoleClient) -> bool:
    fields = {"username": "admin", "password": ADMIN_PASSWORD}
    return console.post("/login/", fields, form_path="/login/").status == 302


def test_refused_database_still_lets_people_in_and_act(data_path: Path, tmp_path: Path) -> None:
    """Started on a disk that refuses every write: log-in, acts and reading work; rows wait, and are written later."""
    flag = tmp_path / "refuses"
    flag.touch()
    server = ServerOnRefusingDisk(data_path, flag)
    with server:
        console = ConsoleClient(server.console_port)
        console.log_in()
        page = console.get("/").text
        assert "The console&#x27;s database can&#x27;t be written." in page
        assert console.post("/topics/orders/~pause/", {}, form_path="/topics/orders/").status == 302
        assert console.post(
            "/topics/orders/~empty/", {"typed_name": "orders"}, form_path="/topics/orders/~empty/"
        ).status
        assert server.topic_stats("orders")["paused"]
        assert server.topic_stats("orders")["depth"] == 0
        wait_for("rows that wait", lambda: "audit rows wait in memory until the disk" in console.get("/audit/").text)
        assert audited(data_path) == []
        flag.unlink()
        wait_for("the rows on the disk", lambda: len(audited(data_path)) == 5, timeout_s=WAIT_S)
        # The session goes on, and the notices go.
        assert console.get("/audit/").status == 200
        wait_for("the rows' notice to go", lambda: "wait in memory" not in console.get("/audit/").text)
        wait_for("the disk's notice to go", lambda: "can&#x27;t be written" not in console.get("/audit/").text)
        console.close()
    # Rows that waited are in the chain, and the file beside the database names the newest.
    assert "audit-head agrees" in verified(data_path)
    assert audited(data_path) == [
        ("log_in", "done"),
        ("pause_topic", ""),
        ("pause_topic", "done"),
        ("empty_topic", ""),
        ("empty_topic", "done"),
    ]
    assert "Traceback" not in server.log


def audited(data_path: Path) -> list[tuple[str, str]]:
    """Action and verdict of what this test did: not what others did before."""
    with closing(sqlite3.connect(f"file:{data_path / DATABASE}?mode=ro", uri=True)) as database:
        return database.execute(
            "SELECT action, verdict FROM admin_console_auditrow WHERE via = 'console' ORDER BY id"
        ).fetchall()


def test_first_start_on_a_disk_that_refuses_keeps_users_in_memory_until_it_takes_them(tmp_path: Path) -> None:
    flag, data_path = tmp_path / "refuses", tmp_path / "data"
    flag.touch()
    server = ServerOnRefusingDisk(data_path, flag)
    with server:
        console = ConsoleClient(server.console_port)
        console.log_in()
        assert "The console&#x27;s database is in memory." in console.get("/").text
        assert not (data_path / DATABASE).exists()
        flag.unlink()
        wait_for(
            "the database on the disk", lambda: audited_or_none(data_path) == [("log_in", "done")], timeout_s=WAIT_S
        )
        wait_for("the notice to go", lambda: "is in memory" not in console.get("/").text)
        console.close()
        server.restart()
        again = ConsoleClient(server.console_port)
        again.log_in()
        again.close()
    assert "Traceback" not in server.log, server.log
    assert sorted(path.name for path in data_path.glob("console*")) == [DATABASE]


def audited_or_none(data_path: Path) -> list[tuple[str, str]] | None:
    try:
        return audited(data_path)
    except sqlite3.Error:
        return None


def test_disk_that_refuses_while_it_serves_is_no_traceback(data_path: Path, tmp_path: Path) -> None:
    flag = tmp_path / "refuses"
    server = ServerOnRefusingDisk(data_path, flag)
    with server:
        before = ConsoleClient(server.console_port)
        before.log_in()
        flag.touch()
        during = ConsoleClient(server.console_port)
        during.log_in()
        for console in (before, during):
            assert console.get("/").status == 200
        # A log-out counts, though the row in the database can't be removed.
        assert before.post("/logout/", {}, form_path="/").status == 302
        assert before.get("/").status == 302
        server.http("POST", "/topic/pause?topic=orders")
        wait_for("rows that wait", lambda: "wait in memory" in during.get("/audit/").text)
        # What can't wait is refused in a sentence.
        fields = {"current": ADMIN_PASSWORD, "new": "another long pass phrase", "again": "another long pass phrase"}
        answer = during.post("/password/", fields, form_path="/password/")
        assert answer.status == 503
        assert "The disk refuses the console&#x27;s database" in answer.text
        flag.unlink()
        wait_for("four rows", lambda: [row[0] for row in audited(data_path)].count("log_in") == 2, timeout_s=WAIT_S)
        before.close()
        during.close()
    assert "audit rows wait in memory, at most 10000 of them" in server.log
    assert "audit rows are written again" in server.log
    assert "Traceback" not in server.log


def serve_once(data_path: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", "serve", "--tcp-address=127.0.0.1:0", f"--data-path={data_path}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )


def test_database_of_a_newer_version_is_refused_naming_both(data_path: Path) -> None:
    path = data_path / DATABASE
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('admin_console', '0099_later', '2030-01-01')"
        )
        database.commit()
    before = {found: found.read_bytes() for found in data_path.rglob("*") if found.is_file()}
    done = serve_once(data_path)
    assert done.returncode == 2
    assert "admin_console 0099_later" in done.stderr
    assert "the newest that this version of Penstock has is admin_console 0005_audit_detail_is_longer" in done.stderr
    assert "Traceback" not in done.stderr
    assert {found: found.read_bytes() for found in data_path.rglob("*") if found.is_file()} == before
    refused = subprocess.run(
        [sys.executable, "manage.py", "user", "list", f"--data-path={data_path}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 2
    assert "admin_console 0099_later" in refused.stderr
    assert "Traceback" not in refused.stderr


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3 + 100)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def without_users(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA foreign_keys = OFF; DROP TABLE admin_console_user")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (garbage, "damaged (file is not a database)"),
        (truncated, "damaged (database disk image is malformed)"),
        (empty, "empty"),
        (damaged_page, "damaged ("),
        (directory, "a directory"),
        (link, "a symbolic link (to elsewhere), which Penstock does not follow"),
        (without_users, "without the table admin_console_user"),
    ],
)
def test_damage_is_named(data_path: Path, damage: Callable[[Path], None], told: str) -> None:
    path = data_path / DATABASE
    assert damage_of(path, is_thorough=True) == ""
    damage(path)
    assert damage_of(path, is_thorough=True).startswith(told)


def test_what_is_set_aside_never_replaces_what_was_set_aside_before(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    for number in (1, 2, 3):
        for ending in ("", "-wal"):
            path.with_name(path.name + ending).write_text(f"{number}{ending}")
        assert set_aside(path, JOURNALS).name == f"{DATABASE}.bad-{number}"
    assert sorted((found.name, found.read_text()) for found in tmp_path.iterdir()) == sorted(
        (f"{DATABASE}.bad-{number}{ending}", f"{number}{ending}") for number in (1, 2, 3) for ending in ("", "-wal")
    )


def link_to(path: Path, target: Path) -> bytes:
    """Put the file at `target`, and a link to it in its place; what it holds."""
    path.rename(target)
    path.symlink_to(target)
    return target.read_bytes()


def test_links_in_place_of_the_consoles_files_are_set_aside_and_never_followed(data_path: Path, tmp_path: Path) -> None:
    targets = tmp_path / "elsewhere"
    targets.mkdir()
    (data_path / "admin-password").write_text("user: somebody\n")
    made = next((data_path / "static").glob("plotly*.js"))
    names = [DATABASE, "secret-key", "admin-password", str(made.relative_to(data_path))]
    before = {name: link_to(data_path / name, targets / Path(name).name) for name in names}
    # SQLite would write into what a journal's name points to.
    (targets / "wal").write_bytes(b"")
    (data_path / f"{DATABASE}-wal").symlink_to(targets / "wal")
    server = ServerProcess(data_path, options=["--no-pipeline"], environment={"PENSTOCK_ADMIN_PASSWORD": ""})
    with server:
        assert server.topic_stats("orders")["depth"] == 1
        console = ConsoleClient(server.console_port)
        assert console.get("/login/").status == 200
        assert console.get(f"/static/{made.name}").status == 200
        console.close()
    assert {name: (targets / Path(name).name).read_bytes() for name in names} == before
    assert (targets / "wal").read_bytes() == b""
    for name in names:
        assert not (data_path / name).is_symlink()
    for name in (DATABASE, "secret-key", f"{DATABASE}-wal"):
        assert f"{data_path / name} was a symbolic link" in server.log
        assert (data_path / f"{name}.bad-1").is_symlink()
    assert "Traceback" not in server.log


def test_journal_that_is_a_link_is_set_aside_alone(data_path: Path, tmp_path: Path) -> None:
    """The users stay: it is the link alone that is set aside."""
    target = tmp_path / "target"
    target.write_bytes(b"not ours")
    (data_path / f"{DATABASE}-shm").symlink_to(target)
    with server_on(data_path) as server:
        console = ConsoleClient(server.console_port)
        console.log_in()
        assert "A journal of the console&#x27;s database was no file." in console.get("/").text
        console.close()
    assert target.read_bytes() == b"not ours"
    assert not (data_path / f"{DATABASE}.bad-1").exists()
    assert (data_path / f"{DATABASE}-shm.bad-1").is_symlink()
    assert "Traceback" not in server.log
