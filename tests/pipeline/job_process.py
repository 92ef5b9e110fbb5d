"""One job of the pipeline as a process that can be killed, in a session of its own.

python -m tests.pipeline.job_process LAKE ENGINE_URL archive | archive-here STEP_ROWS [MOMENT STEP]
python -m tests.pipeline.job_process LAKE ENGINE_URL replay ID RATE

archive-here: its tasks run in the process itself, without Java (local_tasks.py). MOMENT STEP: where it is to kill
itself, see kill_moments.py.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.context import JobContext
from queue_engine.vocabulary.clock import SystemClock
from tests.pipeline.kill_moments import Death
from tests.pipeline.local_tasks import LocalTasks

ROOT = Path(__file__).resolve().parent.parent.parent
END_TIMEOUT_S = 600.0
_PR_SET_PDEATHSIG = 1


class JobProcess:
    """Starts it; what it writes goes to `log_path`."""

    def __init__(self, log_path: Path, lake_path: str, engine_url: str, *job: str) -> None:
        self.log_path = log_path
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.job_process", lake_path, engine_url, *job],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill9(self) -> None:
        """Kill the process and its Java at once."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def wait(self) -> None:
        """Until it has done its job. Raises AssertionError with what it wrote when it failed."""
        self._wait_for(0)

    def wait_killed(self) -> None:
        """Until it is killed. Raises AssertionError with what it wrote when it ended otherwise."""
        self._wait_for(-signal.SIGKILL)

    def _wait_for(self, expected: int) -> None:
        try:
            status = self._process.wait(END_TIMEOUT_S)
        finally:
            self.kill9()
        assert status == expected, f"status {status}: {self.log_path.read_text(errors='replace')[-5000:]}"


def end_with_parent() -> None:
    """End this process when the one that started it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(lake_path: str, engine_url: str, job: str, *arguments: str) -> None:
    from queue_engine.lake.archive.archive import Archiver
    from queue_engine.lake.replay.replay import run_replay
    from queue_engine.lake.spark.session import make_session

    end_with_parent()
    lake = Lake(lake_path)
    with lake.lock():
        spark: Any = LocalTasks()
        if job == "archive":
            scratch = Path(lake_path).parent / "scratch"
            spark = make_session("job", scratch=scratch, master="local[2]")
        context = JobContext(
            spark, lake, LogClient(engine_url), SystemClock(), threading.Event(), lambda state: print(state, flush=True)
        )
        if job != "replay":
            if len(arguments) > 1:
                Death(arguments[1], int(arguments[2])).install()
            Archiver(context, step_rows=int(arguments[0])).run()
        else:
            run_replay(context, arguments[0], rate_per_s=int(arguments[1]) or None)


if __name__ == "__main__":
    main(*sys.argv[1:])
