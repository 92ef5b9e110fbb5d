"""Listeners that need no secret or have no TLS: the sentences with which `serve` refuses, and the daemon warns.

A listener on loopback is open to programs of this machine alone, which is no matter here.
"""

from collections.abc import Iterator

from queue_engine.vocabulary.options.addresses import is_loopback, split_address
from queue_engine.vocabulary.options.options import Options

_TCP = "publish to any topic and consume and finish any channel's messages"
_HTTP = "publish to any topic, and empty and delete any topic and channel"
_WAYS = (
    "Make a token (penstock token create), name an auth server (--auth-http-address), listen on loopback, or open it "
    "on purpose with --allow-anonymous"
)
_HTTP_WAYS = (
    "Make a token (penstock token create), set PENSTOCK_HTTP_TOKEN, listen on loopback, or open it on purpose with "
    "--allow-anonymous"
)
_PLAIN_WAYS = (
    "Encrypt it with --tls-cert, --tls-key and --tls-required (HTTP: --https-address), listen on loopback, or allow it "
    "on purpose with --allow-plaintext"
)


def complaints(options: Options, *, has_tokens: bool) -> list[str]:
    """Why `serve` must not start, each a sentence without its point with the options that open it on purpose; [] where
    nothing is open by accident. has_tokens: whether there is a file of tokens."""
    found = []
    opened = dict(_open(options, has_tokens=has_tokens))
    if opened and not options.allow_anonymous:
        ways = _WAYS if "--tcp-address" in opened else _HTTP_WAYS
        places = "; and ".join(f"{flag} {_value(options, flag)} could {harm}" for flag, harm in opened.items())
        found.append(f"every stranger who reaches {places}. {ways}")
    plain = list(_plain(options, has_tokens=has_tokens))
    if plain and not options.allow_plaintext:
        places = " and ".join(f"{flag} {_value(options, flag)}" for flag in plain)
        found.append(f"tokens would cross the network unencrypted at {places}. {_PLAIN_WAYS}")
    return found


def warning(options: Options, *, has_tokens: bool) -> str:
    """Open and unencrypted listeners, as one line for the log of a server that listens on purpose; "" for
    nothing."""
    opened = [
        f"strangers who reach {flag} {_value(options, flag)} can {harm}"
        for flag, harm in _open(options, has_tokens=has_tokens)
    ]
    plain = [
        f"tokens cross the network unencrypted at {flag} {_value(options, flag)}"
        for flag in _plain(options, has_tokens=has_tokens)
    ]
    return "; ".join((*opened, *plain))


def _open(options: Options, *, has_tokens: bool) -> Iterator[tuple[str, str]]:
    """Each listener that needs no secret, by its flag, and the harm that clients can do there."""
    if _is_reached(options.tcp_address) and (options.allow_anonymous or not (has_tokens or options.auth_http_address)):
        yield "--tcp-address", _TCP
    # HTTP does not use nsqd's auth servers.
    if not options.has_http_token and (options.allow_anonymous or not has_tokens):
        for flag in _http_listeners(options):
            yield flag, _HTTP


def _plain(options: Options, *, has_tokens: bool) -> Iterator[str]:
    """The flag of each listener where secrets are given and not encrypted."""
    has_secrets = has_tokens or options.auth_http_address
    if has_secrets and _is_reached(options.tcp_address) and not options.is_tls_required:
        yield "--tcp-address"
    if (has_tokens or options.has_http_token) and "--http-address" in _http_listeners(options):
        yield "--http-address"


def _http_listeners(options: Options) -> list[str]:
    """The flags of the HTTP API's listeners that answer other machines."""
    found = []
    if _is_reached(options.http_address) and not options.is_https_required:
        found.append("--http-address")
    if options.has_tls and _is_reached(options.https_address):
        found.append("--https-address")
    return found


def _value(options: Options, flag: str) -> str:
    return str(getattr(options, flag.removeprefix("--").replace("-", "_")))


def _is_reached(address: str) -> bool:
    """Whether other machines may reach it."""
    try:
        return not is_loopback(split_address(address)[0])
    except ValueError:
        return False  # a path: a unix socket
