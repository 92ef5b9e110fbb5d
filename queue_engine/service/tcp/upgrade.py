"""Puts the layers that IDENTIFY has agreed on between a session and its socket, in nsqd's order.

    the answer to IDENTIFY, in plain ─► TLS handshake ─► OK ─► snappy or deflate ─► OK

Each OK is the first frame inside its layer. Bytes behind IDENTIFY belong to the next layer, so nothing
that came before TLS is taken for a command inside of it.
"""

import asyncio
import ssl
from typing import Protocol

from queue_engine.service.layers.compression_layer import CompressionLayer, Pace
from queue_engine.service.layers.tls_layer import HANDSHAKE_TIMEOUT_MS, TlsLayer
from queue_engine.service.tls.server_context import TlsState
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.wire.protocol import frames
from queue_engine.wire.protocol.compression import Decoder, Encoder
from queue_engine.wire.protocol.deflate_codec import DeflateDecoder, DeflateEncoder
from queue_engine.wire.protocol.features import Features


class LayeredConnection(Pace, Protocol):
    """The session, which gets another transport, and paces its layers."""

    def upgraded(self, transport: asyncio.Transport, tls: TlsState | None) -> None:
        """Read and write through `transport` from now on; its layers are complete, and each OK is written."""
        ...

    def upgrade_failed(self, reason: str) -> None:
        """The handshake failed. The socket's transport is the session's again."""
        ...


class Upgrade:
    """One connection's way from its socket's transport to the topmost layer."""

    def __init__(
        self,
        session: asyncio.Protocol,
        connection: LayeredConnection,
        transport: asyncio.Transport,
        features: Features,
        context: ssl.SSLContext | None,
        now_ns: int,
    ) -> None:
        self._session = session
        self._connection = connection
        self._socket = transport
        self._features = features
        self._context = context
        self._began_ns = now_ns
        self._tls: TlsLayer | None = None

    def begin(self, rest: bytes) -> None:
        """rest: the bytes behind IDENTIFY."""
        if self._features.tls:
            assert self._context is not None
            lowest: asyncio.Protocol
            self._tls = lowest = TlsLayer(
                self._socket, self._session, self._context, on_done=self._tls_done, on_failed=self._failed
            )
            self._tls.insert()
        else:
            lowest = self._compress(self._socket, None)
        if rest:
            lowest.data_received(rest)

    def is_late(self, now_ns: int) -> bool:
        """Whether the handshake takes longer than HANDSHAKE_TIMEOUT_MS."""
        return now_ns - self._began_ns > HANDSHAKE_TIMEOUT_MS * NS_PER_MS

    def _tls_done(self) -> None:
        tls = self._tls
        assert tls is not None
        tls.write(frames.OK)
        state = TlsState.of(tls.tls)
        if self._features.snappy or self._features.deflate:
            self._compress(tls, state)
        else:
            self._connection.upgraded(tls, state)

    def _compress(self, below: asyncio.Transport, tls: TlsState | None) -> CompressionLayer:
        features = self._features
        encoder: Encoder
        decoder: Decoder
        if features.snappy:
            # Here, with its library: a start waits for neither.
            from queue_engine.wire.protocol.snappy_codec import SnappyDecoder, SnappyEncoder

            encoder, decoder = SnappyEncoder(), SnappyDecoder()
        else:
            encoder, decoder = DeflateEncoder(features.deflate_level), DeflateDecoder()
        layer = CompressionLayer(below, self._session, encoder, decoder, self._connection)
        layer.insert()
        layer.write(frames.OK)
        self._connection.upgraded(layer, tls)
        return layer

    def _failed(self, reason: str) -> None:
        self._socket.set_protocol(self._session)
        self._connection.upgrade_failed(reason)
