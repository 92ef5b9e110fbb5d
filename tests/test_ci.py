"""`.ci/run`: which Python of a machine gets README's test command, and which one in four of the fast tests.

The script runs as it is, in a tree and with a PATH of the test's own. The Pythons there are scripts that answer as one
of their version would, and that make an environment where manage.py does; one test has the real one.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ["bash", "cat", "chmod", "cmp", "cp", "dirname", "head", "mkdir", "mktemp", "rm", "sed", "sort", "tail"]
# Its environments are directories whose programs write what they were called with.
PYTHON = """#!/bin/sh
case "$1" in
-c) printf '%s %s %s\\n' {minor} {micro} "$0" ;;
-m)
    for folder in "$@"; do :; done
    mkdir -p "$folder/bin"
    echo 'version = 3.{minor}.{micro}' >"$folder/pyvenv.cfg"
    for program in pip python; do
        printf '#!/bin/sh\\necho "$0" "$@" >>called\\n' >"$folder/bin/$program"
        chmod +x "$folder/bin/$program"
    done ;;
*)
    echo 'python 3.{minor}.{micro}' "$@" >>called
    [ -x .venv/bin/pip ] || "$0" -m venv .venv ;;
esac
"""


class Machine:
    """A tree with the script, and the folders that its PATH has."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.tools = folder / "tools"
        self.folders: list[Path] = []
        self.pyenv = folder / "pyenv"
        (self.tree / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci/run", self.tree / ".ci/run")
        shutil.copy(ROOT / "pyproject.toml", self.tree)
        self.tools.mkdir()
        for name in TOOLS:
            (self.tools / name).symlink_to(shutil.which(name) or name)

    def has(self, folder: Path, name: str, minor: int, micro: int) -> None:
        self.program(folder / name, PYTHON.format(minor=minor, micro=micro))

    def program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        if path.parent not in self.folders and self.pyenv not in path.parents:
            self.folders.append(path.parent)

    def run(self) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(map(str, [*self.folders, self.tools]))
        environment = {"PATH": path, "PYENV_ROOT": str(self.pyenv), "TMPDIR": str(self.tree.parent)}
        command = [shutil.which("bash") or "bash", self.tree / ".ci/run"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)

    def called(self) -> list[str]:
        """What ran, in order."""
        path = self.tree / "called"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_oldest_runs_everything_and_the_newest_the_fast_tests(machine: Machine, tmp_path: Path) -> None:
    machine.has(tmp_path / "local", "python3", 12, 1)
    machine.has(tmp_path / "usr", "python3", 11, 2)
    machine.has(tmp_path / "usr", "python3.14", 14, 0)
    machine.has(machine.pyenv / "versions" / "3.11.7" / "bin", "python3", 11, 7)
    ran = machine.run()
    assert ran.returncode == 0, ran.stderr
    install, *rest = sorted(machine.called(), key=lambda line: "newest/bin/pip" not in line)
    assert install.startswith(".venv-newest/bin/pip install")
    assert rest[0] == "python 3.11.2 manage.py test"
    assert rest[1].startswith(".venv-newest/bin/python manage.py test --fast -p tests.support.one_in_four")
    assert len(rest) == 2
    assert "3.14.0" in (machine.tree / ".venv-newest/pyvenv.cfg").read_text()


def test_an_older_one_of_pyenv_comes_first_and_one_that_is_too_old_never(machine: Machine, tmp_path: Path) -> None:
    # What answers nothing is too old, an environment's, or no CPython: the program that is asked decides.
    machine.program(tmp_path / "usr" / "python3", "#!/bin/sh\n[ $1 = -c ] && exit 1\necho too old >>called\n")
    machine.has(tmp_path / "usr", "python3.13", 13, 1)
    machine.has(machine.pyenv / "versions" / "3.12.9" / "bin", "python3", 12, 9)
    ran = machine.run()
    assert ran.returncode == 0, ran.stderr
    assert "python 3.12.9 manage.py test" in machine.called()
    assert "too old" not in machine.called()


def test_a_machine_with_one_version_runs_the_command_alone(machine: Machine, tmp_path: Path) -> None:
    machine.has(tmp_path / "usr", "python3", 11, 2)
    machine.has(tmp_path / "local", "python3.11", 11, 9)
    assert machine.run().returncode == 0
    assert machine.called() == ["python 3.11.2 manage.py test"]
    assert not (machine.tree / ".venv-newest").exists()


def test_an_environment_of_another_version_is_made_anew_and_one_of_this_version_is_used(
    machine: Machine, tmp_path: Path
) -> None:
    machine.has(tmp_path / "usr", "python3", 11, 2)
    for version, stays in (("3.11.7", False), ("3.11.2", True)):
        old = machine.tree / ".venv"
        shutil.rmtree(old, ignore_errors=True)
        machine.program(old / "bin" / "pip", "#!/bin/sh\n")
        machine.program(old / "bin" / "python", "#!/bin/sh\n")
        machine.folders.remove(old / "bin")
        (old / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
        (old / "mark").touch()
        assert machine.run().returncode == 0
        assert (old / "mark").exists() is stays


@pytest.mark.parametrize("failing", ["the command", "the installation", "the fast tests"])
def test_it_fails_where_one_of_them_fails(machine: Machine, tmp_path: Path, failing: str) -> None:
    machine.has(tmp_path / "usr", "python3", 11, 2)
    machine.has(tmp_path / "usr", "python3.13", 13, 0)
    newest = machine.tree / ".venv-newest"
    for program in ("pip", "python"):
        text = "#!/bin/sh\nexit 3\n" if (program == "pip") == (failing == "the installation") else "#!/bin/sh\n"
        machine.program(newest / "bin" / program, text)
    machine.folders.remove(newest / "bin")
    (newest / "pyvenv.cfg").write_text("version = 3.13.0\n")
    if failing == "the command":
        (tmp_path / "usr" / "python3").write_text(PYTHON.format(minor=11, micro=2) + "exit 3\n")
    assert machine.run().returncode != 0


def test_without_a_python_that_is_supported_it_says_which_it_needs(machine: Machine) -> None:
    ran = machine.run()
    assert ran.returncode == 1
    assert ran.stderr == "this machine has no python3 of 3.11 or newer\n"


def test_a_real_python_is_found_and_that_of_an_environment_is_not(machine: Machine, tmp_path: Path) -> None:
    (machine.tree / "manage.py").write_text("import sys; print(sys.executable, *sys.version_info[:3])\n")
    environment, real = tmp_path / "environment", tmp_path / "real"
    environment.mkdir()
    real.mkdir()
    (environment / "python3").symlink_to(sys.executable)
    (real / "python3").symlink_to(Path(sys.executable).resolve())
    machine.folders += [Path(sys.executable).parent, real]
    ran = machine.run()
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == " ".join(map(str, (real / "python3", *sys.version_info[:3])))
