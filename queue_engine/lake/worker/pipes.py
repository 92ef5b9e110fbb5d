"""The pipes between a server and its worker: standard input takes a few lines, standard error gives back the last one.

standard input    TOKEN     the engine's token, first and always
                  rest      the worker has no work and ends
                  (closed)  the server is gone, or stops: the worker ends at once
standard error    the worker's log file, and at its end why it ended
"""

import contextlib
import os
import select
import subprocess

REST_LINE = b"rest\n"
LINE_LENGTH_MAX = 500


def send_token(process: "subprocess.Popen[str]", token: str) -> None:
    """Send the engine's token as the first line of standard input: other users can read arguments, and processes of
    the same user the environment."""
    _send(process, os.fsencode(token) + b"\n")


def send_rest(process: "subprocess.Popen[str]") -> None:
    """Request that the worker ends for want of work."""
    _send(process, REST_LINE)


def first_line(descriptor: int) -> str:
    """The first line, without its end. Reads byte by byte: the rest stays unread, so `select` sees it."""
    line = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return os.fsdecode(line)


class ErrorLine:
    """Reads a worker's standard error until the worker closes it. One thread."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr is not None
        self._pipe = process.stderr
        # Not `select`: a server with many clients has descriptors beyond its limit.
        self._poll = select.poll()
        self._poll.register(self._pipe.fileno(), select.POLLIN)
        self._tail = b""

    def wait(self, timeout_s: float) -> bool:
        """Read for timeout_s at most. Returns whether the worker has closed it, as it does when it ends."""
        if not self._poll.poll(timeout_s * 1000):
            return False
        piece = os.read(self._pipe.fileno(), 4096)
        self._tail = (self._tail + piece)[-2 * LINE_LENGTH_MAX :]
        if piece:
            return False
        self._pipe.close()
        return True

    @property
    def text(self) -> str:
        """The last line with text, so far; "" without any."""
        lines = [line.strip() for line in self._tail.decode(errors="replace").splitlines()]
        return next((line[:LINE_LENGTH_MAX] for line in reversed(lines) if line), "")


def _send(process: "subprocess.Popen[str]", line: bytes) -> None:
    assert process.stdin is not None
    # A worker that has ended already gives its reason on its standard error.
    with contextlib.suppress(OSError):
        os.write(process.stdin.fileno(), line)
