"""The identity of clients beyond loopback: auth servers, and access without tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary.options.addresses import auth_url
from queue_engine.vocabulary.options.option import OptionGroup, option


@dataclass(frozen=True, init=False, repr=False, eq=False)
class IdentityOptions(OptionGroup):
    """Identity: auth servers, and access without tokens."""

    TITLE = "identity"

    auth_http_address: tuple[str, ...] = option(
        (), "HOST:PORT or URL of an auth server, which grants a client its rights by the secret of its AUTH, as in nsqd"
    )
    auth_http_request_method: str = option(
        "get", "method of requests to auth servers: get or post", choices=("get", "post")
    )
    http_client_connect_timeout_ms: int = option(
        2_000, "how long connecting may take, to an auth server or another node", low=1
    )
    http_client_request_timeout_ms: int = option(
        5_000, "how long an auth server or another node may take to answer", low=1
    )
    allow_anonymous: bool = option(
        False, "clients without a token may do everything, also on addresses that are not loopback"
    )
    allow_plaintext: bool = option(
        False, "tokens and secrets may cross the network without TLS, on addresses that are not loopback"
    )

    def complaints(self) -> Iterator[str]:
        for address in self.auth_http_address:
            try:
                auth_url(address)
            except ValueError as exc:
                yield f"--auth-http-address: {exc}"
