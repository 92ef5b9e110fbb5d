"""Ports for programs that cannot be asked which one they got."""

import socket


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody has at this moment, each another."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports
