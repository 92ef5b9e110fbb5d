"""The daemon as a process: what is started where nsqd was."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.processes.server import ServerProcess


class DaemonProcess(ServerProcess):
    """`python -m queue_engine`, on the daemon's own storage kind unless the options name one. Makes its directory."""

    _listeners = frozenset({"TCP", "HTTP"})

    def __init__(
        self, data_path: Path, *, options: Sequence[str] = (), environment: dict[str, str] | None = None
    ) -> None:
        super().__init__(data_path, options=options, environment=environment)
        self._options = list(options)
        data_path.mkdir(parents=True, exist_ok=True)

    def _command(self) -> list[str]:
        return [
            "-m",
            "queue_engine",
            # The four forms that scripts use.
            f"-tcp-address=127.0.0.1:{self.tcp_port}",
            "--http-address",
            f"127.0.0.1:{self.http_port}",
            "-data-path",
            str(self.data_path),
        ]
