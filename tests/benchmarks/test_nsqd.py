"""The rounds beside nsqd, with our own engine in its place; and that there are none where NSQD names nothing."""

import json
import sys
from pathlib import Path

import pytest

from tests.benchmarks import results
from tests.benchmarks.log_scenarios import LogSingles
from tests.benchmarks.peers import nsqd_server
from tests.benchmarks.run import measure
from tests.benchmarks.scenarios import Latency, Scenario, Single, Stream, beside_nsqd
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.server import ROOT

pytestmark = [pytest.mark.benchmark, pytest.mark.slow(reason="measures real servers")]

# The engine's flags for what nsqd is asked are called as nsqd's are.
PROGRAM = """#!{python}
import os
import sys

if sys.argv[1:] == ["--version"]:
    print("nsqd v1.2.3-ours (built for a test)")
    sys.exit()
with open({calls!r}, "a") as calls:
    print(*sys.argv[1:], file=calls)
os.environ["PYTHONPATH"] = {root!r}
os.execv({python!r}, [{python!r}, "-m", "tests.support.processes.engine_process", *sys.argv[1:], "--storage=diskqueue"])
"""


def named(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> None:
    """Have NSQD name a program with this text."""
    path.write_text(text)
    path.chmod(0o755)
    monkeypatch.setenv(nsqd_server.VARIABLE, str(path))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Sets NSQD to a program that runs the engine. Returns the file with the flags of each start, a line each."""
    path = tmp_path / "calls"
    named(monkeypatch, tmp_path / "nsqd", PROGRAM.format(python=sys.executable, calls=str(path), root=str(ROOT)))
    return path


@pytest.mark.parametrize("side", nsqd_server.SIDES)
@pytest.mark.parametrize(
    ("scenario", "rows"),
    [
        (Stream("200", body_bytes=200, messages=40_000), {"publish_200", "consume_200"}),
        (Stream("20k", body_bytes=20_000, messages=1_000), {"publish_20k", "consume_20k"}),
        (Single(connections=8, seconds=0.3), {"single_8"}),
        (LogSingles(connections=64, seconds=0.3), {"log_single_64", "log_single_64_p99_ms"}),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_round_gives_figures_and_leaves_nothing(
    scenario: Scenario, rows: set[str], side: str, calls: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "peer"
    figures = beside_nsqd(scenario, side, directory)
    assert figures.keys() == rows
    assert rows <= results.ROWS.keys()
    assert all(value > 0 for value in figures.values()), figures
    flags = calls.read_text().split()
    assert f"--data-path={directory / 'data'}" in flags
    assert [flag for flag in flags if not flag.startswith(("--tcp", "--http", "--data"))] == [*nsqd_server.SIDES[side]]
    assert not directory.exists()


def test_the_table_has_its_columns_when_it_was_measured_and_only_then(
    calls: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_nsqd: results.Rounds = {}
    without: results.Rounds = {}
    with EngineProcess(tmp_path / "data") as server:
        measure(Single(connections=1, seconds=0.3), server, tmp_path / "peer", 1, with_nsqd)
        monkeypatch.delenv(nsqd_server.VARIABLE)
        measure(Single(connections=1, seconds=0.3), server, tmp_path / "peer", 1, without)
        measure(Latency(seconds=0.3), server, tmp_path / "peer", 1, with_nsqd)
    assert list(without["single_1"]) == ["penstock", "redis"]
    assert list(with_nsqd["single_1"]) == ["penstock", "redis", "nsqd", "nsqd_synced"]
    assert len(calls.read_text().splitlines()) == 2
    head, rule, *lines = results.table(with_nsqd).splitlines()
    assert head == (
        "| | Penstock | Redis Streams | nsqd | nsqd `--mem-queue-size=0` `--sync-every=1` | ratio | target |"
    )
    assert {line.count(" | ") for line in [head, *lines]} == {6}
    assert rule.count("|") == head.count("|")
    assert results.table(without).splitlines()[:2] == [
        "| | Penstock | Redis Streams | ratio | target |",
        "|---|---:|---:|---:|---:|",
    ]


def test_results_and_readme_name_the_version_with_the_rows_it_was_measured_for(
    calls: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.json")
    readmes = [tmp_path / "headlines", tmp_path / "all"]
    for path, copy in zip(results.READMES, readmes, strict=True):
        marks = [line for line in path.read_text().splitlines() if line.startswith("<!-- benchmarks: ")]
        copy.write_text("\n".join(["before", *marks, "after", ""]))
    monkeypatch.setattr(results, "READMES", readmes)
    monkeypatch.setattr(results, "commit", lambda: "0123456789ab")
    results.write({"single_1": {"penstock": [2.0], "redis": [4.0], "nsqd": [3.0], "nsqd_synced": [1.0]}}, command="")
    monkeypatch.delenv(nsqd_server.VARIABLE)
    results.write({"fin_log": {"penstock": [5.0]}}, command="")
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert {name: row.get("nsqd_version") for name, row in rows.items()} == {"single_1": "1.2.3-ours", "fin_log": None}
    results.write({"latency_p50_ms": {"penstock": [0.5]}}, command="")
    results.write_readmes()
    text = readmes[1].read_text()
    assert ", nsqd 1.2.3-ours, commit 0123456789ab." in text
    assert "| 2 [2 … 2] | 4 [4 … 4] | 3 [3 … 3] | 1 [1 … 1] | 0.50 |" in text
    assert "a write for each FIN, 2 connections, messages/s | 5 [5 … 5] |" in text
    text = readmes[0].read_text()
    assert "p50, ms | 0.5 [0.5 … 0.5] |" in text
    assert "nsqd" not in text
    assert "a write for each FIN" not in text


def test_a_program_that_is_missing_or_does_not_start_is_told_with_its_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scenario = Single(connections=1, seconds=0.3)
    monkeypatch.setenv(nsqd_server.VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(RuntimeError, match=r"NSQD is '.*missing', which is no program"):
        beside_nsqd(scenario, "nsqd", tmp_path / "peer")
    named(monkeypatch, tmp_path / "refuses", "#!/bin/sh\necho flag provided but not defined >&2\nexit 3\n")
    with pytest.raises(RuntimeError, match=r"(?s)status 3:\nflag provided but not defined"):
        beside_nsqd(scenario, "nsqd", tmp_path / "peer")
    assert not (tmp_path / "peer").exists()
