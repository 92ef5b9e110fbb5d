"""Both sides of gnsq as processes, seen from a test."""

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType

from tests.support.processes.server import ROOT


class GnsqProcess:
    """gnsq_program with these arguments. Use as a context; it is ended with it.

    lines: what it has said so far, one a line.
    """

    def __init__(self, *arguments: object, bodies: Sequence[bytes] = ()) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.clients.gnsq_program", *map(str, arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._process.stdin is not None
        with self._process.stdin as standard_input:
            standard_input.write(b"".join(body + b"\n" for body in bodies))

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as standard_output:
            for line in standard_output:
                self.lines.append(line.decode().strip())

    def wait(self, timeout_s: float = 60) -> None:
        """Wait for its end, which must be a good one."""
        assert self._process.wait(timeout_s) == 0
        self._reader.join(timeout_s)

    def __enter__(self) -> "GnsqProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


class GnsqConsumer(GnsqProcess):
    """The consuming side; what it got, decoded."""

    def __init__(self, port: int, topic: str, channel: str, *options: object) -> None:
        super().__init__("consume", port, topic, channel, *options)

    @property
    def deliveries(self) -> list[tuple[int, float, bytes]]:
        """Attempts, moment in monotonic seconds, and body of each delivery."""
        return [
            (attempts, moment_s, body.encode("latin-1"))
            for attempts, moment_s, body in map(json.loads, list(self.lines))
        ]

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.deliveries]


class GnsqPublisher(GnsqProcess):
    """The publishing side: each of `bodies`, acknowledged before the next."""

    def __init__(self, port: int, topic: str, bodies: Sequence[bytes], *options: object) -> None:
        super().__init__("publish", port, topic, *options, bodies=bodies)

    @property
    def acknowledged_count(self) -> int:
        return int(self.lines[-1]) if self.lines else 0
