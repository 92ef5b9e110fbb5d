"""TLS for the console's connections, with the certificate of the HTTPS API; no client needs one, since users log in."""

from dataclasses import dataclass
from typing import Any, cast

from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLContextFactory
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from queue_engine.service.tls.replaceable import MadeOfFiles
from queue_engine.service.tls.server_context import check_readable
from queue_engine.service.tls.validity import CertificateWatch, Validity, read_validity
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.options.options import Options

_VERSIONS = {
    "tls1.0": SSL.TLS1_VERSION,
    "tls1.1": SSL.TLS1_1_VERSION,
    "tls1.2": SSL.TLS1_2_VERSION,
    "tls1.3": SSL.TLS1_3_VERSION,
}
_NO_RENEGOTIATION = 0x40000000  # OpenSSL's SSL_OP_NO_RENEGOTIATION


@implementer(IOpenSSLContextFactory)
class ConsoleCertificate:
    """Hands Twisted the context. watch: looks after it, on the console's loop."""

    def __init__(self, options: Options) -> None:
        def make() -> _Served:
            check_readable(options)
            return _Served(_context(options), read_validity(options.tls_cert))

        self._files = MadeOfFiles((options.tls_cert, options.tls_key), make, subject="the console's certificate")
        # The engine warns of the same file.
        self.watch = CertificateWatch(self._files, ("console",), SystemClock(), warns=False)

    def getContext(self) -> SSL.Context:
        return self._files.current().context

    def read_again(self) -> None:
        self._files.read_again()
        self.watch.look()


@dataclass(frozen=True, slots=True)
class _Served:
    context: SSL.Context
    validity: Validity | None


def _context(options: Options) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(_VERSIONS[options.tls_min_version])
    context.set_options(SSL.OP_NO_COMPRESSION | _NO_RENEGOTIATION)
    context.use_certificate_chain_file(options.tls_cert)
    context.use_privatekey_file(options.tls_key)
    context.check_privatekey()
    return context


def inside_tls(factory: Any, certificate: ConsoleCertificate) -> Any:
    """A factory whose connections speak TLS, each around one of `factory`. The engine has checked the files."""
    return TLSMemoryBIOFactory(cast(Any, certificate), False, factory)
