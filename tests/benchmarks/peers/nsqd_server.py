"""An nsqd of our own beside the others, where the environment variable NSQD names its program: free loopback ports, a
directory of its own. Without that variable there is none.
"""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support.processes.engine_api import EngineApi
from tests.support.processes.ports import free_ports
from tests.support.waiting import wait_for

VARIABLE = "NSQD"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 60.0  # it writes what it has in memory

SYNCED = "nsqd_synced"
SIDES: Mapping[str, tuple[str, ...]] = {"nsqd": (), SYNCED: ("--mem-queue-size=0", "--sync-every=1")}
"""Side of the results → options. The second has each message on the disk, as the log has with `--sync always`."""


def program() -> str | None:
    """The program that NSQD names; None when it names none. Raises RuntimeError when there is no such program."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        return None
    found = shutil.which(named)
    if found is None:
        raise RuntimeError(f"{VARIABLE} is {named!r}, which is no program that can be run")
    return found


def version() -> str:
    """The program's version, in a short form."""
    found = program()
    assert found is not None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    number = re.search(r"\bv(\d\S*)", said)
    return number[1] if number else said


class NsqdServer(EngineApi):
    """Use as a context, where `program` names one. tcp_port, http_port: free ones."""

    def __init__(self, directory: Path, *, options: Sequence[str] = ()) -> None:
        super().__init__()
        self._directory = directory
        self._options = options
        self.tcp_port = self.http_port = 0

    def __enter__(self) -> "NsqdServer":
        found = program()
        assert found is not None, f"{VARIABLE} names no program"
        self.tcp_port, self.http_port = free_ports(2)
        data_path = self._directory / "data"
        data_path.mkdir(parents=True)
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    found,
                    f"--tcp-address=127.0.0.1:{self.tcp_port}",
                    f"--http-address=127.0.0.1:{self.http_port}",
                    f"--data-path={data_path}",
                    *self._options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for("nsqd to answer", self._answers, timeout_s=START_TIMEOUT_S)
        except BaseException:
            self._end()
            raise
        return self

    @property
    def _log_path(self) -> Path:
        return self._directory / "nsqd.log"

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(
                f"nsqd ended with status {self._process.returncode}:\n{self._log_path.read_text(errors='replace')}"
            )
        try:
            socket.create_connection(("127.0.0.1", self.tcp_port), timeout=10).close()
            return self.http("GET", "/ping") == b"OK"
        except OSError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)
