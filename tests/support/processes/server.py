"""The real server, as a process of its own: what a user starts, on free loopback ports and a directory of its own."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.processes.engine_api import EngineApi
from tests.support.processes.ports import free_ports
from tests.support.storage_kinds import server_flags

ROOT = Path(__file__).resolve().parent.parent.parent.parent

START_TIMEOUT_S = 60.0  # a busy machine takes long to import everything
STOP_TIMEOUT_S = 10.0  # of one that has little to write
STOP_WAIT_S = 60.0  # a stop ends when everything is on disk, on a machine that may stall

ADMIN_USER = "admin"
ADMIN_PASSWORD = "correct horse battery staple"

_LISTENING = re.compile(r"(?:^|: )(TCP|HTTPS?|Console): listening on (?:https?://)?(.+):([0-9]+)/?$")


class ServerProcess(EngineApi):
    """`penstock serve` on `data_path`. A restart keeps the directory and the ports.

    Its topics are of the storage kind of the test that makes it (storage_kinds), unless the options name one.

    tcp_port, http_port, console_port: no connection of other tests is given one of them while it restarts.
    """

    _listeners = frozenset({"TCP", "HTTP", "Console"})

    def __init__(
        self,
        data_path: Path,
        *,
        options: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        descriptors: tuple[int, int] | None = None,
        root: Path = ROOT,
    ) -> None:
        """descriptors: the soft and the hard limit of `ulimit -n`; None leaves them. root: the checkout whose server
        it is."""
        super().__init__()
        self.data_path = data_path
        self._root = root
        self.tcp_port, self.http_port, self.console_port = free_ports(3)
        self.https_port = 0  # with a certificate, once it runs
        self._options = server_flags(options)
        self._environment = environment or {}
        self._descriptors = descriptors
        self._process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """All it has written, standard output and error together, of every start."""
        return "".join(self._lines)

    @property
    def console_url(self) -> str:
        return f"http://127.0.0.1:{self.console_port}"

    def start(self) -> None:
        """Start it and wait for its three listening lines. Raises RuntimeError with the log when they do not come."""
        assert self._process is None, "the server is running"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        # The test session's own settings module must not leak into the product.
        environment.pop("DJANGO_SETTINGS_MODULE", None)
        environment |= {
            "PENSTOCK_ADMIN_USER": ADMIN_USER,
            "PENSTOCK_ADMIN_PASSWORD": ADMIN_PASSWORD,
            "PYTHONUNBUFFERED": "1",
            **self._environment,
        }
        self._process = subprocess.Popen(
            [*self._limiter(), sys.executable, *self._command(), *self._options],
            cwd=self._root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ports: queue.SimpleQueue[tuple[str, int] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, args=(self._process, ports), daemon=True)
        self._reader.start()
        found: dict[str, int] = {}
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._listeners <= found.keys():
            try:
                item = ports.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                item = None
            if item is None:
                self.kill9()
                raise RuntimeError(f"the server did not come up; it wrote:\n{self.log}")
            found[item[0]] = item[1]
        self.https_port = found.get("HTTPS", 0)

    def _limiter(self) -> list[str]:
        if self._descriptors is None:
            return []
        soft, hard = self._descriptors
        return ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh"]

    def _command(self) -> list[str]:
        return [
            "manage.py",
            "serve",
            f"--tcp-address=127.0.0.1:{self.tcp_port}",
            f"--http-address=127.0.0.1:{self.http_port}",
            f"--console-address=127.0.0.1:{self.console_port}",
            f"--data-path={self.data_path}",
        ]

    def _read(self, process: subprocess.Popen[str], ports: "queue.SimpleQueue[tuple[str, int] | None]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._lines.append(line)
                if match := _LISTENING.search(line.strip()):
                    ports.put((match[1], int(match[3])))
        ports.put(None)

    def stop(self) -> None:
        """End it as a user would, by SIGTERM, and check that it went in time and in peace."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"SIGTERM did not stop it within {STOP_WAIT_S:g} s; it wrote:\n{self.log}") from None
        self._forget()
        assert status == 0, f"SIGTERM ended it with status {status}; it wrote:\n{self.log}"

    def signalled(self, *numbers: int, every_s: float = 0.15, timeout_s: float = 120) -> int:
        """Send it signals one after the other, and return the status that it ends with."""
        process = self._process
        assert process is not None, "the server is not running"
        for number in numbers:
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(every_s)
        status = process.wait(timeout_s)
        self._forget()
        return status

    def kill9(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    def restart(self) -> None:
        """Stop cleanly and start again: same directory, same ports."""
        self.stop()
        self.start()

    def _forget(self) -> None:
        self._process = None
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_S)

    def __enter__(self) -> "ServerProcess":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._clients.close()
        if kind is None:
            self.stop()
        else:
            self.kill9()
            sys.stderr.write(f"--- the server's log\n{self.log}")
