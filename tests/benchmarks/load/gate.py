"""The protocol of a load program and the run that started it: ready, go, one line of JSON as the report.

A load program connects and prepares, says "ready", and starts when a line comes on its standard input, so that
interpreter start and connecting are not measured. Times are CLOCK_MONOTONIC, which all processes share.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from tests.support.waiting import wait_for

OVER_TIMEOUT_S = 600.0  # of ten million messages


def wait_for_go() -> int:
    """In the load program: report ready, wait, return the moment of the start in ns."""
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit("the run that started this load went away")
    return time.monotonic_ns()


def told_to_end() -> threading.Event:
    """In a load program that runs until it is stopped: set when the run says go a second time."""
    is_told = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        is_told.set()

    threading.Thread(target=listen, daemon=True).start()
    return is_told


def report(**figures: Any) -> None:
    """In the load program: write the report, its last line."""
    print(json.dumps(figures), flush=True)


class LoadProgram:
    """One load program as a process, seen from the run. Use as a context; it is killed if still there at the end."""

    def __init__(self, module: str, *arguments: object) -> None:
        self._name = " ".join([module, *map(str, arguments)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.benchmarks.load.{module}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> None:
        self._expect("ready")

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != word:
            raise RuntimeError(f"{self._name} said {line!r} instead of {word!r}")

    def go(self) -> None:
        """Say go; the second time it stops a program that runs until it is stopped."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def result(self) -> dict[str, Any]:
        """Its report. Raises RuntimeError when it failed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        status = self._process.wait()
        if status != 0 or not line:
            raise RuntimeError(f"{self._name} ended with status {status} and said {line!r}")
        figures: dict[str, Any] = json.loads(line)
        return figures

    def __enter__(self) -> "LoadProgram":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def run_together(
    programs: Sequence[LoadProgram], is_over: Callable[[], bool] | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Start all programs at once. Returns their reports in order, and the time just before the first start, in ns.

    is_over: for programs that run until they are stopped: they are stopped when it says so, or one of them has failed.
    """
    for program in programs:
        program.wait_until_ready()
    start_ns = time.monotonic_ns()
    for program in programs:
        program.go()
    if is_over is not None:
        wait_for(
            "the load to be over",
            lambda: is_over() or any(program.has_ended for program in programs),
            timeout_s=OVER_TIMEOUT_S,
            every_s=0.2,
        )
        for program in programs:
            if not program.has_ended:
                program.go()
    return [program.result() for program in programs], start_ns
