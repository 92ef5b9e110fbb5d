"""The real server, with its handler of SIGTERM interrupted.

    python -m tests.support.processes.interrupted_signal serve …

At each line but its first another signal comes, as it may when two are sent at about the same time.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.support.processes.server import ROOT, ServerProcess


class InterruptedServer(ServerProcess):
    """The server whose first SIGTERM meets a SIGHUP at each step."""

    def _command(self) -> list[str]:
        return ["-m", "tests.support.processes.interrupted_signal", *super()._command()[1:]]


def main() -> None:
    sys.argv = ["manage.py", *sys.argv[1:]]
    sys.path.insert(0, str(ROOT))
    import manage

    install = signal.signal

    def install_interrupted(number: int, handler: Any) -> Any:
        return install(number, _interrupted(handler) if number == signal.SIGTERM and callable(handler) else handler)

    signal.signal = install_interrupted
    manage.main()


def _interrupted(handler: Any) -> Callable[[int, FrameType | None], None]:
    first_line = 0

    def interrupt(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal first_line
        if frame.f_code is not handler.__code__:
            return None
        if event == "line":
            first_line = first_line or frame.f_lineno
            if frame.f_lineno > first_line:  # before that, the other signal is the first
                os.kill(os.getpid(), signal.SIGHUP)
        return interrupt

    def on_signal(number: int, frame: FrameType | None) -> None:
        sys.settrace(interrupt)
        handler(number, frame)
        sys.settrace(None)

    return on_signal


if __name__ == "__main__":
    main()
