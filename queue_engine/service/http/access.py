"""Who may talk to the HTTP API: nobody whom a web page in somebody's browser has sent.

The API has no log-in, as nsqd's has none; it listens on loopback. That keeps strangers out, but not a page
that the operator's own browser shows: it may post to 127.0.0.1, or have its own name resolve to it. So a Host
that is not one of ours is refused, and so is what a browser marks as coming from another place.
"""

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from queue_engine.service.http.connection import RequestHead
from queue_engine.service.http.refusals import Refusal


class HostCheck:
    """Which names this server answers to."""

    def __init__(self, names: Iterable[str]) -> None:
        """names: beside the loopback ones and the host's own."""
        self._names = {name.lower().rstrip(".") for name in (*names, "localhost", socket.gethostname()) if name}

    def refusal(self, head: RequestHead) -> Refusal | None:
        """Why a request must not pass; None for one that may."""
        host = None
        if head.host is not None:
            host = _host_of_authority(head.host)
            if host is None or not self._is_ours(host, head.local_host):
                shown = head.host.decode("ascii", "backslashreplace")
                return Refusal(
                    403,
                    "FORBIDDEN_HOST",
                    f"Host {shown} is not a name of this server; if it should be, start it with --allowed-host",
                )
        for name, value in head.headers:
            if name == b"origin" and not _is_same_origin(value, head.host):
                shown = value.decode("ascii", "backslashreplace")
                return Refusal(403, "FORBIDDEN_ORIGIN", f"requests from pages of {shown} are refused")
            # A link from another port of this machine may be followed; it may not post.
            if name == b"sec-fetch-site" and not (
                value in (b"same-origin", b"none") or (value == b"same-site" and head.method == "GET")
            ):
                return Refusal(403, "FORBIDDEN_ORIGIN", "requests from pages of other sites are refused")
        return None

    def _is_ours(self, host: str, local_host: str) -> bool:
        if host in self._names:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        # A page can make its own name resolve to our address, but its browser then sends that name: the
        # very address that the connection came to is no one else's.
        return address.is_loopback or host == local_host


def _host_of_authority(authority: bytes) -> str | None:
    """The host of HOST, HOST:PORT or [HOST]:PORT in lower case; None when it is none of these."""
    try:
        parts = urlsplit("//" + authority.decode("ascii"))
        _ = parts.port  # raises when it is no number
    except ValueError:
        return None
    if parts.username is not None or parts.path or parts.query or parts.fragment or not parts.hostname:
        return None
    return parts.hostname.rstrip(".")


def _is_same_origin(origin: bytes, host: bytes | None) -> bool:
    scheme, separator, authority = origin.partition(b"://")
    return bool(separator) and scheme in (b"http", b"https") and authority.lower() == (host or b"").lower()
