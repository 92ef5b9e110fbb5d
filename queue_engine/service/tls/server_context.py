"""TLS of the server from the options: one certificate for NSQ clients, the HTTPS API and the console."""

import ssl
import warnings
from dataclasses import dataclass
from typing import cast

from queue_engine.service.tls.replaceable import MadeOfFiles
from queue_engine.service.tls.validity import Validity, read_validity
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.options import Options

_VERSIONS = {
    "tls1.0": ssl.TLSVersion.TLSv1,
    "tls1.1": ssl.TLSVersion.TLSv1_1,
    "tls1.2": ssl.TLSVersion.TLSv1_2,
    "tls1.3": ssl.TLSVersion.TLSv1_3,
}


@dataclass(frozen=True, slots=True)
class ServedCertificate:
    """The context of NSQ clients and the HTTPS API, and how long its certificate is valid; None: it can't be read."""

    context: ssl.SSLContext
    validity: Validity | None


def server_contexts(options: Options) -> MadeOfFiles[ServedCertificate] | None:
    """The contexts of the present files; None without a certificate.

    Raises PenstockError, with a sentence that names the file, for one that can't be used.
    """
    if not options.tls_cert:
        return None
    paths = (options.tls_cert, options.tls_key, options.tls_root_ca_file)

    def make() -> ServedCertificate:
        return ServedCertificate(server_context(options), read_validity(options.tls_cert))

    return MadeOfFiles(paths, make, subject="the certificate of TLS")


def check_readable(options: Options) -> None:
    """Raises PenstockError naming the file of certificate or key that can't be read: OpenSSL does not say which."""
    for name, path in (("--tls-cert", options.tls_cert), ("--tls-key", options.tls_key)):
        try:
            with open(path, "rb") as file:
                file.read(1)
        except OSError as exc:
            raise PenstockError(f"{name} {path} can't be read: {exc.strerror or exc}") from exc


def server_context(options: Options) -> ssl.SSLContext:
    """The same as the files are now, with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of the older versions
        context.minimum_version = _VERSIONS[options.tls_min_version]
    if context.minimum_version < ssl.TLSVersion.TLSv1_2:
        # OpenSSL counts SHA-1, which these versions sign with, as too weak above level 0.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
    # A client that asks for a new handshake within a connection makes the server do ten times its own work.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    check_readable(options)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key, password=_no_password)
    except (OSError, ValueError) as exc:
        raise PenstockError(
            f"--tls-cert {options.tls_cert} and --tls-key {options.tls_key} can't be used: {_why(exc)}"
        ) from exc
    if options.tls_root_ca_file:
        _trust(context, options.tls_root_ca_file)
    elif options.tls_client_auth_policy:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    if options.tls_client_auth_policy:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _trust(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as exc:
        raise PenstockError(f"--tls-root-ca-file {path} can't be used: {_why(exc)}") from exc


def _no_password() -> str:
    raise ValueError("the key is encrypted, and a server has no prompt for its password")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "").replace("_", " ").lower()
        return {
            "key values mismatch": "the key does not belong to the certificate",
            "": "the file is not in PEM form",
        }.get(reason, reason)
    return getattr(error, "strerror", None) or str(error)


@dataclass(frozen=True, slots=True)
class TlsState:
    """A connection's TLS, with the names that nsqd shows. common_name: of the client's certificate, "" without one."""

    cipher_suite: str
    version: str
    common_name: str

    @classmethod
    def of(cls, tls: ssl.SSLObject) -> "TlsState":
        cipher = tls.cipher()
        certificate = tls.getpeercert() or {}
        # `ssl` has other types for other keys.
        subject = cast(tuple[tuple[tuple[str, str], ...], ...], certificate.get("subject", ()))
        names = [value for part in subject for key, value in part if key == "commonName"]
        version = (tls.version() or "").replace("TLSv", "TLS")
        return cls(
            cipher_suite=standard_name(cipher[0]) if cipher else "",
            version="TLS1.0" if version == "TLS1" else version,
            common_name=names[-1] if names else "",
        )


def standard_name(name: str) -> str:
    """A cipher suite's name as its RFC has it, which nsqd shows, from OpenSSL's: `ECDHE-RSA-AES128-GCM-SHA256` →
    `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`."""
    if name.startswith("TLS_"):
        return name  # TLS 1.3
    parts = name.split("-")
    exchange: list[str] = []
    while parts and parts[0] in ("ECDHE", "DHE", "RSA", "ECDSA", "PSK", "DSS"):
        exchange.append(parts.pop(0))
    text = "_".join(parts).replace("AES128", "AES_128").replace("AES256", "AES_256")
    if text.endswith("POLY1305"):
        text += "_SHA256"
    elif "GCM" not in text and "CCM" not in text:
        cipher, _, digest = text.rpartition("_")
        text = f"{cipher}_CBC_{digest}"
    return f"TLS_{'_'.join(exchange) or 'RSA'}_WITH_{text}"
