"""Which client a limit counts: its identity, its address, or both.

    identity   the name of its token, or the one that an auth server gave it; "" without a secret
    address    of the connection; behind a trusted proxy the one that the proxy forwards

A connection through a trusted proxy that forwards no address, and one to a socket in the file system, share their
address with strangers: there the identity counts alone. Without an identity, all of these are one client.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

# In the place of an address: a client of a socket in the file system has none.
UNIX = "unix"
_NETWORK_LENGTH = len("2001:0db8:0000:0000")  # /64
_REMEMBERED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class ClientKey:
    """One client. parts: the names by which limits count it, as sentences have them: "token orders", "address
    10.0.0.7"."""

    parts: tuple[str, ...]

    @classmethod
    def of(cls, address: str, identity: str = "") -> "ClientKey":
        """address: an IP address without port, or another word for where the client is; "" for none."""
        return _key_of(address, identity)


class ClientKeys:
    """Makes the keys of one server's clients. proxies: those whose X-Forwarded-For is believed. has_proxies: without
    any the address is the connection's."""

    def __init__(self, proxies: "TrustedAddresses | None" = None) -> None:
        self._proxies = proxies or TrustedAddresses(())
        self.has_proxies = self._proxies.has_any

    def of(self, peer: str, identity: str = "", forwarded_for: str = "") -> ClientKey:
        """peer: the IP address of the connection, or UNIX. forwarded_for: the header's value."""
        return ClientKey.of(self.address_of(peer, forwarded_for) or ("" if identity else peer), identity)

    def of_connection(self, peer: str, identity: str = "") -> ClientKey:
        """Of a connection, before anything is forwarded: where its address stands for many clients, none of them has a
        share of it without an identity."""
        return ClientKey.of(self.address_of(peer), identity)

    def address_of(self, peer: str, forwarded_for: str = "") -> str:
        """The client's own address; "" where the connection's stands for many clients."""
        if self._proxies.has(peer):
            return self._proxies.client_of(forwarded_for)
        return "" if peer == UNIX else peer


class TrustedAddresses:
    """Addresses and networks of proxies that are believed."""

    def __init__(self, networks: Iterable[IPNetwork]) -> None:
        self._networks = tuple(networks)
        self.has_any = bool(self._networks)
        self._remembered = lru_cache(_REMEMBERED_MAX)(self._look)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "TrustedAddresses":
        """texts: IP addresses and networks (10.0.0.0/8). Raises ValueError with a complaint a line."""
        networks: list[IPNetwork] = []
        complaints: list[str] = []
        for text in texts:
            try:
                networks.append(ipaddress.ip_network(text, strict=False))
            except ValueError:
                complaints.append(
                    f"--trusted-proxy: {text!r} is neither an IP address nor a network such as 10.0.0.0/8"
                )
        if complaints:
            raise ValueError("\n".join(complaints))
        return cls(networks)

    def has(self, address: str) -> bool:
        return self.has_any and self._remembered(address)

    def client_of(self, forwarded_for: str) -> str:
        """The client that X-Forwarded-For names: the rightmost address that is no trusted proxy, since the client
        itself wrote the part to its left; the leftmost one when all are; "" when there is none."""
        found = ""
        for part in reversed(forwarded_for.split(",")):
            text = part.strip()
            try:
                found = str(ipaddress.ip_address(text))
            except ValueError:
                break
            if not self.has(found):
                break
        return found

    def _look(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


@lru_cache(_REMEMBERED_MAX)
def source_of(address: str) -> str:
    """An address, or the /64 network of an IPv6 one: the host of one address there has all of them."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address  # of a socket in the file system
    if found.version == 4 or found.ipv4_mapped is not None:
        return address
    return found.exploded[:_NETWORK_LENGTH]


@lru_cache(_REMEMBERED_MAX)
def _key_of(address: str, identity: str) -> ClientKey:
    parts = (f"token {identity}",) if identity else ()
    return ClientKey((*parts, f"address {source_of(address)}") if address else parts)
