"""TLS and compression of connections, under nsqd's names."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary.options.addresses import split_address
from queue_engine.vocabulary.options.option import OptionGroup, option

TLS_NOT_REQUIRED = "false"
TLS_REQUIRED = "true"
TLS_REQUIRED_EXCEPT_HTTP = "tcp-https"
TLS_VERSIONS = ("tls1.0", "tls1.1", "tls1.2", "tls1.3")


@dataclass(frozen=True, init=False, repr=False, eq=False)
class WireOptions(OptionGroup):
    """TLS and compression."""

    TITLE = "TLS and compression"

    tls_cert: str = option("", "file with the server's certificate and those between it and its authority, PEM")
    tls_key: str = option("", "file with the certificate's key, PEM, without a password")
    https_address: str = option("127.0.0.1:4152", "HOST:PORT of the HTTP API with TLS, served with --tls-cert")
    tls_required: str = option(
        TLS_NOT_REQUIRED,
        "clients must use TLS: true (NSQ and HTTP), or tcp-https (NSQ alone)",
        choices=(TLS_NOT_REQUIRED, TLS_REQUIRED, TLS_REQUIRED_EXCEPT_HTTP),
    )
    tls_client_auth_policy: str = option(
        "",
        "clients of NSQ and HTTPS must have a certificate that --tls-root-ca-file has issued (both words mean it)",
        choices=("", "require", "require-verify"),
    )
    tls_root_ca_file: str = option("", "file with the authorities of clients' certificates, PEM (default: the system)")
    # Older versions are broken, and OpenSSL's own default refuses them.
    tls_min_version: str = option("tls1.2", "oldest TLS version", choices=TLS_VERSIONS)
    snappy: bool = option(True, "clients may request snappy compression")
    deflate: bool = option(True, "clients may request deflate compression")
    max_deflate_level: int = option(6, "highest deflate level that a client gets", low=1, high=9)

    @property
    def has_tls(self) -> bool:
        """Whether there is a certificate."""
        return bool(self.tls_cert)

    @property
    def is_tls_required(self) -> bool:
        """Whether an NSQ client must use TLS; one that must have a certificate must."""
        return self.tls_required != TLS_NOT_REQUIRED or bool(self.tls_client_auth_policy)

    @property
    def is_https_required(self) -> bool:
        """Whether the HTTP API answers over TLS alone. As in nsqd, a client-auth policy is enough for that, unless
        --tls-required says tcp-https."""
        return self.is_tls_required and self.tls_required != TLS_REQUIRED_EXCEPT_HTTP

    @property
    def tls_required_number(self) -> int:
        """nsqd's: a policy for clients' certificates makes it 2."""
        if self.tls_required == TLS_REQUIRED_EXCEPT_HTTP:
            return 1
        return 2 if self.is_tls_required else 0

    @property
    def tls_min_version_number(self) -> int:
        """As TLS itself writes it: 0x301 for 1.0."""
        return 0x301 + TLS_VERSIONS.index(self.tls_min_version)

    def complaints(self) -> Iterator[str]:
        if bool(self.tls_cert) != bool(self.tls_key):
            given, missing = ("--tls-cert", "--tls-key") if self.tls_cert else ("--tls-key", "--tls-cert")
            yield f"{given} is given without {missing}: a certificate needs its key"
        if not self.tls_cert:
            for flag, is_set in (
                (f"--tls-required {self.tls_required}", self.tls_required != TLS_NOT_REQUIRED),
                (f"--tls-client-auth-policy {self.tls_client_auth_policy}", bool(self.tls_client_auth_policy)),
            ):
                if is_set:
                    yield f"{flag} needs --tls-cert and --tls-key"
        try:
            split_address(self.https_address)
        except ValueError as exc:
            yield f"--https-address: {exc}"
