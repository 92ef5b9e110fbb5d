"""Lets only our own pages open sockets, and only those that the permission table names.

Browsers send cookies with a socket from any site's page, so only the origin distinguishes our pages from others. It is
compared with the port: another service on the same machine is another origin.
"""

from collections.abc import Awaitable, Callable, Container
from typing import Any
from urllib.parse import urlsplit

from django.http.request import split_domain_port, validate_host

from admin_console.audit.record import hand_over_refused_socket
from admin_console.security.proxy import Application, Scope

_DEFAULT_PORTS = {"http": 80, "https": 443}


class SameOriginSockets:
    """Refuses (HTTP 403) a socket of a foreign origin, a foreign host, or a path without a rule."""

    def __init__(
        self,
        application: Application,
        *,
        paths: Container[str],
        origin: str,
        allowed_hosts: list[str],
        speaks_tls: bool = False,
    ) -> None:
        """speaks_tls: the server itself does; Daphne does not report whether a socket came by TLS."""
        self._scheme = "wss" if speaks_tls else "ws"
        self._application = application
        self._paths = paths
        self._origin = origin
        self._allowed_hosts = allowed_hosts

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["path"] in self._paths:
            if self._is_ours(scope):
                await self._application(scope, receive, send)
                return
            client = scope.get("client") or ("", 0)
            hand_over_refused_socket(str(client[0]), scope["path"], _header(scope, b"origin"))
        await receive()
        await send({"type": "websocket.close", "code": 4403})

    def _is_ours(self, scope: Scope) -> bool:
        origin, host = _header(scope, b"origin"), _header(scope, b"host")
        domain, _ = split_domain_port(host)
        if not domain or not validate_host(domain, self._allowed_hosts):
            return False
        if self._origin and origin.lower() == self._origin:
            return True
        scheme = "https" if scope.get("scheme", self._scheme) in ("wss", "https") else "http"
        return _place(origin) is not None and _place(origin) == _place(f"{scheme}://{host}")


def _header(scope: Scope, name: bytes) -> str:
    """The last header of this name; "" where there is none."""
    return next((value.decode("latin-1") for key, value in reversed(scope["headers"]) if key == name), "")


def _place(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an origin, the usual port filled in; None when it is none."""
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or _DEFAULT_PORTS[parts.scheme]
