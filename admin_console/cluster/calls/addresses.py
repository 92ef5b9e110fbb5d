"""HTTP addresses of nodes and nsqlookupds: read from options, and compared."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from queue_engine.vocabulary.options.addresses import joined

_TEXT = re.compile(r"(?:(https?)://)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):([0-9]+)/?")
_TEXT_LENGTH_MAX = 300

IPAddress = IPv4Address | IPv6Address
_NAT64 = IPv6Network("64:ff9b::/96")  # the last 32 bits are an IPv4 address (RFC 6052)


@dataclass(frozen=True, slots=True, order=True)
class HttpAddress:
    """Where an HTTP API listens. host: a name or an IP address, without brackets, in lower case."""

    host: str
    port: int
    is_tls: bool = False

    @classmethod
    def parse(cls, text: str) -> "HttpAddress":
        """`HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. Raises ValueError naming the text."""
        found = _TEXT.fullmatch(text) if len(text) <= _TEXT_LENGTH_MAX else None
        if found is None:
            raise ValueError(f"{text[:80]!r} is neither HOST:PORT nor https://HOST:PORT")
        if not 0 < int(found[3]) < 65536:
            raise ValueError(f"{text[:80]!r} has the port {found[3][:20]}: a port is 1 to 65535")
        return cls(found[2].strip("[]").lower(), int(found[3]), found[1] == "https")

    @property
    def url(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.bare}"

    @property
    def bare(self) -> str:
        """HOST:PORT, as nsqadmin names a node."""
        return joined(self.host, self.port)

    def __str__(self) -> str:
        """As options have it: the scheme only where it is https."""
        return self.url if self.is_tls else self.bare


def ip_of(host: str) -> IPAddress | None:
    """The IP address that `host` is; the IPv4 address inside of an IPv6 one that stands for it; None for a name."""
    try:
        found = ip_address(host)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return found.ipv4_mapped
        if found in _NAT64:
            return IPv4Address(int(found) & 0xFFFFFFFF)
        if found.sixtofour is not None:
            return found.sixtofour
    return found
