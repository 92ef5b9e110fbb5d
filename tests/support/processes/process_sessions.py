"""Programs that start others: each in a session of its own, by which all that came of it is found and ended.

A process may leave the group of who started it, as Spark's Python daemon does, but not its session without a word.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.processes.live_processes import live_processes
from tests.support.waiting import wait_for

END_TIMEOUT_S = 10.0


class ProcessSession:
    """One program and its descendants. Its output goes to `log_path`."""

    def __init__(self, log_path: Path, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> None:
        self.log_path = log_path
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        """Whether the program itself is."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait(self, timeout_s: float) -> None:
        """Until the program has done its work. Raises AssertionError with what it wrote when it failed."""
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not done within {timeout_s:g} s; it wrote:\n{self.log[-5000:]}") from None
        assert status == 0, self.log[-5000:]

    def end(self) -> None:
        """Ask the program to end, then kill the processes of its session that are left."""
        if self.is_running:
            self._process.terminate()
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                pass
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()
        wait_for("the end of a session", lambda: not self.pids(), timeout_s=60)

    def pids(self) -> list[int]:
        """Of all its processes that run."""
        return [one.pid for one in live_processes() if one.session == self._process.pid]

    def memory_bytes(self) -> int:
        """The resident memory of all processes; shared pages count for each."""
        pages = 0
        for pid in self.pids():
            try:
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
        return pages * os.sysconf("SC_PAGE_SIZE")
