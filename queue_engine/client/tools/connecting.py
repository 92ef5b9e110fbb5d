"""How a tool reaches its servers: addresses or nsqlookupds, TLS, the secret."""

import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from queue_engine.client.connection import ClientIdentity
from queue_engine.client.http_json import HttpJson
from queue_engine.client.nodes import LookedUpNodes, NamedNodes, Node, NodeSource
from queue_engine.client.secret_hosts import SecretHosts
from queue_engine.vocabulary.options.addresses import split_address
from queue_engine.vocabulary.version import VERSION


@dataclass(frozen=True, slots=True)
class Connecting:
    """The parameters of all tools. nodes: named servers, or lookup_urls: nsqlookupds that list them; never both.

    tls: for connections to the servers, and for https. timeout_s: of an HTTP request.
    """

    nodes: tuple[Node, ...] = ()
    lookup_urls: tuple[str, ...] = ()
    tls: ssl.SSLContext | None = None
    auth_secret: bytes = field(default=b"", repr=False)
    msg_timeout_ms: int = 0
    secret_hosts: SecretHosts = field(default_factory=SecretHosts)  # of those that nsqlookupds name
    timeout_s: float = 5.0
    poll_s: float = 30.0  # how often nsqlookupds are read

    def identity(self, tool: str, *, is_named: bool = False) -> ClientIdentity:
        """How a tool names itself to servers. is_named: to those of the command line, and not to those that nsqlookupds
        name."""
        host = os.uname().nodename
        return ClientIdentity(
            client_id=host.split(".")[0],
            hostname=host,
            user_agent=f"penstock-{tool}/{VERSION}",
            msg_timeout_ms=self.msg_timeout_ms,
            tls=self.tls,
            auth_secret=self.auth_secret,
            secret_hosts=None if is_named or self.nodes else self.secret_hosts,
        )

    @contextlib.asynccontextmanager
    async def source(self) -> AsyncIterator[NodeSource]:
        """Where the servers of a topic are."""
        if self.nodes:
            yield NamedNodes(self.nodes)
            return
        async with self.http() as http:
            yield LookedUpNodes(http, self.lookup_urls)

    def http(self) -> HttpJson:
        """For nsqlookupds and HTTP APIs; the secret is the token for the latter."""
        return HttpJson(timeout_s=self.timeout_s, tls=self.tls, token=self.auth_secret.decode("latin-1"))


def tls_context(root_ca_file: str = "", cert: str = "", key: str = "", *, is_checked: bool = True) -> ssl.SSLContext:
    """TLS for a client. root_ca_file: whose certificates it trusts ("": the system's). cert, key: its own, PEM files.

    is_checked: whether the server must prove its name. Raises OSError (an ssl.SSLError, too) naming nothing: the caller
    names the file.
    """
    context = ssl.create_default_context(cafile=root_ca_file or None)
    if not is_checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert:
        context.load_cert_chain(cert, key or None)
    return context


def node_of(text: str) -> Node:
    """The server at HOST:PORT. Raises ValueError naming the text."""
    host, port = split_address(text)
    if not host or not port:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return Node(host, port)


def url_of(text: str) -> str:
    """The base URL for HOST:PORT, or for an http or https URL. Raises ValueError naming the text."""
    scheme, separator, rest = text.rpartition("://")
    if separator and scheme not in ("http", "https"):
        raise ValueError(f"{text!r} is neither HOST:PORT nor an http or https URL")
    address = rest.rstrip("/")
    node_of(address)
    return f"{scheme or 'http'}://{address}"


def checked_addresses(nodes: Sequence[Node], lookup_urls: Sequence[str]) -> None:
    """Raises ValueError unless there is exactly one kind of address."""
    if nodes and lookup_urls:
        raise ValueError("give --nsqd-tcp-address or --lookupd-http-address, not both")
    if not nodes and not lookup_urls:
        raise ValueError(
            "give --nsqd-tcp-address HOST:PORT or --lookupd-http-address HOST:PORT, each as often as needed"
        )
