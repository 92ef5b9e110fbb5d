"""`manage.py` before anything is installed: the environment it makes, the packages it asks for, what it refuses.

It runs by the real Python, in a tree of its own whose project needs nothing from elsewhere and whose server is a line
of text. apt-get and sudo are scripts that write how they were called.
"""

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import manage
from tests.support.waiting import wait_for

ROOT = Path(__file__).parent.parent
PYTHON = Path(sys.executable).resolve()
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "penstock"
version = "1"
"""
# What pip calls to install a tree for development: a wheel with a name and nothing else.
BACKEND = """
import zipfile


def build_editable(directory, config_settings=None, metadata_directory=None):
    with open("built", "a") as file:
        file.write("x")
    with zipfile.ZipFile(directory + "/penstock-1-py3-none-any.whl", "w") as wheel:
        facts = "Metadata-Version: 2.1\\nName: penstock\\nVersion: 1\\nProvides-Extra: pipeline\\n"
        wheel.writestr("penstock-1.dist-info/METADATA", facts)
        wheel.writestr("penstock-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("penstock-1.dist-info/RECORD", "")
    return "penstock-1-py3-none-any.whl"


build_wheel = build_editable
"""
SHOWS_ITS_CALL = "import os, sys\nprint(sys.argv[1:], sys.prefix, os.getpid())\n"
NOTES_ITS_CALL = '#!/bin/sh\necho "$0" "$@" >>{log}\n'


class Checkout:
    """A tree with manage.py, and a PATH with what the test puts there."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.programs, self.log = folder / "tree", folder / "bin", folder / "called"
        server = self.tree / "admin_console/management/entry.py"
        for path, text in {
            server: SHOWS_ITS_CALL + "def main(): pass\n",
            self.tree / "tests/suite.py": SHOWS_ITS_CALL,
            self.tree / "pyproject.toml": PROJECT,
            (self.tree / "backend").with_suffix(".py"): BACKEND,
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        shutil.copy(ROOT / "manage.py", self.tree)
        self.programs.mkdir()
        self.log.touch()
        self.log.chmod(0o666)

    def has(self, *programs: str) -> None:
        for name in programs:
            (self.programs / name).write_text(NOTES_ITS_CALL.format(log=self.log))
            (self.programs / name).chmod(0o755)

    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.programs), "PIP_NO_INDEX": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *arguments: str, python: Path = PYTHON) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [python, self.tree / "manage.py", *arguments], env=self.environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    def called(self) -> list[str]:
        return [line.removeprefix(f"{self.programs}/") for line in self.log.read_text().splitlines()]

    def install(self, kind: str) -> None:
        """What an earlier run left. Its Python writes how it was called."""
        (self.tree / ".venv/bin").mkdir(parents=True)
        (self.tree / ".venv/bin/python").write_text('#!/bin/sh\necho "$@"\n')
        (self.tree / ".venv/bin/python").chmod(0o755)
        (self.tree / f".venv/installed-{kind}.toml").write_text(PROJECT)


