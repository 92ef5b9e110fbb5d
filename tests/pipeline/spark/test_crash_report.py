"""A Java that crashes leaves one report where the worker's files are, and nothing where it was started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from queue_engine.pipeline.spark.session import CRASH_REPORT_NAME
from tests.support.processes.server import ROOT

pytestmark = [pytest.mark.slow(reason="starts Java"), pytest.mark.spark]

START_TIMEOUT_S = 400.0  # beside whatever else this machine does

PROGRAM = """
import os, signal, sys
from pathlib import Path
from queue_engine.pipeline.spark.session import make_session
spark = make_session("x", scratch=Path(sys.argv[1]), master="local[1]")
java = spark.sparkContext._gateway.proc
os.kill(java.pid, signal.SIGSEGV)
java.wait()
os._exit(0)
"""


def test_each_crash_replaces_the_report_of_the_one_before(tmp_path: Path) -> None:
    scratch = tmp_path / 'a "b" 100%'
    started_in = tmp_path / "started in"
    started_in.mkdir()
    scratch.mkdir()
    (scratch / CRASH_REPORT_NAME).write_text("of the crash before" * 10_000)
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(scratch)],
        cwd=started_in,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=START_TIMEOUT_S,
        check=True,
    )
    report = (scratch / CRASH_REPORT_NAME).read_text(errors="replace")
    assert "SIGSEGV" in report
    assert "of the crash before" not in report
    assert list(started_in.iterdir()) == []
