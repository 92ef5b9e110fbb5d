"""`penstock pipeline replay` on a lake as workers leave it: what it asks for, what it prints, how it ends."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from django.conf import settings
from django.core.management.base import CommandError

from admin_console.gateway.pipeline import REPLAYS_SHOWN_MAX
from admin_console.management.command import DamageFound
from admin_console.management.replay_command import ReplayCommand
from queue_engine.lake.archive.summary import ArchivedIncarnation
from queue_engine.lake.job.requests import (
    ask_for_replay,
    has_requests,
    put_request,
    read_replay_request,
    replay_ids,
    take_requests,
)
from queue_engine.lake.job.state import JobState, write_state
from tests.console.audit.test_chain import DATABASE, migrated
from tests.support.lakes.pipeline_lake import archived_topic, planned_replay
from tests.support.processes.server import ROOT

__all__ = ["migrated"]

REPLAY = "20260301-143000-7f3a"
NEWEST, EARLIER = ArchivedIncarnation(7, 255, "5f1c", 10), ArchivedIncarnation(4, 511, "5f1c", 4_000)


class Lines:
    """A stream as Django's commands have it: each `write` is a line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(line)


class Command:
    """Runs the command; `wait` does what a worker does meanwhile, one step for each look."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.out: list[str] = []
        self.told: list[str] = []

    def __call__(self, *arguments: str, steps: tuple[Callable[[], object], ...] = ()) -> list[str]:
        output, errors = Lines(), Lines()
        left = iter(steps)
        self.out, self.told = output.lines, errors.lines
        ReplayCommand(self.lake, output, errors, wait=lambda _: next(left)()).run(arguments)
        return output.lines


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr("admin_console.gateway.pipeline.FRESH_FOR_S", 0)
    monkeypatch.setattr("admin_console.management.replay_command.PRINT_EVERY_S", 0)
    # A directory without a console.
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", str(tmp_path / "none"))
    lake = tmp_path / "pipeline"
    archived_topic(lake, "orders", 7, 255, incarnations=(NEWEST, EARLIER))
    return Command(lake)


def planned(lake: Path, **plan: object) -> None:
    planned_replay(lake, REPLAY, topic="orders", source=asdict(NEWEST), left_out=[asdict(EARLIER)], **plan)


def running(lake: Path, state: str = "running", **fields: object) -> Callable[[], None]:
    return lambda: write_state(lake, JobState(f"replay-{REPLAY}", state, total=1_200, **fields))


def test_a_plan_is_asked_for_as_the_page_does_and_its_failure_is_the_command_s(command: Command) -> None:
    lake = command.lake
    arguments = ("plan", "orders", "--to", "again", "--from", "2026-03-01T14:00", "--expression", "offset > 7")
    command(*arguments, "--rate", "50", "--no-wait")
    (replay_id,) = replay_ids(lake, 5)
    assert command.out == [replay_id]
    assert {name: value for name, value in read_replay_request(lake, replay_id).items() if value} == {
        "topic": "orders",
        "target": "again",
        "start_time_ms": 1_772_373_600_000,
        "expression": "offset > 7",
        "rate_per_s": 50,
    }
    assert command.told == [f"Requested: plan {replay_id}. A worker does it within seconds, once one runs."]
    assert [one.kind for one in take_requests(lake)] == ["plan_replay"]

    def failed() -> None:
        for one in take_requests(lake):
            write_state(lake, JobState(f"plan-{one.details['id']}", "failed", error="There is no column price."))

    with pytest.raises(DamageFound, match=r"can't be planned\. There is no column price\."):
        command(*arguments, steps=(failed,))


def test_a_plan_that_is_tried_again_goes_on(command: Command) -> None:
    lake = command.lake

    def plan_is(state: str, **fields: Any) -> Callable[[], None]:
        return lambda: write_state(lake, JobState(f"plan-{replay_ids(lake, 1)[0]}", state, **fields))

    again, failed = plan_is("failed", error="Busy.", next_try_ms=1 << 41), plan_is("failed", error="No column.")
    with pytest.raises(DamageFound, match=r"can't be planned\. No column\."):
        command("plan", "orders", "--to", "again", steps=(again, plan_is("running"), failed))
    list(take_requests(lake))
    (replay_id,) = replay_ids(lake, 5)
    again()
    with pytest.raises(DamageFound, match=r"is not planned\. No column\."):
        command("watch", replay_id, steps=(plan_is("running"), failed))


def test_a_plan_names_what_it_would_publish_and_what_it_leaves_out(command: Command) -> None:
    planned(command.lake, count=10)
    put_request(command.lake, "stop_job", job="archive")
    put_request(command.lake, "run_replay", id="20260301-143000-0000")
    (command.lake / "requests" / "0.json").write_text("no request")
    command("watch", REPLAY)
    assert command.told == [f"{REPLAY} planned"], "what waits is about others"
    assert command.out == [
        REPLAY,
        "Would publish 10 messages: orders to orders; at most 100/s.",
        "They are of the topic number 7 of server 5f1c.",
        "4,000 messages of one earlier incarnation are left out.",
        f"They go to the channels billing and mail. Run it: penstock pipeline replay run {REPLAY}",
    ]


def test_server_and_incarnation_are_filters(command: Command) -> None:
    command("plan", "orders", "--to", "again", "--server", "5f", "--incarnation", "4", "--no-wait")
    asked = read_replay_request(command.lake, command.out[0])
    assert [asked[name] for name in ("server", "number", "id_base")] == ["5f1c", 4, 511]
    with pytest.raises(
        CommandError, match="no such orders; it has number 7 of server 5f1c and number 4 of server 5f1c"
    ):
        command("plan", "orders", "--to", "again", "--incarnation", "5")
    with pytest.raises(CommandError, match="nothing is archived of a topic 'never'"):
        command("plan", "never", "--to", "again")
    with pytest.raises(CommandError, match="the time range is empty"):
        command("plan", "orders", "--to", "again", "--from", "2026-03-01", "--until", "2026-03-01")
    with pytest.raises(CommandError, match="'yesterday' is not a time such as"):
        command("plan", "orders", "--to", "again", "--from", "yesterday")
    assert len(replay_ids(command.lake, 5)) == 1


def test_a_run_is_watched_to_its_end_whose_status_is_the_command_s(command: Command) -> None:
    lake = command.lake
    planned(lake)
    steps = (running(lake, "waiting"), running(lake, done=300, rows_per_s=100.0), running(lake, "done", done=1_200))
    command("run", REPLAY, steps=steps)
    assert command.told == [
        f"Requested: run {REPLAY}. A worker does it within seconds, once one runs.",
        f"{REPLAY} planned",
        f"{REPLAY} waiting: 0 of 1,200 messages",
        f"{REPLAY} running: 300 of 1,200 messages, 100/s, 9.0 s left",
        f"{REPLAY} done: 1,200 of 1,200 messages",
    ]
    assert [(one.kind, one.details) for one in take_requests(lake)] == [("run_replay", {"id": REPLAY})]
    command("watch", REPLAY)
    with pytest.raises(CommandError, match=f"The replay {REPLAY} is done already"):
        command("run", REPLAY)
    with pytest.raises(CommandError, match="is over already"):
        command("stop", REPLAY)
    with pytest.raises(CommandError, match="There is no replay 'nothing'"):
        command("watch", "nothing")
    assert not has_requests(lake)


def test_a_run_that_was_asked_for_is_watched_before_the_worker_takes_it_up(command: Command) -> None:
    lake = command.lake
    planned(lake)
    command("run", REPLAY, "--no-wait")

    def taken() -> None:
        for _ in take_requests(lake):
            running(lake)()

    command("watch", REPLAY, steps=(taken, running(lake, "done", done=1_200)))
    assert (command.out, command.told[:2], command.told[-1]) == (
        [],
        [f"A request about {REPLAY} waits until a worker runs.", f"{REPLAY} planned"],
        f"{REPLAY} done: 1,200 of 1,200 messages",
    )


def test_a_replay_of_before_the_newest_ones_is_run_watched_and_stopped(command: Command) -> None:
    lake = command.lake
    planned(lake)
    for number in range(REPLAYS_SHOWN_MAX):
        ask_for_replay(lake, f"20260302-143000-{number:04x}", topic="orders", target="orders")
    list(take_requests(lake))
    command("watch", REPLAY)
    assert command.out[0] == REPLAY
    command("run", REPLAY, "--no-wait")
    command("stop", REPLAY)
    assert [one.kind for one in take_requests(lake)] == ["run_replay", "cancel_replay"]
    for name in ("../replays/" + REPLAY, ".", "", REPLAY + "\0"):
        with pytest.raises(CommandError, match="There is no replay"):
            command("watch", name)


def test_a_run_that_fails_for_good_or_is_cancelled_ends_the_watch_with_status_1(command: Command) -> None:
    lake = command.lake
    planned(lake)
    again = running(lake, "failed", error="The engine is gone.", next_try_ms=1 << 41)
    with pytest.raises(DamageFound, match=r"is failed\. The disk is full\."):
        command("run", REPLAY, steps=(again, running(lake, "failed", error="The disk is full.")))
    list(take_requests(lake))
    command("stop", REPLAY)
    assert [(one.kind, one.details) for one in take_requests(lake)] == [("cancel_replay", {"id": REPLAY})]
    running(lake, "cancelled")()
    with pytest.raises(DamageFound, match="is cancelled"):
        command("watch", REPLAY)


def test_ctrl_c_ends_the_watch_and_not_the_replay(command: Command) -> None:
    planned(command.lake)
    running(command.lake)()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command("watch", REPLAY, steps=(interrupted,))
    assert command.told[-1] == f"It goes on in the worker: penstock pipeline replay watch {REPLAY}"
    assert not has_requests(command.lake)


def test_the_list_has_the_replays_of_the_page(command: Command) -> None:
    assert command("list") == ["There are no replays."]
    planned(command.lake)
    running(command.lake, done=300)()
    assert command("list") == [
        "REPLAY                STATE    MESSAGES  OF     FROM    TO      ERROR",
        "20260301-143000-7f3a  running  300       1,200  orders  orders",
    ]


@pytest.mark.slow(reason="starts a command")
def test_what_a_command_asks_for_stands_in_the_audit_list_as_a_whole(command: Command, migrated: Path) -> None:
    data_path = command.lake.parent
    copyfile(migrated / DATABASE, data_path / DATABASE)
    expression = "offset in (" + ", ".join(str(one) for one in range(300)) + ")"
    arguments = ["plan", "orders", "--to", "again", "--until", "2026-03-01", "--expression", expression, "--no-wait"]
    done = subprocess.run(
        [sys.executable, "manage.py", "pipeline", "--data-path", str(data_path), "replay", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    replay_id = done.stdout.strip()
    with sqlite3.connect(data_path / DATABASE) as database:
        rows = database.execute("SELECT phase, via, action, topic, detail FROM admin_console_auditrow").fetchall()
    detail = f"{replay_id}: orders to again; before 2026-03-01 00:00:00 UTC; expression {expression}"
    assert rows == [(phase, "command-line", "plan_replay", "orders", detail) for phase in ("intent", "result")]
