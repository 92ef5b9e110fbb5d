"""The engine as a process, with a door for what only the console can ask, and faults on purpose.

python -m tests.faults.wire.engine --door=PORT [--mutant=NAME] [--flag=value …]
"""

import json
import os
import socket
import socketserver
import sys
import threading
import time
from typing import Any

import pytest

from queue_engine.service.runner import EngineRunner
from tests.faults.wire.mutants import MUTANTS
from tests.support.processes import engine_process
from tests.support.processes.engine_api import ANSWER_TIMEOUT_S
from tests.support.processes.server import ServerProcess

MUTANT_FLAG = "--mutant="
_DOOR_FLAG = "--door="


class WireEngine(ServerProcess):
    """Acts are requested on the port where a server has its console."""

    def _command(self) -> list[str]:
        return [
            "-m",
            "tests.faults.wire.engine",
            f"{_DOOR_FLAG}{self.console_port}",
            f"--tcp-address=127.0.0.1:{self.tcp_port}",
            f"--http-address=127.0.0.1:{self.http_port}",
            f"--data-path={self.data_path}",
        ]

    def runs_on(self) -> bool:
        """Whether it still runs a moment after its connections may have ended."""
        for _ in range(100):
            if not self.is_running:
                return False
            time.sleep(0.01)
        return True

    def act(self, act: str, *names: str) -> None:
        """`TopicActs.<act>` of these names, as the console would ask for it; returns when it is durable."""
        with socket.create_connection(("127.0.0.1", self.console_port), timeout=ANSWER_TIMEOUT_S) as client:
            client.sendall(json.dumps([act, *names]).encode() + b"\n")
            answer = client.makefile("rb").readline()
        assert answer == b"done\n", f"{act} {names}: {answer!r}"


class _Acts(socketserver.StreamRequestHandler):
    runner: EngineRunner

    def handle(self) -> None:
        act, *names = json.loads(self.rfile.readline())
        try:
            getattr(self.runner.calls, act)(*names).result(ANSWER_TIMEOUT_S)
            self.wfile.write(b"done\n")
        except Exception as exc:
            self.wfile.write(repr(exc).encode() + b"\n")


class _Door(socketserver.ThreadingTCPServer):
    allow_reuse_address = True  # it comes back on the port it had
    daemon_threads = True


def _open_door(runner: EngineRunner, port: int) -> None:
    runner.on_death = lambda: os._exit(1)  # as `serve` does
    handler: Any = type("Acts", (_Acts,), {"runner": runner})
    door = _Door(("127.0.0.1", port), handler)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    print(f"Console: listening on http://127.0.0.1:{port}/", flush=True)


def main(arguments: list[str]) -> None:
    port = 0
    engine_arguments = []
    for argument in arguments:
        if argument.startswith(MUTANT_FLAG):
            MUTANTS[argument.removeprefix(MUTANT_FLAG)](pytest.MonkeyPatch())
        elif argument.startswith(_DOOR_FLAG):
            port = int(argument.removeprefix(_DOOR_FLAG))
        else:
            engine_arguments.append(argument)
    engine_process.main(engine_arguments, on_start=lambda runner: _open_door(runner, port))


if __name__ == "__main__":
    main(sys.argv[1:])
