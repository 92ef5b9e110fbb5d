"""TLS from a connection's first byte, as on HTTPS: whatever protocol it is has a TLS layer for its transport."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from queue_engine.service.layers.tls_layer import HANDSHAKE_TIMEOUT_MS, TlsLayer


def tls_first(
    make_protocol: Callable[[], asyncio.Protocol], context: Callable[[], ssl.SSLContext]
) -> Callable[[], asyncio.Protocol]:
    """Makes the protocol of each new connection: one that `make_protocol` makes, inside TLS of the context of now.

    It is told of its connection before the handshake, so that limits and deadlines hold from the first moment. A
    handshake that takes longer than HANDSHAKE_TIMEOUT_MS is cut.
    """
    return lambda: _TlsEntry(make_protocol(), context())


class _TlsEntry(asyncio.Protocol):
    """Stands in for the protocol until the connection is there."""

    def __init__(self, above: asyncio.Protocol, context: ssl.SSLContext) -> None:
        self._above = above
        self._context = context

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        layer = TlsLayer(cast(asyncio.Transport, transport), self._above, self._context)
        layer.insert()
        asyncio.get_running_loop().call_later(HANDSHAKE_TIMEOUT_MS / 1000, _cut_if_stalled, layer)
        self._above.connection_made(layer)


def _cut_if_stalled(layer: TlsLayer) -> None:
    if not layer.is_done:
        layer.abort()
