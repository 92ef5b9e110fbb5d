"""Certificates for tests: an authority, what it issues for a server and for clients, and a stranger's. Valid a day."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CLIENT_NAME = "a-client"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates into `directory`. certificate: its own, PEM, for those who are to trust it."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = _builder(self._name, self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        made = made.add_extension(_SIGNS_CERTIFICATES, critical=True)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        self.certificate = directory / f"{name}.pem"
        self.certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, *, hosts: tuple[str, ...] = (), valid_for: datetime.timedelta = datetime.timedelta(days=1)
    ) -> Pair:
        """A certificate with this common name; `hosts` are the names and addresses of a server that has it. valid_for:
        from now on; less than nothing for one that has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = _builder(subject, self._name, key.public_key(), valid_for)
        # Python 3.13 and later refuse a certificate without it.
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = made.add_extension(issuer, critical=False)
        if hosts:
            made = made.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False)
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        signed = made.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        pair.key.chmod(0o600)
        return pair


@dataclass(frozen=True)
class Certificates:
    """What a test session has. authority: issued `server` (for loopback) and `client`; stranger: issued
    `stranger_client`, and nothing trusts it."""

    authority: Authority
    server: Pair
    client: Pair
    stranger: Authority
    stranger_client: Pair

    @classmethod
    def make(cls, directory: Path) -> "Certificates":
        authority = Authority(directory, "authority")
        stranger = Authority(directory, "stranger")
        return cls(
            authority,
            authority.issue("a-server", hosts=LOOPBACK),
            authority.issue(CLIENT_NAME),
            stranger,
            stranger.issue("stranger-client"),
        )

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """Trusts the server's authority, and presents `pair` if given."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context

    @property
    def server_context(self) -> ssl.SSLContext:
        """Presents the server's certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.server.certificate, self.server.key)
        return context

    @property
    def server_options(self) -> list[str]:
        """Options of `serve` with which it has the server's certificate."""
        pair = self.server
        return ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key), "--https-address", "127.0.0.1:0"]


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    valid_for: datetime.timedelta = datetime.timedelta(days=1),
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=10))
        .not_valid_after(now + valid_for)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
