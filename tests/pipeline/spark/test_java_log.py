"""What Java writes into the worker's log: lines of the same form as Python's."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.processes.server import ROOT

pytestmark = [pytest.mark.slow(reason="starts Java"), pytest.mark.spark]

START_TIMEOUT_S = 400.0  # beside whatever else this machine does

PROGRAM = """
import logging, os, sys
from pathlib import Path
from queue_engine.pipeline.spark.session import make_session
from queue_engine.vocabulary import log_lines
log_lines.configure(os.environ)
spark = make_session("x", scratch=Path(sys.argv[1]) / "a b", master="local[1]")
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("penstock.Test")
inner = spark._jvm.java.lang.IllegalStateException("torn\\n2026-11-22T18:42:03.120Z ERROR x: forged\\x1b[2K")
log.error("topic=no\\n2026-11-22T18:42:03.120Z ERROR x: forged\\x1b[2K")
log.fatal("failed", inner)
logging.getLogger("penstock.test").error("the end")
"""
TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"


def lines_of(tmp_path: Path, log_format: str) -> list[str]:
    """What Java and then Python write in a process whose clock is not in UTC; without Java's words before its log."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PENSTOCK_LOG_FORMAT": log_format, "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=True,
    )
    return [line for line in done.stderr.splitlines() if not line.startswith("WARNING: Using incubator modules")]


def test_lines_of_text_are_ours(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "text")
    heads = [line for line in lines if re.match(rf"{TIME} (WARNING|ERROR|CRITICAL) \S+: ", line)]
    others = [line for line in lines if line not in heads]
    assert all(line.startswith("    ") and line.strip() for line in others)
    heads = [line for line in heads if " penstock." in line]  # Spark itself may have something to say of a slow machine
    assert heads[-3].endswith(r" ERROR penstock.Test: topic=no\n2026-11-22T18:42:03.120Z ERROR x: forged?[2K")
    assert heads[-2].endswith(" CRITICAL penstock.Test: failed")
    assert heads[-1].endswith(" ERROR penstock.test: the end")
    java, python = (datetime.fromisoformat(line.split()[0]) for line in heads[-2:])
    assert abs(python - java) < timedelta(minutes=30), "both are in UTC"
    assert "    java.lang.IllegalStateException: torn" in others
    assert "    2026-11-22T18:42:03.120Z ERROR x: forged[2K" in others


def test_lines_of_json_are_ours(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in lines_of(tmp_path, "json")]
    first, second, last = (line for line in lines if line["logger"].startswith("penstock."))
    assert all(re.fullmatch(TIME, line["time"]) for line in lines)
    assert (first["level"], first["logger"]) == ("ERROR", "penstock.Test")
    assert first["message"] == "topic=no\n2026-11-22T18:42:03.120Z ERROR x: forged\x1b[2K"
    assert (second["level"], second["message"]) == ("CRITICAL", "failed")
    assert second["traceback"].startswith("java.lang.IllegalStateException: torn\n2026")
    assert list(first) == list(last) == ["time", "level", "logger", "message"]
