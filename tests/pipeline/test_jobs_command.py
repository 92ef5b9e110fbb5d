"""The options of the command of one job, by its command line and by the environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from queue_engine.lake.job.state import DONE, WAITING, JobState
from queue_engine.lake.jobs import chosen_master, end_of_run, parse, replayed_topics

# Python finds no pyspark, as in a .venv of before it was needed.
WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from queue_engine.lake.jobs import main
sys.exit(main(["archive", "--once", "--data-path", sys.argv[1]]))
"""


def test_the_master_is_the_one_that_was_given_first() -> None:
    environment = {"PENSTOCK_SPARK_MASTER": "spark://two:7077", "PYSPARK_GATEWAY_PORT": "1"}
    assert chosen_master("spark://one:7077", environment, 2) == "spark://one:7077"
    assert chosen_master(None, environment, 2) == "spark://two:7077"
    # spark-submit has one of its own.
    assert chosen_master(None, {"PYSPARK_GATEWAY_PORT": "1"}, 2) is None
    assert chosen_master(None, {}, 3) == "local[3]"


def test_where_messages_are_read_from_is_said_by_the_line_or_else_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PENSTOCK_READ_FROM", raising=False)
    assert parse(["archive"]).read_from == "auto"
    monkeypatch.setenv("PENSTOCK_READ_FROM", "http")
    assert parse(["archive"]).read_from == "http"
    assert parse(["archive", "--read-from", "files"]).read_from == "files"


@pytest.mark.parametrize("word", ["HTTP", "disk", " http"])
def test_another_word_is_refused_wherever_it_stands(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["archive", "--read-from", word])
    monkeypatch.setenv("PENSTOCK_READ_FROM", word)
    with pytest.raises(SystemExit):
        parse(["archive"])
    assert capsys.readouterr().err.count(f"{word!r} can be auto or files or http") == 2


def test_topics_whose_replayed_messages_are_archived_again_are_named_by_the_environment() -> None:
    assert replayed_topics({"PENSTOCK_ARCHIVE_REPLAYED": "orders, clicks,,"}) == {"orders", "clicks"}
    assert replayed_topics({}) == frozenset()


def test_a_missing_package_is_told_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_SPARK, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": "."})
    assert run.returncode == 2
    assert run.stderr.startswith("penstock: ")
    assert "pyspark" in run.stderr
    assert run.stderr.count("\n") == 1


def test_a_run_until_it_is_up_to_date_ends_with_a_sentence() -> None:
    archive = JobState("archive", WAITING, done=20_000, total=20_000)
    assert end_of_run("archive", archive, is_stopped=False) == "archive is up to date: 20,000 messages in all"
    assert end_of_run("archive", None, is_stopped=False) == "archive is up to date"
    assert end_of_run("compact", JobState("compact", WAITING, unit="windows"), is_stopped=False) == (
        "compact is up to date"
    )
    assert end_of_run("replay-7", JobState("replay-7", DONE, done=3, total=9), is_stopped=True) == (
        "replay-7 was stopped before it was up to date: 3 messages in all"
    )
