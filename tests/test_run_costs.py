"""What a run spends beside its tests, where their files are, and that each process imports its share of them."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.suite import FREED
from tests.support import run_costs
from tests.support.run_costs import ON_DISK, share_of, store_bytecode, use_memory

ROOT = Path(__file__).parent.parent


def test_bytecode_is_stored_where_the_environment_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    store_bytecode()
    assert not sys.dont_write_bytecode
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


def test_this_run_and_what_it_starts_store_bytecode() -> None:
    assert not sys.dont_write_bytecode
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As where nobody chose a place for the files."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.delenv(ON_DISK, raising=False)
    monkeypatch.setattr(run_costs, "MEMORY_BYTES_MIN", 1)
    return monkeypatch


def test_files_are_in_memory_and_those_of_tests_that_need_a_disk_where_all_would_be(
    surroundings: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    surroundings.setattr(run_costs, "MEMORY", tmp_path)
    assert use_memory() == f"files in memory, in {tmp_path}"
    assert os.environ["TMPDIR"] == str(tmp_path)
    assert os.environ[ON_DISK] == tempfile.gettempdir()


@pytest.mark.parametrize("missing", ["room", "the place"])
def test_without_room_in_memory_files_stay_on_the_disk_and_the_run_says_why(
    surroundings: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    surroundings.setattr(run_costs, "MEMORY", tmp_path if missing == "room" else tmp_path / "shm")
    surroundings.setattr(run_costs, "MEMORY_BYTES_MIN", 1 << 80)
    assert f"{run_costs.MEMORY} has " in use_memory()
    assert "TMPDIR" not in os.environ
    assert ON_DISK not in os.environ


def test_a_place_that_was_chosen_holds_for_all(surroundings: pytest.MonkeyPatch, tmp_path: Path) -> None:
    surroundings.setenv("TMPDIR", str(tmp_path))
    assert use_memory() == f"files in {tmp_path}, as TMPDIR says"
    assert ON_DISK not in os.environ


USES_BOTH = """
import pytest
{imports}

@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return tmp_path_factory.mktemp("made")

def test_those(tmp_path, made):
    print("files:", tmp_path, made)
"""


@pytest.mark.slow(reason="starts pytest")
def test_a_file_that_says_so_has_its_files_on_the_disk_and_no_passed_test_leaves_any(tmp_path: Path) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TMPDIR": str(memory), ON_DISK: str(disk)}
    on_disk = "from tests.support.disk_files import tmp_path_factory"
    for name, imports, place in (("memory", "", memory), ("disk", on_disk, disk)):
        (tmp_path / f"test_{name}.py").write_text(USES_BOTH.format(imports=imports))
        command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", *FREED, f"test_{name}.py"]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stdout
        found = re.search(r"files: (\S+) (\S+)", ran.stdout)
        assert found is not None, ran.stdout
        for path in map(Path, found.groups()):
            assert place in path.parents
            assert not path.exists()


@pytest.mark.slow(reason="starts pytest")
@pytest.mark.parametrize("options", [[], ["-n", "2"]])
def test_one_test_in_four_runs_and_the_first_of_each_file_among_them(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow")
    slow = 'import pytest\n@pytest.mark.slow(reason="it fails")\ndef test_slow(): raise AssertionError\n'
    for name, count in (("short", 1), ("long", 9)):
        tests = "".join(f"def test_{at}(): print('ran: {name}', {at})\n" for at in range(count))
        (tmp_path / f"test_{name}.py").write_text(slow + tests)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "tests.support.one_in_four", "-m", "not slow", *options]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert sorted(re.findall(r"^ran: (\w+ \d)", ran.stdout, re.MULTILINE)) == ["long 0", "long 4", "long 8", "short 0"]


def test_processes_share_all_files() -> None:
    files = [Path(f"test_{at}.py") for at in range(10)]
    shares = [share_of(files, index, 3) for index in range(3)]
    assert sorted(path for share in shares for path in share) == files
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
