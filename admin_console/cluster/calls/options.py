"""The options of the cluster, checked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.node_rules import NodeRules
from admin_console.vocabulary.console_option import ConsoleOption, split_list
from admin_console.vocabulary.current_cluster import NAME_WORDS, is_cluster_name
from queue_engine.client.secret_hosts import SecretHosts

T = TypeVar("T")

# Of one kind. An older version takes a cluster.json with more for a damaged one: a higher number raises its version.
ADDRESSES_MAX = 1_000
# Each has a thread, a hub and rings of its own.
CLUSTERS_MAX = 16

_LOOKUPDS = ConsoleOption(
    "--lookupd-http-address",
    "",
    "[NAME=]HOST:PORT",
    "HTTP address of an nsqlookupd, whose nodes the console shows; may be given several times. Addresses with a NAME "
    "are the cluster of that name, with pages of its own",
    is_list=True,
)
_NSQDS = ConsoleOption(
    "--nsqd-http-address",
    "",
    "[NAME=]HOST:PORT",
    "HTTP address of a node that the console shows; may be given several times, with a NAME as for "
    "--lookupd-http-address",
    is_list=True,
)
_ALLOWED = ConsoleOption(
    "--allowed-node",
    "",
    "PATTERN",
    "of the nodes that nsqlookupds name, those that the console calls: a host, *.DOMAIN, an address, a network or *; "
    "may be given several times (default: all but loopback, link-local and metadata addresses)",
    is_list=True,
)
_MAPPED = ConsoleOption(
    "--node-address",
    "",
    "NAMED=CALLED",
    "for nodes behind NAT: the node that registers as NAMED is called at CALLED, both HOST:PORT; may be given several "
    "times",
    is_list=True,
)
_TOKEN_FILE = ConsoleOption(
    "--node-token-file",
    "",
    "PATH",
    "file of the tokens for Penstock nodes, mode 0600; a line each: *.example.org TOKEN",
)
_IS_UNCHECKED = ConsoleOption(
    "--http-client-tls-insecure-skip-verify",
    "false",
    "true|false",
    "whether the console accepts any certificate of nodes and nsqlookupds",
    limits="true, false",
)
_ROOT_CA_FILE = ConsoleOption(
    "--http-client-tls-root-ca-file",
    "",
    "PATH",
    "PEM file of the authorities that sign the certificates of nodes and nsqlookupds (default: the system's)",
)
_CERT = ConsoleOption(
    "--http-client-tls-cert", "", "PATH", "file of the console's certificate, for nodes and nsqlookupds that want one"
)
_KEY = ConsoleOption("--http-client-tls-key", "", "PATH", "the key of --http-client-tls-cert")
# Options of the engine that hold for these calls as well.
CONNECT_TIMEOUT, REQUEST_TIMEOUT = "--http-client-connect-timeout", "--http-client-request-timeout"
CLUSTER_OPTIONS = (
    _LOOKUPDS,
    _NSQDS,
    _ALLOWED,
    _MAPPED,
    _TOKEN_FILE,
    _IS_UNCHECKED,
    _ROOT_CA_FILE,
    _CERT,
    _KEY,
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where nodes come from: nsqlookupds that name them, and nodes by themselves."""

    lookupds: tuple[HttpAddress, ...] = ()
    nsqds: tuple[HttpAddress, ...] = ()

    @property
    def has_any(self) -> bool:
        return bool(self.lookupds or self.nsqds)

    @classmethod
    def parse(cls, lookupds: Sequence[str], nsqds: Sequence[str]) -> "Addresses":
        """Each once, in their order. Raises ValueError with a complaint a line, without naming an option."""
        complaints: list[str] = []
        found: list[tuple[HttpAddress, ...]] = []
        for texts in map(dict.fromkeys, (lookupds, nsqds)):
            if len(texts) > ADDRESSES_MAX:
                complaints.append(f"{len(texts):,} addresses: the most is {ADDRESSES_MAX:,}")
                continue
            addresses: dict[HttpAddress, None] = {}
            for text in texts:
                try:
                    addresses[HttpAddress.parse(text)] = None
                except ValueError as exc:
                    complaints.append(str(exc))
            found.append(tuple(addresses))
        if complaints:
            raise ValueError("\n".join(complaints))
        return cls(*found)


