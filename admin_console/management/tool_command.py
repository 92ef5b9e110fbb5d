"""The base of the commands that are clients of servers: their addresses, and their run."""

import math
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from admin_console.management.command import PlainCommand
from admin_console.vocabulary.variables import AUTH_SECRET
from queue_engine.client.connection import RefusedError
from queue_engine.client.secret_hosts import SecretHosts
from queue_engine.client.tools.connecting import Connecting, checked_addresses, node_of, tls_context, url_of
from queue_engine.client.tools.retries import ATTEMPTS_MAX, BACKOFF_S_MAX, UNCLEAR_AS_OFTEN
from queue_engine.client.tools.running import Stopping, run_tool
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.names import NAME_LENGTH_MAX, is_valid_name
from queue_engine.vocabulary.options.durations import parse_duration_ms


class ToolCommand(PlainCommand):
    """A command that is a client of other servers. It needs no data directory."""

    def add_tls_arguments(self, parser: ArgumentParser) -> None:
        """TLS, and our credentials."""
        parser.add_argument(
            "--tls", action="store_true", help="connect by TLS, to servers that have it and to no other"
        )
        parser.add_argument(
            "--tls-root-ca-file", metavar="FILE", help="trust the authorities in FILE, and not the system's"
        )
        parser.add_argument("--tls-cert", metavar="FILE", help="our own certificate, PEM")
        parser.add_argument("--tls-key", metavar="FILE", help="its key, PEM (default: it is in --tls-cert)")
        parser.add_argument(
            "--tls-insecure-skip-verify", action="store_true", help="accept any certificate of a server"
        )
        parser.add_argument(
            "--auth-secret-file",
            metavar="FILE",
            help=f"the secret for AUTH, and the token for HTTP, is FILE's first line (default: ${AUTH_SECRET})",
        )

    def add_consumer_arguments(self, parser: ArgumentParser, *, channel: str) -> None:
        """Where messages come from. channel: the default; "" for one that is required."""
        channel_help = f"(default: {channel})" if channel and "#" not in channel else "which channel is received"
        parser.add_argument(
            "--nsqd-tcp-address", metavar="HOST:PORT", action="append", type=_argument(node_of), default=[],
            help="of a server; repeat it for several",
        )  # fmt: skip
        parser.add_argument(
            "--lookupd-http-address", metavar="HOST:PORT", action="append", type=_argument(url_of), default=[],
            help="of an nsqlookupd that lists the servers, instead; repeat it for several",
        )  # fmt: skip
        self.add_secret_hosts_argument(parser)
        parser.add_argument(
            "--channel", type=_argument(_channel), default=channel or None, required=not channel, help=channel_help
        )
        parser.add_argument(
            "--max-in-flight",
            metavar="N",
            type=_argument(_at_least(1)),
            default=200,
            help="most messages that are received and not finished (default: 200)",
        )
        parser.add_argument(
            "--msg-timeout",
            metavar="DURATION",
            type=_argument(parse_duration_ms),
            default=0,
            help="after which a message that is not finished comes again (default: the server's)",
        )
        parser.add_argument(
            "--lookupd-poll-interval", metavar="DURATION", type=_argument(parse_duration_ms), default=30_000,
            help="how often nsqlookupds are queried for servers (default: 30s)",
        )  # fmt: skip
        self.add_tls_arguments(parser)

    def add_secret_hosts_argument(self, parser: ArgumentParser) -> None:
        """For commands whose servers nsqlookupds may name."""
        parser.add_argument(
            "--auth-secret-to", metavar="HOST", action="append", default=[],
            help="send the secret without --tls to a server that an nsqlookupd names, too: a name, *.DOMAIN, an "
            "address, a network such as 10.1.0.0/16, or * for all; repeat it for several",
        )  # fmt: skip

    def add_retry_arguments(self, parser: ArgumentParser) -> None:
        """The treatment of messages that a destination does not take."""
        parser.add_argument(
            "--max-attempts",
            metavar="N",
            type=_argument(_at_least(0)),
            default=ATTEMPTS_MAX,
            help="give a message up that was refused so often, or at which a destination failed "
            f"{UNCLEAR_AS_OFTEN} times as often and took others in between; it is logged with its id "
            f"(default: {ATTEMPTS_MAX}, 0: never)",
        )
        parser.add_argument(
            "--max-backoff-duration",
            metavar="DURATION",
            type=_argument(parse_duration_ms),
            default=int(BACKOFF_S_MAX * 1000),
            help="the longest rest between attempts while the destination fails (default: 2m, 0: no rest)",
        )

    def add_progress_argument(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--status-interval", metavar="DURATION", type=_argument(parse_duration_ms), default=10_000,
            help="how often the counts are printed to standard error (default: 10s, 0: only at the end)",
        )  # fmt: skip

    def connecting(self, given: dict[str, Any]) -> Connecting:
        """Raises CommandError with a sentence for addresses and files that won't do."""
        nodes, lookup_urls = given.get("nsqd_tcp_address", []), given.get("lookupd_http_address", [])
        try:
            if "nsqd_tcp_address" in given and "lookupd_http_address" in given:
                checked_addresses(nodes, lookup_urls)
            return Connecting(
                nodes=tuple(nodes),
                lookup_urls=tuple(lookup_urls),
                tls=_tls_of(given),
                auth_secret=_secret_of(given["auth_secret_file"]),
                secret_hosts=SecretHosts(given.get("auth_secret_to", ())),
                msg_timeout_ms=given.get("msg_timeout", 0),
                poll_s=max(given.get("lookupd_poll_interval", 30_000) / 1000, 0.1),
            )
        except ValueError as exc:
            raise CommandError(str(exc)) from exc

    def run(self, work: Callable[[Stopping], Coroutine[Any, Any, Any]]) -> None:
        """Run until `work` is done or a signal comes; its errors are sentences on standard error."""

        async def run(stopping: Stopping) -> int:
            await work(stopping)
            return 0

        try:
            status = run_tool(run)
        except RefusedError as exc:
            raise CommandError(f"the server refuses: {exc}") from exc
        except PenstockError as exc:
            raise CommandError(str(exc)) from exc
        if status:
            sys.exit(status)

    def tell(self, line: str) -> None:
        """Print the progress on standard error: standard output has the messages."""
        self.stderr.write(line)
        self.stderr.flush()


