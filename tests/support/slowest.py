"""A pytest plugin for `--slowest N`: where the time of a run goes, by folder and by test, set-up and clean-up included.

Seconds are those of the worker that ran the test: in several processes their sum exceeds the time that passed.
"""

from collections import Counter

import pytest

SHOWN = 30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slowest", type=int, default=SHOWN, metavar="N", help="how many tests to list")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Seconds(config))


class _Seconds:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._of_tests = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._of_tests[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        of_folders = Counter[str]()
        for test, seconds in self._of_tests.items():
            folder, slash, _ = test.split("::")[0].rpartition("/")
            of_folders[folder + slash] += seconds
        terminalreporter.section(f"where {sum(of_folders.values()):.0f} worker-seconds went")
        for name, seconds in [*of_folders.most_common(), *self._of_tests.most_common(self._config.option.slowest)]:
            terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
