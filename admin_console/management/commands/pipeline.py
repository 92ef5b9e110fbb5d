"""`penstock pipeline run JOB | worker | rearchive TOPIC | replay VERB | status`: the data pipeline by hand.

All but `replay` and `status` put another program in the place of this process: no process of Django's ever imports
Spark.
"""

import os
import sys
from argparse import REMAINDER, ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from admin_console.management.command import PlainCommand
from queue_engine.lake.directory.lake_lock import holder_of
from queue_engine.lake.job.state import JobState, read_states
from queue_engine.lake.spark.secret_variables import TOKEN_VARIABLE, without_secrets
from queue_engine.lake.worker.state import RESTING, read_worker_state
from queue_engine.vocabulary.errors import PenstockError

# The directory that holds our packages.
_CODE = Path(__file__).resolve().parents[3]
_MODULES = {
    "run": "queue_engine.lake.jobs",
    "worker": "queue_engine.lake.worker.worker",
    "rearchive": "queue_engine.lake.rearchive.rearchive",
}
# As `python -m` does. Ctrl-C while modules are imported, which takes seconds, ends the process without a traceback; the
# modules have their own way once they run.
_RUN = (
    "import runpy, signal, sys; "
    "signal.getsignal(signal.SIGINT) is signal.SIG_IGN or signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
_HEADINGS = ("JOB", "STATE", "DONE", "OF", "BEHIND", "ROWS/S", "UPDATED (UTC)", "ERROR")


class Command(PlainCommand):
    uses_data_path = True
    help = (
        "run JOB runs one job (rollup, compact, archive, housekeeping, replay-ID; --help after it lists its options); "
        "worker runs all of them, as serve does; rearchive "
        "TOPIC begins an archive again whose table is gone; replay plans, runs, watches, lists and stops replays "
        "(--help after it); status prints the state of each job."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=[*_MODULES, "replay", "status"])
        parser.add_argument("rest", nargs=REMAINDER, metavar="...", help="run JOB [--master URL] [--once] …")

    def handle(self, **given: Any) -> None:
        if given["what"] == "status":
            for one in given["rest"]:
                if one in ("-h", "--help"):
                    self.print_help(sys.argv[0], "pipeline")
                    return
                raise CommandError(f"pipeline status takes no {one[:80]!r}")
            self._print_status(settings.DATA_PATH / "pipeline")
            return
        if given["what"] == "replay":
            # Seconds, which `run` and `worker` need not wait for.
            from admin_console.management.replay_command import ReplayCommand

            ReplayCommand(settings.DATA_PATH / "pipeline", self.stdout, self.stderr).run(given["rest"])
            return
        self.stdout.flush()
        # The package is where this project is, wherever the command was started.
        paths = [str(_CODE), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        environment = {**without_secrets(os.environ), "PYTHONPATH": os.pathsep.join(paths)}
        if token := os.environ.get(TOKEN_VARIABLE):
            environment[TOKEN_VARIABLE] = token
        # The data path was taken from the command line by the program, and stands in the environment.
        arguments = [sys.executable, "-c", _RUN, _MODULES[given["what"]], *given["rest"]]
        os.execve(sys.executable, arguments, environment)  # noqa: S606 - this interpreter, a module of our own

    def _print_status(self, lake_path: Path) -> None:
        try:
            holder = holder_of(str(lake_path))
            state = read_worker_state(lake_path)
        except (PenstockError, OSError) as exc:
            raise CommandError(str(exc)) from exc
        if holder is None and state is not None and state.state == RESTING:
            since = _moment(state.updated_ms)
            self.stdout.write(f"The worker has rested since {since} UTC; serve starts it when there is work.")
        elif holder is None:
            self.stdout.write("No process has locked the lake: no job runs.")
        elif state is not None and state.pid == holder.pid:
            self.stdout.write(f"The worker is {state.state}: pid {holder.pid} on {holder.host}")
        else:
            self.stdout.write(f"The lake is locked by {holder}")
        from admin_console.management.replay_command import table_lines

        states = read_states(lake_path)
        rows = [_HEADINGS, *(_row(state) for _, state in sorted(states.by_name.items()))]
        for line in table_lines(rows) if states.by_name else ():
            self.stdout.write(line)
        for sentence in states.broken:
            self.stderr.write(sentence)


def _row(state: JobState) -> tuple[str, ...]:
    return (
        state.job,
        state.state,
        f"{state.done:,}",
        f"{state.total:,} {state.unit}" if state.total else "-",
        # Of a job that failed the last one is of before that.
        "-" if state.lag is None or state.is_in_trouble else f"{state.lag:,}",
        "-" if state.rows_per_s is None else f"{state.rows_per_s:,.0f}",
        _moment(state.updated_ms) if state.updated_ms else "-",
        state.error,
    )


def _moment(unix_ms: int) -> str:
    return datetime.fromtimestamp(min(unix_ms / 1000, 1e11), UTC).strftime("%Y-%m-%d %H:%M:%S")