NO_ADDRESSES = Addresses()


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How nodes and nsqlookupds are called over https: nsqadmin's four flags. Files are PEM; "" for none."""

    root_ca_file: str = ""
    cert: str = ""
    key: str = ""
    is_checked: bool = True


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options of one cluster. mapped: where to call a node instead of at the address that it names. named: the
    addresses of further clusters, by their names, in the order of the options."""

    addresses: Addresses = NO_ADDRESSES
    allowed_patterns: tuple[str, ...] = ()
    mapped: Mapping[HttpAddress, HttpAddress] | None = None
    token_file: str = ""
    tls: ClientTls = ClientTls()
    connect_timeout_s: float = 2.0
    request_timeout_s: float = 5.0
    named: Mapping[str, Addresses] = field(default_factory=dict)

    @classmethod
    def parse(
        cls, texts: Mapping[str, str], *, connect_timeout_s: float = 2.0, request_timeout_s: float = 5.0
    ) -> "ClusterOptions":
        """texts: by flag. Raises ValueError with every complaint, one a line."""
        complaints: list[str] = []

        def checked(option: ConsoleOption, read: Callable[[Any], T], text: str | list[str], default: T) -> T:
            try:
                return read(text)
            except ValueError as exc:
                complaints.extend(f"{option.flag}: {line}" for line in str(exc).splitlines())
                return default

        def listed(option: ConsoleOption) -> list[str]:
            return split_list(texts[option.flag])

        lookupds, nsqds = (
            checked(option, _by_cluster, listed(option), dict[str, tuple[HttpAddress, ...]]())
            for option in (_LOOKUPDS, _NSQDS)
        )
        by_name = {name: Addresses(lookupds.get(name, ()), nsqds.get(name, ())) for name in {**lookupds, **nsqds}}
        if len(by_name.keys() - {""}) > CLUSTERS_MAX:
            complaints.append(
                f"{_LOOKUPDS.flag}, {_NSQDS.flag}: {len(by_name.keys() - {''})} names of clusters: the most is "
                f"{CLUSTERS_MAX}"
            )
        found = cls(
            by_name.pop("", NO_ADDRESSES),
            checked(_ALLOWED, _patterns, listed(_ALLOWED), ()),
            checked(_MAPPED, _mapped, listed(_MAPPED), dict[HttpAddress, HttpAddress]()),
            texts[_TOKEN_FILE.flag],
            ClientTls(
                texts[_ROOT_CA_FILE.flag],
                texts[_CERT.flag],
                texts[_KEY.flag],
                is_checked=not checked(_IS_UNCHECKED, _is_unchecked, texts[_IS_UNCHECKED.flag], default=False),
            ),
            connect_timeout_s,
            request_timeout_s,
            by_name,
        )
        if bool(found.tls.cert) != bool(found.tls.key):
            complaints.append(f"{_CERT.flag} and {_KEY.flag} belong together: only one of them is given")
        if complaints:
            raise ValueError("\n".join(complaints))
        return found

    def of_named(self, name: str) -> "ClusterOptions":
        """Those of a named cluster."""
        return replace(self, addresses=self.named[name], named={})

    def rules(self, addresses: Addresses) -> NodeRules:
        """The rules, with these addresses as those of the options."""
        return NodeRules((*addresses.lookupds, *addresses.nsqds), self.allowed_patterns, self.mapped)


@dataclass(frozen=True, slots=True)
class Pace:
    """period_s: between two readings of one address; watched_s: of a page's topic. cpu_share: of a core, for reading
    all of them: the periods stretch to hold it. unnamed_s: how long a node stays after nsqlookupds cease to name it: a
    node that dies takes its registrations with it, and so does an nsqlookupd that starts anew. It is nsqlookupd's own
    patience with a connection that hangs (--inactive-producer-timeout). sample_s: between two samples of a node: the
    history's finest windows are minutes, and each gets one."""

    period_s: float = 10.0
    watched_s: float = 1.0
    retry_s: float = 2.0
    retry_max_s: float = 60.0
    cpu_share: float = 0.1
    unnamed_s: float = 300.0
    sample_s: float = 30.0

    def retry_after_s(self, failures: int) -> float:
        return min(self.retry_s * 2.0 ** min(failures - 1, 16), self.retry_max_s)


PACE = Pace()


def _by_cluster(texts: Sequence[str]) -> dict[str, tuple[HttpAddress, ...]]:
    """Of `NAME=HOST:PORT`, or HOST:PORT for the unnamed one. Raises ValueError with a complaint a line."""
    by_name: dict[str, list[str]] = {}
    complaints = []
    for text in texts:
        name, equals, address = text.rpartition("=")
        if equals and not is_cluster_name(name):
            complaints.append(f"{text[:80]!r} names no cluster before its =: a name is {NAME_WORDS}")
        else:
            by_name.setdefault(name, []).append(address)
    found = {}
    for name, addresses in by_name.items():
        try:
            found[name] = Addresses.parse(addresses, ()).lookupds
        except ValueError as exc:
            complaints += [f"cluster {name}: {line}" if name else line for line in str(exc).splitlines()]
    if complaints:
        raise ValueError("\n".join(complaints))
    return found


def _mapped(texts: Sequence[str]) -> dict[HttpAddress, HttpAddress]:
    """Of `NAMED=CALLED`. Raises ValueError naming the text."""
    found: dict[HttpAddress, HttpAddress] = {}
    for text in texts:
        named, equals, target = text.partition("=")
        if not equals:
            raise ValueError(f"{text[:80]!r} is not NAMED=CALLED, such as nsq-a:4151=10.0.0.5:4151")
        address = HttpAddress.parse(named)
        if address in found:
            raise ValueError(f"{address} is mapped twice")
        found[address] = HttpAddress.parse(target)
    return found


def _patterns(texts: Sequence[str]) -> tuple[str, ...]:
    """Raises ValueError naming the pattern."""
    SecretHosts(texts)
    return tuple(texts)


def _is_unchecked(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"
