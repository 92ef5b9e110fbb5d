"""The plugin that tries a failed test once more, in runs of pytest with tests of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.second_try import COUNT_AT_ONCE, TESTS_MAX

ROOT = Path(__file__).parent.parent
TESTS = "test_those"
# Fails at the first try.
FLAKY = """
def test_{name}():
    from pathlib import Path
    mark = Path(__file__).with_name("{name}.mark")
    before = mark.exists()
    mark.touch()
    assert before, "the first failure of {name}"
"""
BROKEN = "def test_broken():\n    assert False, 'each time'\n"


def run(folder: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / f"{TESTS}.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.second_try", "-p", "no:cacheprovider", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    # Other plugins take most of a start.
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)


def test_what_passes_alone_leaves_the_run_green_and_is_listed_with_its_first_failure(tmp_path: Path) -> None:
    found = run(tmp_path, "".join(FLAKY.format(name=f"one{at}") for at in range(TESTS_MAX)), "-n", "1")
    assert found.returncode == 0, found.stdout
    listed = found.stdout.partition("passed at the second try")[2]
    for at in range(TESTS_MAX):
        assert f"{TESTS}.py::test_one{at}" in listed
        assert f"the first failure of one{at}" in listed


@pytest.mark.parametrize(
    ("tests", "options"),
    [
        pytest.param(FLAKY.format(name="one") + BROKEN, ["-n", "1"], id="another one fails again"),
        pytest.param("".join(FLAKY.format(name=f"one{at}") for at in range(TESTS_MAX + 1)), ["-n", "1"], id="many"),
        pytest.param(FLAKY.format(name="a_kill_loses_nothing"), ["-n", "1"], id="it counts at once"),
        pytest.param(FLAKY.format(name="one"), [], id="it ran alone"),
        pytest.param(
            "import os\ndef test_one(): os._exit(3) if 'XDIST' in str(os.environ) else 0\n",
            ["-n", "1"],
            id="its process ended",
        ),
    ],
)
def test_the_run_is_red(tmp_path: Path, tests: str, options: list[str]) -> None:
    assert run(tmp_path, tests, *options).returncode == 1


def test_a_file_that_can_t_be_imported_beside_one_that_passes_alone_leaves_the_run_red(tmp_path: Path) -> None:
    (tmp_path / "test_other").with_suffix(".py").write_text("import no_such_module\n")
    found = run(tmp_path, FLAKY.format(name="one"), "-n", "1")
    assert found.returncode == 1
    assert "1 failed, 1 error" in found.stdout


@pytest.mark.parametrize(
    ("test", "counts"),
    [
        ("tests/faults/test_memory.py::test_a", True),
        ("tests/conformance/test_lines.py::test_a", True),
        ("tests/pipeline/test_kill_archive.py::test_a", True),
        ("tests/service/test_protocol_fuzz.py::test_a", True),
        ("tests/console/test_security.py::test_a", True),
        ("tests/browser/test_clock.py::test_a_page_is_read[log]", False),
        ("tests/clients/test_pynsq.py::test_a_reader", False),
    ],
)
def test_faults_and_security_count_at_once(test: str, *, counts: bool) -> None:
    assert bool(COUNT_AT_ONCE.search(test)) == counts
