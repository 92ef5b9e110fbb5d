"""A statsd daemon, as far as it receives: a real UDP socket on loopback."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class StatsdReceiver:
    """Receives packets until it is closed."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.packets: list[bytes] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def receive(self) -> list[bytes]:
        """All packets so far: over loopback a packet is there when it was sent."""
        while True:
            try:
                self.packets.append(self._socket.recv(1 << 16))
            except BlockingIOError:
                return self.packets

    def values(self) -> dict[str, str]:
        """Name → value and kind, such as "5|c", of the lines that came last; counters are added up."""
        found: dict[str, str] = {}
        sums: Counter[str] = Counter()
        for packet in self.receive():
            assert packet.endswith(b"\n"), "whole lines"
            for line in packet.decode().splitlines():
                name, _, value = line.partition(":")
                if value.endswith("|c"):
                    sums[name] += int(value.removesuffix("|c"))
                    value = f"{sums[name]}|c"
                else:
                    assert value.removesuffix("|g").isdigit(), line
                found[name] = value
        return found

    def close(self) -> None:
        self._socket.close()


@contextmanager
def statsd_receiver() -> Iterator[StatsdReceiver]:
    receiver = StatsdReceiver()
    try:
        yield receiver
    finally:
        receiver.close()