@pytest.fixture
def checkout() -> Iterator[Checkout]:
    """In a directory that other users may read: some tests run as one without rights."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Checkout(Path(folder))


@pytest.fixture
def user() -> int | None:
    """An account that is not root: the one that runs the tests, or one without rights."""
    return 65534 if os.geteuid() == 0 else None


def test_the_least_python_is_that_of_the_project() -> None:
    assert f'requires-python = ">=3.{manage.MINOR_MIN}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.slow(reason="pip makes an environment")
def test_the_first_run_makes_the_environment_and_goes_on_in_it_and_the_second_only_goes_on(checkout: Checkout) -> None:
    for words, times in (("Installing Penstock and its data pipeline into", 1), ("", 1)):
        done = checkout.run("serve", "--verbose")
        assert done.returncode == 0, done.stderr
        assert words in done.stderr
        assert f"['serve', '--verbose'] {checkout.tree}/.venv " in done.stdout
        assert (checkout.tree / "built").read_text() == "x" * times
    # The second one printed nothing but the server's own line.
    assert done.stderr == ""
    with (checkout.tree / "pyproject.toml").open("a") as project:
        project.write("dependencies = []\n")
    # The environment's Python is gone meanwhile, as after an upgrade of the system; a file of one's own is there.
    for link in (checkout.tree / ".venv/bin").glob("python*"):
        link.unlink()
        link.symlink_to("/nowhere/python")
    (checkout.tree / ".venv/mine").touch()
    done = checkout.run("serve")
    assert "Installing" in done.stderr
    assert f"['serve'] {checkout.tree}/.venv " in done.stdout
    assert (checkout.tree / "built").read_text() == "xx"
    assert (checkout.tree / ".venv/mine").exists()


def test_another_environment_that_is_active_stays_as_it_is(checkout: Checkout) -> None:
    other = checkout.tree.parent / "other"
    (other / "bin").mkdir(parents=True)
    (other / "pyvenv.cfg").write_text(f"home = {PYTHON.parent}\n")
    (other / "bin/python").symlink_to(PYTHON)
    done = checkout.run("serve", python=other / "bin/python")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"manage.py: The environment {other} is active and has no Penstock. Run `deactivate`")
    assert not (checkout.tree / ".venv").exists()


@pytest.mark.slow(reason="starts pytest")
def test_slowest_takes_tests_or_a_number(tmp_path: Path) -> None:
    (tmp_path / "test_one").with_suffix(".py").write_text("def test_it(): pass\n")
    for words in (["--slowest"], ["--slowest=1"]):
        command = [sys.executable, ROOT / "manage.py", "test", *words, str(tmp_path), "--rootdir", str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "::test_it\n" in done.stdout.partition("worker-seconds")[2]


@pytest.mark.parametrize(
    ("installed", "enough_for"),
    [("core", ["core"]), ("run", ["core", "run"]), ("test", ["core", "run", "test"])],
)
def test_an_installation_contains_the_smaller_ones_until_the_project_changes(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, installed: str, enough_for: list[str]
) -> None:
    environment = checkout.tree / ".venv"
    monkeypatch.setattr(manage, "ENVIRONMENT", str(environment))
    monkeypatch.setattr(manage, "PYTHON", str(environment / "bin/python"))
    assert [kind for kind in manage.INSTALLATIONS if manage.is_installed(kind, PROJECT.encode())] == []
    checkout.install(installed)
    assert [kind for kind in manage.INSTALLATIONS if manage.is_installed(kind, PROJECT.encode())] == enough_for
    remark = f"# a remark\n{PROJECT}[tool.ruff]\n".encode()
    assert [kind for kind in manage.INSTALLATIONS if manage.is_installed(kind, remark)] == enough_for
    for other in (f"{PROJECT}dependencies = ['x']\n".encode(), b"no TOML ["):
        assert [kind for kind in manage.INSTALLATIONS if manage.is_installed(kind, other)] == []
    # The system's Python became another one, whose packages are elsewhere.
    python = environment / "bin/python"
    (newer := checkout.tree / "python3.99").write_bytes(python.read_bytes())
    newer.chmod(0o755)
    python.unlink()
    python.symlink_to(newer)
    assert [kind for kind in manage.INSTALLATIONS if manage.is_installed(kind, PROJECT.encode())] == []
    (environment / "lib/python3.99").mkdir(parents=True)
    assert [kind for kind in manage.INSTALLATIONS if manage.is_installed(kind, PROJECT.encode())] == enough_for
    # The Python that made the environment is gone.
    (environment / "bin/python").unlink()
    assert [kind for kind in manage.INSTALLATIONS if manage.is_installed(kind, PROJECT.encode())] == []


@pytest.mark.parametrize(
    ("arguments", "inside"), [(["serve", "--core", "-v"], "serve -v --core"), (["user", "list"], "user list")]
)
def test_a_command_goes_on_in_an_environment_that_is_enough(
    checkout: Checkout, arguments: list[str], inside: str
) -> None:
    checkout.install("core")
    done = checkout.run(*arguments)
    assert (done.stdout, done.stderr) == (f"{checkout.tree}/manage.py {inside}\n", "")


def test_help_installs_nothing_and_says_how_to_begin(checkout: Checkout) -> None:
    for arguments in ([], ["help"], ["-h"], ["serve", "--help"]):
        done = checkout.run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: python3 manage.py serve")
    done = checkout.run("user", "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "manage.py: `user` needs Penstock's environment, which `python3 manage.py serve` makes in .venv.\n"
    )
    assert not (checkout.tree / ".venv").exists()


def installing_as(user: int | None) -> str:
    """Python's code. The account changes behind the imports: it may have no right to read this Python."""
    return f"import os, manage; {f'os.setuid({user}); ' if user else ''}manage.install_programs(False)"


