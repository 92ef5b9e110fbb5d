"""Which addresses the console calls: those of its options, and those that nsqlookupds name within the rules.

Any program that reaches an nsqlookupd can register with any address. Without rules it could have the console send
requests to itself, to the machine's own services, or to a cloud's metadata service.
"""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address

from admin_console.cluster.calls.addresses import HttpAddress, IPAddress, ip_of
from queue_engine.client.secret_hosts import SecretHosts

# Metadata services at addresses that are not link-local: Alibaba, Azure, Oracle, AWS over IPv6.
_METADATA = frozenset(ip_address(text) for text in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"))
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal"})
_ALL = "*"

LOOPBACK, LINK_LOCAL, METADATA, MULTICAST, UNSPECIFIED = (
    "a loopback address",
    "a link-local address",
    "the address of a metadata service",
    "a multicast address",
    "no address of a machine",
)


def special_kind(address: IPAddress) -> str:
    """The kind of an address that nodes do not have, in words; "" for an ordinary one."""
    if address in _METADATA or str(address) == "169.254.169.254":
        return METADATA
    if address.is_unspecified or str(address) == "255.255.255.255":
        return UNSPECIFIED
    if address.is_loopback:
        return LOOPBACK
    if address.is_link_local:
        return LINK_LOCAL
    return MULTICAST if address.is_multicast else ""


class NodeRules:
    """Immutable; any thread.

    configured: the addresses of the options, which are called whatever they are. A kind of address that one of them has
    is allowed for all: so a cluster on one machine works without a pattern.
    patterns: host names, `*.DOMAIN`, addresses, networks, or `*`; without any, every ordinary address is allowed.
    mapped: where to call a node instead, by the address that it names: nodes behind NAT.
    """

    def __init__(
        self,
        configured: Iterable[HttpAddress] = (),
        patterns: Sequence[str] = (),
        mapped: Mapping[HttpAddress, HttpAddress] | None = None,
    ) -> None:
        """Raises ValueError naming the pattern."""
        self._mapped = dict(mapped or {})
        self._trusted = {(one.host, one.port) for one in (*configured, *self._mapped.values())}
        self._has_patterns = bool(patterns)
        self._allows_all = _ALL in patterns
        self._hosts = SecretHosts(patterns)
        kinds = (
            LOOPBACK if host == "localhost" else special_kind(ip) if (ip := ip_of(host)) else ""
            for host, _ in self._trusted
        )
        self._allowed_kinds = frozenset(filter(None, kinds)) - {METADATA}

    def target_of(self, address: HttpAddress) -> HttpAddress:
        """Where to call the node that names itself by `address`."""
        return self._mapped.get(address, address)

    def refusal(self, target: HttpAddress) -> str:
        """Why `target` is not called, as the end of a sentence; "" where it is, as far as its text says: a name is
        checked again when it is resolved."""
        if (target.host, target.port) in self._trusted:
            return ""
        ip = ip_of(target.host)
        if ip is not None:
            return self._refusal_of_ip(target.host, ip)
        if target.host in _METADATA_NAMES and not self._allows_all:
            return f"{target.host} is {METADATA}"
        if target.host == "localhost" or target.host.endswith(".localhost"):
            return self._refusal_of_ip(target.host, ip_address("127.0.0.1"))
        return ""

    def refusal_of_resolved(self, host: str, port: int, ip: IPAddress) -> str:
        """Why the address that a name resolves to is not called; "" where it is."""
        return "" if (host, port) in self._trusted else self._refusal_of_ip(host, ip)

    def _refusal_of_ip(self, host: str, ip: IPAddress) -> str:
        is_named = self._hosts.allow(str(ip))
        if self._allows_all:
            return ""
        # A name within a pattern may resolve to anything: special addresses need a pattern of their own.
        if (kind := special_kind(ip)) and not is_named and kind not in self._allowed_kinds:
            return f"{_named(host, ip)} is {kind}"
        if self._has_patterns and not is_named and not self._hosts.allow(host):
            return f"{_named(host, ip)} is in no --allowed-node"
        return ""


def _named(host: str, ip: IPAddress) -> str:
    return host if ip_of(host) is not None else f"{host} ({ip})"
