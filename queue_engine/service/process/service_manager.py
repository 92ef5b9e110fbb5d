"""Reports to the service manager that started this process, by systemd's protocol for notifications.

The manager names a datagram socket in NOTIFY_SOCKET: a path, or @NAME for an abstract one. A message is lines of
NAME=VALUE. In WATCHDOG_USEC it says how many microseconds may pass between two WATCHDOG=1.
"""

import logging
import math
import re
import socket
import struct
from collections.abc import MutableMapping

logger = logging.getLogger(__name__)

# How much longer the manager may wait for the next report of a start that works.
START_LIMIT_S = 120
# How much longer than --stop-timeout a step of the stop may take: the console's end, the worker's, the log's last sync.
STOP_MARGIN_S = 60
# Of the time between two feedings that the manager allows: a machine that stalls leaves one out.
FEED_SHARE = 0.25
# A manager that does not read is waited for so long, except when its watchdog is fed.
_SEND_TIMEOUT_S = 5


def stop_limit_s(stop_timeout_ms: int) -> int:
    """How long a stop may take without advancing, in seconds, for a server with this --stop-timeout."""
    return math.ceil(stop_timeout_ms / 1000) + STOP_MARGIN_S


class ServiceManager:
    """The manager that `environment` names. Without one, nothing is sent. May be used by all threads.

    Takes the variables out of `environment`: no child process should report in the server's name.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        name = environment.pop("NOTIFY_SOCKET", "")
        microseconds = environment.pop("WATCHDOG_USEC", "")
        environment.pop("WATCHDOG_PID", None)  # the process that the manager started, which is this one
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._socket: socket.socket | None = None
        self._has_failed = False
        self._stop_status = ""
        self.feed_every_s = 0.0
        """How often to feed the watchdog, in seconds; 0 when none watches."""
        if not name:
            return
        if not name.startswith(("@", "/")):
            logger.warning("NOTIFY_SOCKET is %r, neither a path nor @NAME: the service manager gets no reports", name)
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_TIMEOUT_S, 0))
        if re.fullmatch("[0-9]{1,20}", microseconds):  # 64 bits
            self.feed_every_s = FEED_SHARE * int(microseconds) / 1e6

    def close(self) -> None:
        """Repeatable. Nothing is sent any more."""
        found, self._socket = self._socket, None
        if found is not None:
            found.close()

    def starting(self, status: str) -> None:
        """Report a start that advances."""
        self._send(f"STATUS={status}", f"EXTEND_TIMEOUT_USEC={START_LIMIT_S * 1_000_000}")

    def ready(self, status: str) -> None:
        """Report that everything listens."""
        self._send("READY=1", f"STATUS={status}")

    def feed(self) -> None:
        """Feed the watchdog. Never waits."""
        self._send("WATCHDOG=1", flags=socket.MSG_DONTWAIT)

    def stopping(self, status: str, limit_s: int) -> None:
        """Report how far the stop is, each second. Only one that has advanced gets `limit_s` more seconds.

        A feeding after SIGTERM has systemd's watchdog watch again, and the engine's loop ends: the stop feeds it.
        """
        if self.feed_every_s:
            self.feed()
        if status != self._stop_status:
            self._stop_status = status
            self._send("STOPPING=1", f"STATUS=Stopping: {status}", f"EXTEND_TIMEOUT_USEC={limit_s * 1_000_000}")

    def _send(self, *lines: str, flags: int = 0) -> None:
        if (sending := self._socket) is None:
            return
        text = "\n".join(line.replace("\n", " ") for line in lines)
        try:
            # The address each time: a manager that was replaced listens on another socket of the same name.
            sending.sendto(text.encode(), flags, self._address)
        except OSError as exc:
            if not self._has_failed:
                self._has_failed = True
                logger.warning("the service manager can't be reached: %s message=%s", exc.strerror or exc, lines[0])
