"""Refuses requests that web pages of other origins send through the operator's browser.

The API has no log-in, as nsqd's has none, and listens on loopback by default. That keeps strangers out, but not a web
page in the operator's browser: it may post to 127.0.0.1, or have its own name resolve to that address (DNS rebinding).
So the check refuses a Host that is not a name of this server, and a request that the browser marks as coming from
another origin.

Publishers use names that the server does not have: a CNAME, a virtual address, a published port of a container. The
daemon takes any Host where no browser can be the client: browsers send Origin with every request but GET and HEAD.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.refusals import Refusal
from queue_engine.service.http.rules import PATHS
from queue_engine.vocabulary.host_names import HostNames

# A page can't have these names as its own: they lead to the visitor's own machine, or exist inside of a cluster alone.
_LOCAL_NAMES = ("localhost", "*.localhost", "host.docker.internal", "host.containers.internal", "*.svc.cluster.local")

FORBIDDEN_HOST = "FORBIDDEN_HOST"
FORBIDDEN_ORIGIN = "FORBIDDEN_ORIGIN"
_MARKS_OF_BROWSERS = (b"origin", b"sec-fetch-site")


class HostCheck:
    """Checks a request's Host, Origin and Sec-Fetch-Site headers."""

    def __init__(
        self,
        broadcast_address: str,
        allowed: Iterable[str],
        *,
        has_token: Callable[[RequestHead], bool],
        takes_any_host: bool,
    ) -> None:
        """broadcast_address: this server's name; its first label is a name, too, as in a cluster's short names.
        allowed: further names and patterns (`HostNames`), beside the host's own name; with "*" any Host passes, and the
        other checks go on. has_token: whether a request has a token that the server knows, which no page of another
        site has: then any Host passes, too. takes_any_host: whether any Host passes where no browser sends the request,
        and on the paths that have `any_host` in `rules.py`."""
        own = (broadcast_address, socket.gethostname())
        labels = [name.partition(".")[0] for name in own if not _is_address(name)]
        self._names = HostNames((*_LOCAL_NAMES, *own, *labels, *allowed))
        self._has_token = has_token
        self._takes_any_host = takes_any_host

    def refusal(self, head: RequestHead) -> Refusal | None:
        """The refusal of a request from elsewhere; None for a request that may pass."""
        if head.host is not None and not self._names.is_any:
            host = _host_of_authority(head.host)
            is_ours = host is not None and self._is_ours(host, head.local_host)
            if not is_ours and not self._may_have_any_host(head) and not self._has_token(head):
                shown = head.host.decode("ascii", "backslashreplace")
                return Refusal(
                    403,
                    FORBIDDEN_HOST,
                    f"Host {shown} is not a name of this server; if it should be, start it with --broadcast-address "
                    "or --allowed-host",
                )
        for name, value in head.headers:
            if name == b"origin" and not _is_same_origin(value, head.host):
                shown = value.decode("ascii", "backslashreplace")
                return Refusal(403, FORBIDDEN_ORIGIN, f"requests from pages of {shown} are refused")
            # A page on another port of this machine may link here, but not post.
            if name == b"sec-fetch-site" and not (
                value in (b"same-origin", b"none") or (value == b"same-site" and head.method == "GET")
            ):
                return Refusal(403, FORBIDDEN_ORIGIN, "requests from pages of other sites are refused")
        return None

    def _may_have_any_host(self, head: RequestHead) -> bool:
        if not self._takes_any_host or any(head.header(mark) is not None for mark in _MARKS_OF_BROWSERS):
            return False
        path = PATHS.get(head.route)
        return head.method not in ("GET", "HEAD") or (path is not None and path.any_host)

    def _is_ours(self, host: str, local_host: str) -> bool:
        if self._names.has(host):
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        # A page can make its own name resolve to our address, but its browser then sends that name as Host. The
        # address that the connection came to is our own.
        return address.is_loopback or host == local_host


def _host_of_authority(authority: bytes) -> str | None:
    """The host of HOST, HOST:PORT or [HOST]:PORT in lower case; None for another form."""
    try:
        parts = urlsplit("//" + authority.decode("ascii"))
        _ = parts.port  # raises ValueError for a port that is no number
    except ValueError:
        return None
    if parts.username is not None or parts.path or parts.query or parts.fragment or not parts.hostname:
        return None
    return parts.hostname.rstrip(".")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_same_origin(origin: bytes, host: bytes | None) -> bool:
    scheme, separator, authority = origin.partition(b"://")
    return bool(separator) and scheme in (b"http", b"https") and authority.lower() == (host or b"").lower()
