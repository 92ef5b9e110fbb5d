"""The demo as a child process of the server, which starts it on its own addresses and stops it."""

import ipaddress
import logging
import subprocess
import sys
import threading
from pathlib import Path

from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.addresses import NO_PORT

logger = logging.getLogger(__name__)

_ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLE_PATH = _ROOT / "tests" / "data" / "earthquakes.jsonl"
STOP_TIMEOUT_S = 2.0


class DemoProcess:
    """The demo's process. Start and stop it once, from one thread."""

    def __init__(self, tcp_address: tuple[str, int], http_address: tuple[str, int]) -> None:
        """tcp_address, http_address: the engine's. Raises PenstockError when they are not on loopback, or the sample is
        missing."""
        if not SAMPLE_PATH.is_file():
            raise PenstockError(
                f"--demo sends the lines of {SAMPLE_PATH}, which is missing: run it from a checkout of the project"
            )
        self._arguments = [
            str(SAMPLE_PATH),
            *_local(tcp_address, "--tcp-address"),
            *_local(http_address, "--http-address"),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    def start(self, *, with_archive: bool) -> str:
        """Start the process. Returns a sentence about it for the server's start text. with_archive: whether it switches
        the archive of its first topic on; without a worker that reads it, the log would only grow."""
        arguments = [*self._arguments, *(["archive"] if with_archive else [])]
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and addresses of our own
            [sys.executable, "-m", "queue_engine.client.demo", *arguments],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # Ctrl-C in the terminal goes to the server alone, which then stops the demo.
            start_new_session=True,
        )
        threading.Thread(target=self._watch, args=(self._process,), name="demo watch", daemon=True).start()
        return (
            f"Demo: process {self._process.pid} sends the real earthquakes of {SAMPLE_PATH.relative_to(_ROOT)} to the "
            "topics earthquakes, earthquakes.strong and alerts"
        )

    def stop(self) -> None:
        """Close its stdin, which ends the process; kill it after two seconds. Returns once it is gone."""
        process = self._process
        if process is None:
            return
        self._is_stopping = True
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        status = process.wait()
        if not self._is_stopping and status != 0:
            logger.warning("demo ended by itself status=%d", status)


def _local(address: tuple[str, int], flag: str) -> tuple[str, str]:
    """Where the demo reaches a listening address. Raises PenstockError when that would not be on loopback."""
    host, port = address
    if port == NO_PORT:
        raise PenstockError(f"--demo works on HOST:PORT only, and {flag} is {host}")
    listening = ipaddress.ip_address(host)
    if listening.is_unspecified:
        host = "127.0.0.1" if listening.version == 4 else "::1"
    elif not listening.is_loopback:
        raise PenstockError(f"--demo works on loopback only, and {flag} is {host}:{port}")
    return host, str(port)
