"""A raw client that speaks TLS, snappy and deflate, with the libraries that Python's NSQ clients use."""

import json
import ssl
import zlib
from typing import Any, Protocol

import snappy

from tests.support.nsq_socket import NsqSocket


class _Compressor(Protocol):
    def compress(self, data: bytes) -> bytes: ...


class LayeredSocket(NsqSocket):
    """One connection. `negotiate` puts the layers on that the server agrees to."""

    _compressor: _Compressor | None = None
    _flush: int | None = None
    _decompressor: Any = None
    received_bytes = 0  # of what the layers are made of, below a compression

    def negotiate(self, context: ssl.SSLContext | None = None, **fields: Any) -> dict[str, Any]:
        """IDENTIFY with these fields and, with `context`, TLS; the answer. Each layer's OK is checked."""
        answer = self.identify(feature_negotiation=True, tls_v1=context is not None, **fields)
        if answer["tls_v1"]:
            assert context is not None
            self.begin_tls(context)
            self.expect_ok()
        if answer["snappy"]:
            self._begin(snappy.StreamCompressor(), snappy.StreamDecompressor())
            self.expect_ok()
        if answer["deflate"]:
            self.begin_deflate(answer["deflate_level"])
            self.expect_ok()
        assert isinstance(answer, dict)
        return answer

    def ask_for(self, **fields: Any) -> dict[str, Any]:
        """IDENTIFY with these fields; the answer, and no layer."""
        answer = self.identify(feature_negotiation=True, **fields)
        assert isinstance(answer, dict), json.dumps(answer)
        return answer

    def begin_tls(self, context: ssl.SSLContext) -> None:
        assert not self._received, "the handshake is the client's to begin"
        self._socket = context.wrap_socket(self._socket, server_hostname="localhost")

    def begin_deflate(self, level: int) -> None:
        self._flush = zlib.Z_SYNC_FLUSH
        self._begin(zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS), zlib.decompressobj(-zlib.MAX_WBITS))

    def _begin(self, compressor: _Compressor, decompressor: Any) -> None:
        self._compressor, self._decompressor = compressor, decompressor
        if self._received:  # the OK may have come with the answer to IDENTIFY
            self._received = decompressor.decompress(self._received)

    @property
    def tls(self) -> ssl.SSLSocket:
        assert isinstance(self._socket, ssl.SSLSocket)
        return self._socket

    def send_below(self, data: bytes) -> None:
        """Send bytes below the compression, inside TLS."""
        self._socket.sendall(data)

    def send(self, data: bytes) -> None:
        if self._compressor is not None:
            data = self._compressor.compress(data)
            if self._flush is not None:
                data += self._compressor.flush(self._flush)  # type: ignore[attr-defined]
        super().send(data)

    def _receive(self) -> bytes | None:
        data = super()._receive()
        self.received_bytes += len(data or b"")
        if data is None or self._decompressor is None:
            return data
        found: bytes = self._decompressor.decompress(data)
        return found
