"""The command `penstock`: which commands there are, and what a mistake costs."""

import ast
import json
import os
import pkgutil
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from admin_console.management import commands
from admin_console.management.known_variables import VARIABLES, complaints_about_variables
from admin_console.management.program import ABOUT_NO_DATA, COMMANDS, run
from admin_console.paths import (
    _owner_of_new_files,
    account_name,
    check_account,
    check_data_directory,
    make_data_directory,
)
from queue_engine.vocabulary.version import full_version
from tests.support.processes.penstock_command import penstock
from tests.support.processes.server import ROOT


def refusal(done: "subprocess.CompletedProcess[str]") -> str:
    """The one sentence of a mistake; fails for anything else."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("penstock: ")
    assert "Traceback" not in done.stderr
    return done.stderr.removeprefix("penstock: ").removesuffix("\n")


def test_each_command_is_listed_and_no_other(tmp_path: Path) -> None:
    assert list(COMMANDS) == sorted(module.name for module in pkgutil.iter_modules(commands.__path__))
    for arguments in ((), ("help",), ("--help",)):
        done = penstock(*arguments, directory=tmp_path)
        assert done.returncode == 0
        assert re.findall(r"^  (\w+) ", done.stdout, re.MULTILINE) == list(COMMANDS)


def test_the_version_is_ours(tmp_path: Path) -> None:
    assert penstock("--version", directory=tmp_path).stdout == f"penstock {full_version()}\n"


def test_a_command_that_runs_on_collects_what_is_unreachable(tmp_path: Path) -> None:
    code = "import atexit, gc, sys; atexit.register(lambda: print(gc.isenabled(), file=sys.stderr)); "
    code += "sys.argv[0] = 'penstock'; from admin_console.management.entry import main; main()"
    command = [sys.executable, "-c", code, "systemd"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "True\n")


@pytest.mark.slow(reason="starts processes")
def test_help_makes_nothing_and_looks_at_nothing(tmp_path: Path) -> None:
    done = penstock("help", directory=tmp_path)
    assert "manage.py COMMAND --help" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(tmp_path: Path, command: str) -> None:
    told = penstock(command, "--help", directory=tmp_path)
    assert told.returncode == 0
    assert f"manage.py {command}" in told.stdout
    # Every command takes it; those whose data it names say so.
    reads_data = command in {"audit", "backup", "pipeline", "sql", "token", "topology", "user"}
    assert ("--data-path names" in told.stdout) == reads_data
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="starts processes")
def test_the_status_of_the_pipeline_has_help_and_takes_no_word(tmp_path: Path) -> None:
    assert "usage: manage.py pipeline" in penstock("pipeline", "status", "--help", directory=tmp_path).stdout
    told = refusal(penstock("pipeline", "status", "archive", f"--data-path={tmp_path}", directory=tmp_path))
    assert "pipeline status takes no 'archive'" in told


@pytest.mark.slow(reason="starts processes")
def test_help_of_a_command_is_the_same_in_each_order(tmp_path: Path) -> None:
    told = penstock("user", "--help", directory=tmp_path)
    for arguments in (("help", "user"), ("-h", "user"), ("--help", "user"), ("user", "-h")):
        done = penstock(*arguments, directory=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert "manage.py user" in done.stdout
        assert done.stdout == told.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="starts processes")
def test_djangos_own_options_are_none_of_ours(tmp_path: Path) -> None:
    options = ("--settings=x", "--pythonpath=.", "--traceback", "--version")
    told = refusal(penstock("topology", "check", *options, f"--data-path={tmp_path}", directory=tmp_path))
    assert f"unrecognized arguments: {' '.join(options)}." in told


@pytest.mark.slow(reason="starts processes")
def test_djangos_own_commands_are_none_of_ours(tmp_path: Path) -> None:
    assert "there is no command 'migrate'." in refusal(penstock("migrate", directory=tmp_path))
    assert COMMANDS.keys() & {"flush", "shell", "runserver", "createsuperuser", "changepassword"} == set()


def test_a_misspelled_command_option_and_variable_name_the_nearest(tmp_path: Path) -> None:
    assert "Did you mean serve?" in refusal(penstock("serv", directory=tmp_path))
    assert "--tcp-adress=:1. Did you mean --tcp-address?" in refusal(
        penstock("serve", "--tcp-adress=:1", directory=tmp_path)
    )
    # Read before the others, by its full name: taken for --data-path it would be ignored.
    assert "--data-pat=/x. Did you mean --data-path?" in refusal(
        penstock("serve", "--data-pat=/x", directory=tmp_path, PENSTOCK_DATA_PATH=str(tmp_path / "data"))
    )
    assert refusal(penstock("serve", directory=tmp_path, PENSTOCK_MSG_TIMOUT="1s")) == (
        "the environment variable PENSTOCK_MSG_TIMOUT is unknown: did you mean PENSTOCK_MSG_TIMEOUT?"
    )


def test_an_option_that_is_like_none_is_taken_for_none(tmp_path: Path) -> None:
    for option in ("--limit=5", "--xx=1"):
        assert refusal(penstock("sql", option, "SELECT 1", directory=tmp_path)) == (
            f"unrecognized arguments: {option}. `manage.py sql --help` lists its options."
        )


def test_all_unknown_variables_are_named_at_once() -> None:
    environment = {"PENSTOCK_XQ": "1", "PENSTOCK_DEMO": "true", "PENSTOCK_DATA_PAHT": "x", "PATH": "/bin"}
    assert complaints_about_variables(environment) == [
        "the environment variable PENSTOCK_DATA_PAHT is unknown: did you mean PENSTOCK_DATA_PATH?",
        "the environment variable PENSTOCK_XQ is unknown: nothing reads it.",
    ]


def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_mistake() -> None:
    names = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_NSQ", "PORT", "PORT_4150_TCP", "PORT_4150_TCP_ADDR")
    assert complaints_about_variables({f"PENSTOCK_{name}": "10.0.0.7" for name in names}) == []
    assert complaints_about_variables({f"PENSTOCK_HTTP_{name}": "10.0.0.7" for name in names}) == []
    assert complaints_about_variables({"PENSTOCK_PORTS": "1"}) != []


def test_each_variable_that_the_code_names_is_known() -> None:
    named = set()
    for path in (path for top in ("admin_console", "queue_engine") for path in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named.update(re.findall(r"PENSTOCK_[A-Z_]*[A-Z]", node.value))
    assert named >= {"PENSTOCK_ADMIN_USER", "PENSTOCK_SPARK_MASTER", "PENSTOCK_DATA_PATH"}
    assert named <= VARIABLES


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize(
    "arguments",
    [("user", "list"), ("backup", "copy")],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_only_looks_makes_no_data_directory(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    typo = tmp_path / "typo"
    told = refusal(penstock(*arguments, f"--data-path={typo}", directory=tmp_path))
    assert told == (
        f"the data directory {typo} can't be used: it does not exist. `penstock serve` makes it. "
        "--data-path or PENSTOCK_DATA_PATH names another one."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize("command", ["serve", "topology"])
def test_a_data_path_that_is_a_file_is_refused(tmp_path: Path, command: str) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    arguments = ("check",) if command == "topology" else ()
    told = refusal(penstock(command, *arguments, f"--data-path={file}", directory=tmp_path))
    assert f"{file} can't be used: it is a file, not a directory" in told
    assert file.read_text() == "kept"


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize(
    "arguments", [("serve",), ("user", "list"), ("pipeline", "status")], ids=lambda given: given[0]
)
def test_a_data_path_that_is_a_link_to_nothing_is_called_so(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    link, target = tmp_path / "link", tmp_path / "gone"
    link.symlink_to(target)
    told = refusal(penstock(*arguments, f"--data-path={link}", directory=tmp_path))
    assert f"{link} can't be used: it is a symbolic link to {target}, which does not exist." in told
    assert list(tmp_path.iterdir()) == [link]


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize(
    "arguments",
    [
        ("user", "list"),
        ("user", "add", "grace", "--role=viewer"),
        ("audit", "verify"),
        ("topology", "show"),
        ("topology", "check"),
        ("pipeline", "status"),
    ],
    ids=" ".join,
)
def test_a_command_makes_no_file_where_no_server_has_started(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = penstock(*arguments, f"--data-path={tmp_path}", directory=tmp_path)
    if arguments[0] in ("user", "audit"):
        assert refusal(done).startswith(f"{tmp_path}/console.sqlite3 is not there: ")
    else:
        assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize(
    "option",
    ["--tcp-address=x", "--max-msg-size=0", "--no-such-option", "--console-address=x", "--audit-retention=1y"],
)
def test_a_refused_option_of_serve_leaves_no_data_directory(tmp_path: Path, option: str) -> None:
    told = refusal(penstock("serve", option, f"--data-path={tmp_path}/data", directory=tmp_path))
    assert option.partition("=")[0] in told
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def data_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory whose one file belongs to another account than the one that this process runs as."""
    telling = tmp_path / "topology.json"
    telling.write_text("{}")
    telling.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(telling, 65533, -1)
    else:
        # What root would make here is not this account's.
        monkeypatch.setattr("admin_console.paths._owner_of_new_files", lambda _: 0)
    monkeypatch.setenv("PENSTOCK_DATA_PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - set(ABOUT_NO_DATA)))
def test_a_command_of_roots_on_another_accounts_data_is_refused(
    data_of_another: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    owner = account_name((data_of_another / "topology.json").stat().st_uid)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    before, umask = sorted(data_of_another.iterdir()), os.umask(0o077)
    try:
        assert run(["penstock", command]) == 2
    finally:
        os.umask(umask)
    assert capfd.readouterr().err == (
        f"penstock: the data directory {data_of_another} can't be used: topology.json in it belongs to the account "
        f"{owner}, and this command runs as root. Run the command as {owner}. --data-path or PENSTOCK_DATA_PATH names "
        "another one.\n"
    )
    assert sorted(data_of_another.iterdir()) == before


@pytest.mark.parametrize("may_write", [True, False])
def test_another_account_than_roots_is_refused_where_it_may_not_write(
    data_of_another: Path, monkeypatch: pytest.MonkeyPatch, may_write: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    monkeypatch.setattr("os.access", lambda *_, **__: may_write)  # root may write everything
    if may_write:
        check_account(data_of_another)
        return
    with pytest.raises(OSError, match=r"topology\.json in it belongs to the account"):
        check_account(data_of_another)


def test_a_directory_that_is_mounted_with_another_owner_serves_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 65533, -1)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    check_account(tmp_path)


def test_a_file_system_that_gives_roots_files_to_another_account_serves_root(
    data_of_another: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS with root_squash, SMB with uid=: no local directory does that, so the owner of new files is told here."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    owner = (data_of_another / "topology.json").stat().st_uid
    monkeypatch.setattr("admin_console.paths._owner_of_new_files", lambda _: owner)
    check_account(data_of_another)


def test_the_owner_of_new_files_is_found_and_no_file_stays(tmp_path: Path) -> None:
    assert _owner_of_new_files(tmp_path) == os.geteuid()
    assert _owner_of_new_files(tmp_path / "missing") is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_account_is_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 65533, -1)
    me = tmp_path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: me)
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    # The root of the file system stands for a stray file of root's.
    monkeypatch.setattr("admin_console.paths._TELLING_FILES", ("/",))
    with pytest.raises(
        OSError, match=f"Give everything in it to one account: `chown -R {account_name(me)} {tmp_path}`"
    ):
        check_account(tmp_path)


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize("error", ["ValueError('1 is wrong')", "OSError(24, 'Too many open files')"])
def test_a_fault_of_the_server_is_logged_with_its_place(tmp_path: Path, error: str) -> None:
    """Status 2 and a sentence are for what a user got wrong."""
    faulty = (tmp_path / "sitecustomize").with_suffix(".py")
    faulty.write_text(
        f"""
import sys
sys.path.insert(0, {os.getcwd()!r})
from queue_engine.service.process.service_manager import ServiceManager
def fail(self, status): raise {error}
ServiceManager.starting = fail
"""
    )
    done = penstock("serve", f"--data-path={tmp_path}/data", directory=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "the process ends with an error" in done.stderr
    assert f'File "{faulty}", line 5' in done.stderr


def interrupted_while(module: str, tmp_path: Path, *arguments: str) -> "tuple[int, str]":
    """Status and output of a command when SIGINT comes while it imports `module`."""
    (tmp_path / "sitecustomize").with_suffix(".py").write_text(
        f"""
import builtins, os, signal, sys
# Where tests run in the background of a shell, SIGINT is ignored, and what they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
imported = builtins.__import__
def heed(name, *rest, **named):
    if name == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)
    return imported(name, *rest, **named)
builtins.__import__ = heed
"""
    )
    done = penstock(*arguments, directory=tmp_path, PYTHONPATH=str(tmp_path))
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize("module", ["admin_console.management.program", "django"])
def test_an_interrupted_import_is_no_traceback(tmp_path: Path, module: str) -> None:
    assert interrupted_while(module, tmp_path, "serve") == (130, "")


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize("what", ["run", "worker"])
def test_an_interrupted_import_of_the_pipeline_is_no_traceback(tmp_path: Path, what: str) -> None:
    module = "queue_engine.lake.history.rollup_progress"  # which the console does not import
    assert interrupted_while(module, tmp_path, "pipeline", what) == (-signal.SIGINT, "")


@pytest.mark.slow(reason="starts processes")
def test_a_list_whose_reader_goes_ends_as_by_a_broken_pipe(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "help"], stdout=writer, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writer)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (141, "")


@pytest.mark.slow(reason="starts processes")
def test_a_data_path_that_can_not_be_made_is_refused(tmp_path: Path) -> None:
    told = refusal(penstock("serve", "--data-path=/proc/nowhere/penstock", directory=tmp_path))
    assert "can't be made: No such file or directory" in told


def as_account_without_rights(call: Callable[[], object]) -> str:
    """What `call` says when it fails, in a process that may write nothing of root's."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            call()
        except OSError as exc:
            os.write(writer, str(exc).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told


def test_a_data_path_that_may_not_be_read_or_written_is_refused() -> None:
    # Not below pytest's own directory, which is closed to all others.
    with tempfile.TemporaryDirectory() as parent:
        closed = Path(parent) / "closed"
        closed.mkdir(mode=0o500)
        Path(parent).chmod(0o755)
        for call, reason in (
            (make_data_directory, "may not write it, or its disk is read-only"),
            (check_data_directory, "may not read it"),
        ):
            closed.chmod(0o500 if os.geteuid() else 0o555 if call is make_data_directory else 0o700)
            if call is check_data_directory and os.geteuid():
                closed.chmod(0o000)
            told = as_account_without_rights(partial(call, closed))
            assert f"the data directory {closed} can't be used: the account " in told
            assert f"{reason}. --data-path or" in told


@pytest.mark.slow(reason="starts processes")
def test_a_damaged_database_is_a_sentence_for_each_command_that_reads_it(tmp_path: Path) -> None:
    (tmp_path / "console.sqlite3").write_bytes(b"no database at all, but long enough to look like one" * 40)
    here = f"--data-path={tmp_path}"
    assert refusal(penstock("user", "list", here, directory=tmp_path)) == (
        "The console's database can't be used: file is not a database. Nothing was changed."
    )
    told = refusal(penstock("audit", "verify", here, directory=tmp_path))
    assert told == f"{tmp_path}/console.sqlite3 can't be read: it is damaged (file is not a database)."


@pytest.mark.slow(reason="starts processes")
def test_a_database_that_can_not_be_opened_is_a_sentence(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    # A directory in the place of its journal: root, too, can't open that.
    (data / "console.sqlite3-wal").mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / "made.sqlite3")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE one (two)")
    (tmp_path / "made.sqlite3").rename(data / "console.sqlite3")
    here = f"--data-path={data}"
    told = refusal(penstock("audit", "verify", here, directory=tmp_path))
    assert told == f"{data}/console.sqlite3 can't be read: unable to open database file"
    done = penstock("backup", str(copy), here, directory=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        f"penstock: {data}/console.sqlite3 can't be copied: unable to open database file\n",
    )


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize("option", ["--tcp-address=x", "--tcp-address=192.0.2.1:4150"], ids=["refused", "no start"])
def test_why_a_server_does_not_start_is_json_where_its_log_is(tmp_path: Path, option: str) -> None:
    options = (option, "--http-address=127.0.0.1:0", "--console-address=127.0.0.1:0", "--log-format=json")
    done = penstock("serve", *options, f"--data-path={tmp_path}/data", directory=tmp_path)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout, lines[-1]["level"]) == (2, "", "CRITICAL")
    assert option.partition("=")[2] in lines[-1]["message"]


@pytest.mark.slow(reason="starts processes")
def test_a_head_that_is_no_file_is_a_mistake_and_no_finding(tmp_path: Path) -> None:
    (tmp_path / "console.sqlite3").touch()
    for head in (tmp_path / "typo", tmp_path):
        done = penstock("audit", "verify", f"--head={head}", f"--data-path={tmp_path}", directory=tmp_path)
        assert refusal(done) == f"--head {head} is no file that can be read."


def test_an_empty_data_path_is_refused_and_no_default(tmp_path: Path) -> None:
    for arguments in (("--data-path=",), ("--data-path", "")):
        assert "--data-path is empty" in refusal(penstock("serve", *arguments, directory=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize(("variable", "value"), [("PENSTOCK_DEMO", "maybe"), ("PENSTOCK_NO_PIPELINE", "2")])
def test_a_switch_is_true_or_false(tmp_path: Path, variable: str, value: str) -> None:
    told = refusal(penstock("serve", directory=tmp_path, **{variable: value}))
    assert told == f"{variable}: {value!r} is neither true nor false"