def topic_argument(text: str) -> str:
    """A topic's name, for `type=`."""
    return str(_argument(_name("topic"))(text))


def channel_argument(text: str) -> str:
    """A channel's name, for `type=`."""
    return str(_argument(_channel)(text))


def count_argument(text: str) -> int:
    """A whole number from 0, for `type=`."""
    return int(_argument(_at_least(0))(text))


def number_argument(text: str) -> float:
    """A finite number, for `type=`."""
    return float(_argument(_number)(text))


def duration_argument(text: str) -> int:
    """Milliseconds of a DURATION, for `type=`."""
    return int(_argument(parse_duration_ms)(text))


def node_argument(text: str) -> Any:
    """A server's HOST:PORT, for `type=`."""
    return _argument(node_of)(text)


def url_argument(text: str) -> str:
    """The URL of an HTTP API, for `type=`."""
    return str(_argument(url_of)(text))


def _argument(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """`parse` as argparse wants it: with the sentence of its ValueError in the complaint."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as exc:
            raise ArgumentTypeError(str(exc)) from exc

    return parsed


def _at_least(low: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise ValueError(f"{text[:80]!r} is not a whole number")
        if int(text) < low:
            raise ValueError(f"{text} is less than {low}")
        return int(text)

    return parse


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text[:80]!r} is not a number")
    return number


def _name(noun: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not is_valid_name(text):
            raise ValueError(
                f"{text[:80]!r} is not a {noun}'s name: 1 to {NAME_LENGTH_MAX} of . a-z A-Z 0-9 _ -, and #ephemeral "
                "behind them"
            )
        return text

    return parse


_channel = _name("channel")


def _tls_of(given: dict[str, Any]) -> Any:
    cert, key, authorities = given["tls_cert"] or "", given["tls_key"] or "", given["tls_root_ca_file"] or ""
    if not given["tls"]:
        for flag in ("tls_cert", "tls_key", "tls_root_ca_file", "tls_insecure_skip_verify"):
            if given[flag]:
                raise ValueError(f"--{flag.replace('_', '-')} does nothing without --tls")
        return None
    try:
        return tls_context(authorities, cert, key, is_checked=not given["tls_insecure_skip_verify"])
    except OSError as exc:  # an SSLError, too
        files = ", ".join(filter(None, (authorities, cert, key)))
        raise ValueError(f"TLS can't be set up with {files}: {exc.strerror or exc}") from exc


def _secret_of(path: str | None) -> bytes:
    if path is None:
        return os.environ.get(AUTH_SECRET, "").encode()
    try:
        first, _, _ = Path(path).read_bytes().partition(b"\n")
    except OSError as exc:
        raise ValueError(f"--auth-secret-file {path}: {exc.strerror}") from exc
    secret = first.strip()
    if not secret:
        raise ValueError(f"--auth-secret-file {path}: the first line is empty")
    return secret
