"""A pytest plugin: a test that failed among others is tried once more, alone, when all have run.

Several processes share the machine's cores, and a test may wait in vain for that reason alone. What passes at the
second try leaves the run green, up to three tests a run. The run's end lists it with its first failure, whose cause is
still to be found. Tests that look for what happens once in a thousand runs (`COUNT_AT_ONCE`) are not tried again,
nor is any test of a run in one process. A file that can't be imported and a test process that ends early fail the run.
"""

import re
import subprocess
import sys
from collections.abc import Generator

import pytest

TESTS_MAX = 3
SECONDS_MAX = 600
# Faults, kills, conformance, contracts, security and random models, by folder or by a word in the id.
COUNT_AT_ONCE = re.compile(
    r"^tests/(?:faults|conformance|contracts|conversations|identity)/"
    r"|kill|crash|fault|power|torn|damage|lost|full_disk|exactly_once"
    r"|random|model|fuzz|seed|generated|states"
    r"|security|hostile|permission|role|token|secret|csrf|escape|session_end|two_operators",
    re.IGNORECASE,
)
_STEPS = ("setup", "call", "teardown")
_FAILED = pytest.StashKey[dict[str, str]]()
_PASSED_NOW = pytest.StashKey[list[str]]()
_IS_WHOLE = pytest.StashKey[bool]()
"""Whether every test of the run was collected, and ran to its end."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FAILED] = {}
    config.stash[_PASSED_NOW] = []
    config.stash[_IS_WHOLE] = True
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reports(config))


class _Reports:
    """Of a run in several processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._config.stash[_FAILED].setdefault(report.nodeid, f"{report.when}: {report.longreprtext}")
            if report.when not in _STEPS:  # its process ended, and others of its tests did not run
                self._config.stash[_IS_WHOLE] = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._config.stash[_IS_WHOLE] = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
        failed = self._config.stash[_FAILED]
        is_whole = self._config.stash[_IS_WHOLE]
        if exitstatus == pytest.ExitCode.TESTS_FAILED and is_whole and failed and _may_be_tried(failed):
            passed = self._config.stash[_PASSED_NOW]
            passed += [test for test in failed if _passes_alone(test, self._config)]
            if len(passed) == len(failed):
                session.exitstatus = pytest.ExitCode.OK
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        passed = self._config.stash[_PASSED_NOW]
        if passed:
            terminalreporter.section("passed at the second try")
        for test in passed:
            terminalreporter.write_line(f"{test}\n{self._config.stash[_FAILED][test]}\n")


def _may_be_tried(failed: dict[str, str]) -> bool:
    return len(failed) <= TESTS_MAX and not any(COUNT_AT_ONCE.search(test) for test in failed)


def _passes_alone(test: str, config: pytest.Config) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    try:
        run = subprocess.run(
            command, cwd=config.rootpath, timeout=SECONDS_MAX, check=False, stdout=subprocess.PIPE, text=True
        )
    except subprocess.TimeoutExpired:
        return False
    print(run.stdout)
    return run.returncode == 0 and re.search(r"\b1 passed\b", run.stdout) is not None
