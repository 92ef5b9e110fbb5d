"""nsqlookupd as a process: `python -m queue_engine.lookup`, on ports that it keeps over restarts."""

from pathlib import Path

from tests.support.processes.ports import free_ports
from tests.support.processes.running_lookup import LookupApi
from tests.support.processes.server import ServerProcess


class LookupProcess(ServerProcess, LookupApi):
    """A ServerProcess that is an nsqlookupd."""

    _listeners = frozenset({"TCP", "HTTP"})

    def __init__(self) -> None:
        super().__init__(Path())
        self.tcp_port, self.http_port = free_ports(2)
        self._options = []

    def _command(self) -> list[str]:
        return [
            "-m",
            "queue_engine.lookup",
            f"--tcp-address=127.0.0.1:{self.tcp_port}",
            f"--http-address=127.0.0.1:{self.http_port}",
            "--broadcast-address=127.0.0.1",
        ]
