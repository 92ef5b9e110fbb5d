"""The queue engine alone as a process: what `serve` runs, without the console beside it.

python -m tests.support.processes.engine_process [--flag=value …]: the engine's own flags, until SIGTERM.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from queue_engine.service.process.interpreter import share_interpreter
from queue_engine.service.runner import EngineRunner, quiet_collector
from queue_engine.vocabulary.options.option import flag_of
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.options.parsing import parse_option
from tests.support.processes.server import ServerProcess


class EngineProcess(ServerProcess):
    """A ServerProcess without a console."""

    _listeners = frozenset({"TCP", "HTTP"})

    def _command(self) -> list[str]:
        return [
            "-m",
            "tests.support.processes.engine_process",
            f"--tcp-address=127.0.0.1:{self.tcp_port}",
            f"--http-address=127.0.0.1:{self.http_port}",
            f"--data-path={self.data_path}",
        ]


DESCRIPTORS_VARIABLE = "ENGINE_PROCESS_DESCRIPTORS"
"""Environment: how many descriptors the process may have."""


def main(arguments: list[str], *, on_start: Callable[[EngineRunner], None] = lambda runner: None) -> None:
    """on_start: called with the running engine before the listening lines are written."""
    if descriptors := int(os.environ.get(DESCRIPTORS_VARIABLE, "0")):
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    names = {flag_of(spec.name): spec.name for spec in fields(Options)}
    given = {}
    for argument in arguments:
        flag, _, text = argument.partition("=")
        given[names[flag]] = parse_option(names[flag], text)
    options = Options(**given)
    options.validate()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    Path(options.data_path).mkdir(parents=True, exist_ok=True)
    share_interpreter()
    runner = EngineRunner(options)
    runner.start()
    on_start(runner)
    quiet_collector()
    print("TCP: listening on {}:{}".format(*runner.tcp_address))
    print("HTTP: listening on {}:{}".format(*runner.http_address), flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    runner.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
