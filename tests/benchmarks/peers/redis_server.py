"""A redis-server of our own: a free loopback port, a directory of its own, an append-only file."""

import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

from tests.support.processes.ports import free_ports
from tests.support.waiting import wait_for


class RedisServer:
    """Use as a context. Raises RuntimeError when the machine has no redis-server.

    Rewriting the append-only file is off: it would cost Redis time in the middle of a measurement.
    """

    def __init__(self, directory: Path, *, fsync: str = "everysec") -> None:
        self._directory = directory
        self._fsync = fsync
        self.port = 0

    def __enter__(self) -> "RedisServer":
        program = shutil.which("redis-server")
        if program is None:
            raise RuntimeError("redis-server is not installed (Debian package redis-server)")
        [self.port] = free_ports(1)
        self._directory.mkdir(parents=True, exist_ok=True)
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._directory),
            "save": "",
            "appendonly": "yes",
            "appendfsync": self._fsync,
            "auto-aof-rewrite-percentage": "0",
            "logfile": "redis.log",
        }
        arguments = [word for name, value in options.items() for word in ("--" + name, value)]
        self._process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)
        wait_for("redis-server to answer", self._answers)
        return self

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            log = self._directory / "redis.log"
            raise RuntimeError(f"redis-server ended:\n{log.read_text() if log.exists() else ''}")
        try:
            return self.ask(b"PING") == b"+PONG\r\n"
        except OSError:
            return False

    def ask(self, *words: bytes) -> bytes:
        """One command, one short answer."""
        text = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(text)
            return connection.recv(4096)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)
