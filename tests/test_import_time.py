"""What a start imports: its time beside that of a plain program, and which large packages it leaves alone."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUNS = 4
LARGE = {"aiohttp", "cryptography", "daphne", "django", "duckdb", "numpy", "plotly", "pyarrow", "pyspark", "sqlglot"}
# The measure: its time grows with the machine's load as that of the others does. Idle, it takes 0.1 s of the processor.
PLAIN = "import asyncio, email.message, sqlite3, ssl, urllib.request"
# Each start: its code, how many times as long as PLAIN it may take (a half more than it does), and what it may load.
STARTS: dict[str, tuple[str, float, set[str]]] = {
    "manage.py -h": ("import runpy; sys.argv[1:] = ['-h']; runpy.run_path('manage.py', run_name='__main__')", 2, set()),
    "penstock-queue": ("import queue_engine.daemon.program, queue_engine.daemon.serving", 12, set()),
    "serve": (
        "import django; django.setup(); import admin_console.management.commands.serve",
        24,
        {"django", "numpy", "plotly"},
    ),
}
SHOWN = "import sys, atexit; atexit.register(lambda: print(*sys.modules)); "


def seconds_and_modules(code: str) -> tuple[float, set[str]]:
    """Of the processor, in a process of its own."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.support.settings"}
    command = [sys.executable, "-c", SHOWN + code]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, set(run.stdout.split())


@pytest.mark.parametrize("start", STARTS)
def test_a_start_imports_within_its_budget(start: str) -> None:
    code, times_max, allowed = STARTS[start]
    ratios: list[float] = []
    while not ratios or ratios[-1] >= times_max:  # other work of the machine can only make a run worse
        assert len(ratios) < RUNS, ratios
        plain, _ = seconds_and_modules(PLAIN)
        seconds, modules = seconds_and_modules(code)
        assert LARGE & modules == allowed
        ratios.append(seconds / plain)
