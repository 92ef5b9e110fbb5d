"""Accepts X-Forwarded-For, -Proto and -Host from trusted proxies only."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from queue_engine.vocabulary.client_key import TrustedAddresses

Scope = dict[str, Any]
Application = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

_FORWARDED = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port", b"forwarded")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?")
_SCHEMES = {
    ("http", "http"): "http",
    ("http", "https"): "https",
    ("websocket", "http"): "ws",
    ("websocket", "https"): "wss",
    ("websocket", "ws"): "ws",
    ("websocket", "wss"): "wss",
}


class TrustedProxies:
    """Around the whole ASGI application, so that pages and sockets see the same client, scheme and host.

    From all but trusted proxies the headers are taken off before anything can read them, and from all of them those of
    the same names with an underscore, which proxies pass on and programs mistake. user_header: the one with the user's
    name, "" for none.
    """

    def __init__(self, application: Application, addresses: TrustedAddresses, user_header: str = "") -> None:
        self._application = application
        self._addresses = addresses
        self._user_header = user_header.lower().encode()

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] in ("http", "websocket"):
            scope = self._believed(scope)
        await self._application(scope, receive, send)

    def _believed(self, scope: Scope) -> Scope:
        forwarded = {
            name: b",".join(value for key, value in scope["headers"] if key == name).decode("latin-1")
            for name in _FORWARDED
        }
        headers = [(key, value) for key, value in scope["headers"] if not self._is_of_proxies(key)]
        changed = {**scope, "headers": headers}
        client = scope.get("client")
        if not client or not self._addresses.has(client[0]):
            if self._user_header:
                changed["headers"] = [(key, value) for key, value in headers if key != self._user_header]
            return changed
        if address := self._addresses.client_of(forwarded[b"x-forwarded-for"]):
            changed["client"] = [address, 0]
        scheme = _last(forwarded[b"x-forwarded-proto"]).lower()
        if plain_scheme := _SCHEMES.get((scope["type"], scheme)):
            changed["scheme"] = plain_scheme
        host = _last(forwarded[b"x-forwarded-host"])
        if _HOST.fullmatch(host):
            changed["headers"] = [(key, value) for key, value in headers if key != b"host"]
            changed["headers"].append((b"host", host.encode("latin-1")))
        return changed

    def _is_of_proxies(self, key: bytes) -> bool:
        """Whether it is a header that is read here alone, or one that could be mistaken for the user's."""
        meant = key.replace(b"_", b"-")
        return meant in _FORWARDED or (meant != key and meant == self._user_header)


def _last(text: str) -> str:
    """The value that the nearest proxy wrote."""
    return text.rpartition(",")[2].strip()
