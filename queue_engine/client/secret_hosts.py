"""Which servers may get a secret in plain text: those of a pattern, when nsqlookupds and not the user name them.

A program that registers with an nsqlookupd, or answers in its place, names the addresses that clients connect to.
"""

import ipaddress
import re
from collections.abc import Iterable

_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")
_ALL = "*"


class SecretHosts:
    """Allows hosts by patterns: a host's name, `*.DOMAIN`, an address, a network such as `10.1.0.0/16`, or `*`."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Raises ValueError naming the pattern."""
        self._names: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for pattern in patterns:
            try:
                self._networks.append(ipaddress.ip_network(pattern.strip("[]")))
                continue
            except ValueError:
                pass
            name = pattern.lower()
            # Of digits and dots alone: a mistyped network, and never the name of a host.
            if name != _ALL and (not _NAME.fullmatch(name) or not re.search("[a-z]", name)):
                raise ValueError(
                    f"{pattern[:80]!r} is neither a host's name, *.DOMAIN, an address, a network such as 10.1.0.0/16, "
                    "nor *"
                )
            self._names.add(name)

    def allow(self, host: str) -> bool:
        if _ALL in self._names:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            name = host.lower().rstrip(".")
            domains = (f"*.{name[at + 1 :]}" for at, letter in enumerate(name) if letter == ".")
            return name in self._names or any(domain in self._names for domain in domains)
        return any(address in network for network in self._networks)