def programs_of(checkout: Checkout, user: int | None) -> "subprocess.CompletedProcess[str]":
    """Only the part that installs the tests' programs, in which some are missing."""
    checkout.has("chromium", "nginx", "caddy", "promtool", "env")
    return subprocess.run(
        [PYTHON, "-c", installing_as(user)], cwd=checkout.tree, env=checkout.environment(),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_packages_are_installed_by_apt_get_and_as_another_user_with_sudo(checkout: Checkout, user: int | None) -> None:
    checkout.has("apt-get", "sudo")
    for who, prefix in ((None, "env" if os.geteuid() == 0 else "sudo env"), (user, "sudo env")):
        checkout.log.write_text("")
        done = programs_of(checkout, user=who)
        assert done.returncode == 0, done.stderr
        assert "These Debian packages are missing: redis-server\n" in done.stderr
        assert checkout.called() == [
            f"{prefix} DEBIAN_FRONTEND=noninteractive apt-get update",
            f"{prefix} DEBIAN_FRONTEND=noninteractive apt-get install -y redis-server",
        ]


@pytest.mark.parametrize("there", [(), ("apt-get",)], ids=["no apt-get", "no sudo"])
def test_without_apt_get_or_sudo_the_packages_are_named(
    checkout: Checkout, user: int | None, there: tuple[str, ...]
) -> None:
    checkout.has(*there)
    done = programs_of(checkout, user=user)
    assert done.returncode == 2
    assert done.stderr == (
        "manage.py: These packages are missing, by Debian's names: redis-server. Install them, then run this again.\n"
    )
    assert checkout.called() == []


@pytest.mark.parametrize(("answer", "goes_on"), [("\n", True), ("yes\n", True), ("n\n", False), ("\x04", False)])
def test_on_a_terminal_sudo_is_asked_for_first(
    checkout: Checkout, user: int | None, answer: str, *, goes_on: bool
) -> None:
    checkout.has("apt-get", "sudo", "chromium", "nginx", "caddy", "promtool")
    ours, theirs = pty.openpty()
    shown = checkout.tree / "shown"
    with os.fdopen(ours, "r+b", buffering=0) as terminal, shown.open("ab") as stderr:
        process = subprocess.Popen(
            [PYTHON, "-c", installing_as(user)], cwd=checkout.tree,
            env=checkout.environment(), stdin=theirs, stdout=theirs, stderr=stderr,
        )  # fmt: skip
        os.close(theirs)
        wait_for("the commands", lambda: "apt-get install -y redis-server" in shown.read_text())
        assert checkout.called() == []
        terminal.write(answer.encode())
        assert process.wait(timeout=60) == (0 if goes_on else 2)
    assert ("Nothing was installed." in shown.read_text()) != goes_on
    assert [re.sub(r".*apt-get ", "", line) for line in checkout.called()] == (
        ["update", "install -y redis-server"] if goes_on else []
    )


def test_a_command_that_fails_ends_it_and_is_named(checkout: Checkout) -> None:
    checkout.has("apt-get", "sudo")
    (checkout.programs / "false").write_text("#!/bin/sh\nexit 7\n")
    (checkout.programs / "false").chmod(0o755)
    call = "import manage; manage.run(['false', 'two words'])"
    done = subprocess.run(
        [PYTHON, "-c", call], cwd=checkout.tree, env=checkout.environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "manage.py: `false 'two words'` failed with status 7.\n")
