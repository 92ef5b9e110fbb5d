"""Where the server listens and lives, how it writes its log lines, how it stops."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.client_key import TrustedAddresses
from queue_engine.vocabulary.host_names import is_host_pattern
from queue_engine.vocabulary.options.addresses import is_socket_path, split_address
from queue_engine.vocabulary.options.option import OptionGroup, flag_of, option


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ServerOptions(OptionGroup):
    """Addresses, directory, log lines."""

    TITLE = "addresses, directory, log lines"

    tcp_address: str = option("127.0.0.1:4150", "HOST:PORT for NSQ clients (port 0: a free one), or /PATH of a socket")
    http_address: str = option(
        "127.0.0.1:4151", "HOST:PORT for the HTTP API (port 0: a free one), or /PATH of a socket"
    )
    data_path: str = option(".penstock", "directory of queues, topology, users and keys")
    broadcast_address: str = option("", "the name other machines reach this one by (default: the host name)")
    allowed_host: tuple[str, ...] = option(
        (),
        "a further Host name that the HTTP API and the console accept, or *.DOMAIN for all below it; * alone turns the "
        "HTTP API's check of Host off",
    )
    trusted_proxy: tuple[str, ...] = option(
        (),
        "IP address or network (10.0.0.0/8) of a proxy whose X-Forwarded-For, and in the console -Proto and -Host, are "
        "believed",
    )
    log_level: str = option(
        log_lines.LEVEL_DEFAULT,
        "least level of the log lines on standard error: debug, info, warning or error",
        choices=log_lines.LEVELS,
    )
    log_format: str = option(
        log_lines.FORMAT_DEFAULT,
        "form of those lines: text, or json (an object a line, the lines of the start included)",
        choices=log_lines.FORMATS,
    )
    node_id: int = option(-1, "part of every message id, 0 to 1023 (default: from the host name)", low=-1, high=1023)

    def complaints(self) -> Iterator[str]:
        for name in ("tcp_address", "http_address"):
            if is_socket_path(getattr(self, name)):
                continue
            try:
                split_address(getattr(self, name))
            except ValueError as exc:
                yield f"{flag_of(name)}: {exc}"
        for host in self.allowed_host:
            if not is_host_pattern(host):
                yield f"--allowed-host: {host!r} is not a host name"
        try:
            TrustedAddresses.parse(self.trusted_proxy)
        except ValueError as exc:
            yield from str(exc).splitlines()


@dataclass(frozen=True, init=False, repr=False, eq=False)
class AccessOptions(OptionGroup):
    """Access over HTTP; how long a stop goes on trying."""

    TITLE = "access and stopping"

    http_token: str = option(
        "", "HTTP requests that read bodies, publish or change anything need Authorization: Bearer TOKEN"
    )
    # A file can be replaced while the server runs; the environment and the command line can't.
    http_token_file: str = option(
        "", "the token of --http-token is the first line of FILE; a new one counts within a second, and after SIGHUP"
    )

    stop_timeout_ms: int = option(
        60_000, "how long a stop goes on trying while the disk refuses and nothing advances", low=0
    )

    @property
    def has_http_token(self) -> bool:
        """Whether there is one, in the options or in a file."""
        return bool(self.http_token or self.http_token_file)

    def complaints(self) -> Iterator[str]:
        if self.http_token and self.http_token_file:
            yield "--http-token and --http-token-file are both given: the token is one or the other"
