"""A service manager's end of systemd's notifications: a real datagram socket, and what came to it."""

import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import wait_for

_CREDENTIALS = struct.Struct("iII")
_MESSAGE_BYTES_MAX = 4096


@dataclass(frozen=True)
class Notification:
    """One message: its NAME=VALUE pairs, and the process that the kernel says sent it."""

    values: dict[str, str]
    pid: int


class NotifySocket:
    """Listens at `address`: a path, or @NAME for an abstract socket. Use as a context."""

    def __init__(self, address: Path | str) -> None:
        self.address = str(address)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.setblocking(False)
        self._notifications: list[Notification] = []

    def __enter__(self) -> "NotifySocket":
        self._socket.bind(self.address.replace("@", "\0", 1) if self.address.startswith("@") else self.address)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def notifications(self) -> list[Notification]:
        """All that have come, in their order."""
        while True:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(_MESSAGE_BYTES_MAX, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                return list(self._notifications)
            pid, _, _ = _CREDENTIALS.unpack(ancillary[0][2])
            lines = data.decode().split("\n")
            self._notifications.append(Notification(dict(line.split("=", 1) for line in lines), pid))

    def values(self, name: str) -> list[str]:
        """The values that came under this name."""
        return [one.values[name] for one in self.notifications if name in one.values]

    def wait_for(self, name: str, value: str, *, timeout_s: float = 60.0) -> None:
        """Wait for a message with this pair."""
        wait_for(f"{name}={value}", lambda: value in self.values(name), timeout_s=timeout_s)
