"""The console's own options, one table: flag, default, help. They come from the environment.

`management/program.py` puts the options of the command line into the environment before Django reads its settings, so
that both ways mean the same and settings never change afterwards.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from admin_console.cluster.calls.options import CLUSTER_OPTIONS, CONNECT_TIMEOUT, REQUEST_TIMEOUT, ClusterOptions
from admin_console.nsqadmin_options import BASE_PATH, NSQADMIN_OPTIONS, NsqadminOptions
from admin_console.vocabulary.console_option import ConsoleOption, environment_variable, seconds_of, split_list
from queue_engine.vocabulary.client_key import TrustedAddresses

CONNECTIONS_MAX = 999_999


# The newest rows always stay, and can take this much.
AUDIT_BYTES_MIN = 16 << 20
AUDIT_BYTES_MAX = 1 << 50

CONSOLE_OPTIONS = (
    ConsoleOption(
        "--console-address", "127.0.0.1:4171", "HOST:PORT", "HOST:PORT of the console (port 0 picks a free one)"
    ),
    ConsoleOption(
        "--console-origin",
        "",
        "ORIGIN",
        "the console's address in the browser behind a proxy: https://HOST[:PORT][/PATH/]",
    ),
    ConsoleOption(
        "--console-tls",
        "false",
        "true|false",
        "whether the console itself speaks TLS, with the certificate of --tls-cert",
        limits="true, false",
    ),
    ConsoleOption(
        "--console-max-connections",
        "512",
        "N",
        "connections of the console at once; fewer where descriptors are few",
        limits=f"1 to {CONNECTIONS_MAX}",
    ),
    ConsoleOption(
        "--console-request-timeout",
        "10s",
        "DURATION",
        "how long a request to the console may take from its first byte to its head's last, and per MiB of body begun",
        limits="above 0ms",
    ),
    ConsoleOption(
        "--console-idle-timeout",
        "1m",
        "DURATION",
        "how long a connection of the console may be idle: no request, nothing taken of an answer",
        limits="above 0ms",
    ),
    ConsoleOption(
        "--audit-retention",
        "400d",
        "HOURS|DAYS",
        "the age at which audit rows are removed, in hours or days (36h, 400d); 0 for never",
        limits="0, or 1h to 999999d",
    ),
    ConsoleOption(
        "--audit-retention-bytes",
        "1073741824",
        "BYTES",
        "most bytes of the audit list and the console's other tables; beyond, the oldest rows go (0: no limit)",
        limits=f"0, or {AUDIT_BYTES_MIN} to {AUDIT_BYTES_MAX}",
    ),
    ConsoleOption(
        "--pause-reason-required",
        "false",
        "true|false",
        "whether the console refuses a pause without a reason",
        limits="true, false",
    ),
    *CLUSTER_OPTIONS,
    *NSQADMIN_OPTIONS,
)

# Switches of `serve`. In the environment they are true or false.
DEMO = ConsoleOption("--demo", "false", "", "add the traffic of a demo")
NO_PIPELINE = ConsoleOption(
    "--no-pipeline", "false", "", "never start the data pipeline's worker: no archive, no history"
)
CONSOLE_ONLY = ConsoleOption(
    "--console-only",
    "false",
    "",
    "start the console without a queue, for the nodes of --lookupd-http-address and --nsqd-http-address",
)
SWITCHES = (DEMO, NO_PIPELINE, CONSOLE_ONLY)

# The beginnings of the console's own paths. A sub-path that begins so would give one path two meanings behind a proxy
# that takes the sub-path off.
OWN_WORDS = (
    "api", "audit", "clients", "clock", "clusters", "config", "counter", "login", "logout", "lookup", "nodes",
    "password", "pipeline", "static", "tokens", "topics", "trash", "ws",
)  # fmt: skip
_ORIGIN = re.compile(r"((?i:https?)://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)(/[^?#]*)?")
_SUB_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*")

# Options of the engine that the console's settings need as well.
_SHARED_FLAGS = (
    "--data-path",
    "--allowed-host",
    "--trusted-proxy",
    "--broadcast-address",
    "--log-level",
    "--log-format",
    CONNECT_TIMEOUT,
    REQUEST_TIMEOUT,
)
_LIST_FLAGS = {"--allowed-host", "--trusted-proxy", *(option.flag for option in CONSOLE_OPTIONS if option.is_list)}
_EARLY_FLAGS = (*_SHARED_FLAGS, *(option.flag for option in CONSOLE_OPTIONS))


def take_early_flags(arguments: list[str], environment: dict[str, str] | os._Environ[str]) -> list[str]:
    """Put the console's options of the command line into `environment`; return the arguments that are left.

    `--data-path` is removed from those, since every command accepts it and few declare it; the others stay for `serve`
    to check.
    Raises ValueError for a flag without its value, and for two different origins.
    """
    left: list[str] = []
    found: dict[str, list[str]] = {}
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        if argument == "--":
            left.extend(arguments[position - 1 :])
            break
        flag, equals, value = argument.partition("=")
        if flag not in _EARLY_FLAGS:
            left.append(argument)
            continue
        taken = [argument]
        if not equals:
            if position == len(arguments):
                raise ValueError(f"{flag} needs a value")
            value = arguments[position]
            taken.append(value)
            position += 1
        if flag == "--data-path" and not value:
            raise ValueError("--data-path is empty: it names the data directory")
        found.setdefault(flag, []).append(value)
        if flag != "--data-path":
            left.extend(taken)
    for flag, values in found.items():
        if flag == "--console-origin" and len(set(values)) > 1:
            raise ValueError(f"{flag}: {values[-2]!r} and {values[-1]!r} are two addresses, and the console has one")
        environment[environment_variable(flag)] = ",".join(values) if flag in _LIST_FLAGS else values[-1]
    return left


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The console's options, checked."""

    host: str
    port: int
    origin: str  # "" or scheme://host[:port], without a slash behind it
    sub_path: str  # "", or /queue where the console's first page is origin/queue/
    trusted_proxies: TrustedAddresses
    allowed_hosts: tuple[str, ...]  # host names without ports that a request may name
    connections_max: int
    request_timeout_s: float
    idle_timeout_s: float
    audit_retention_ms: int  # 0 for ever
    audit_bytes_max: int  # 0 for no limit
    pause_reason_required: bool
    cluster: ClusterOptions
    nsqadmin: NsqadminOptions
    speaks_tls: bool = False

    @property
    def is_https(self) -> bool:
        """Whether browsers reach it over https, by itself or by a proxy."""
        return self.speaks_tls or self.has_https_origin

    @property
    def has_https_origin(self) -> bool:
        return self.origin.startswith("https://")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "ConsoleOptions":
        """Read and check all of them. Raises ValueError with every complaint, one a line."""
        complaints: list[str] = []
        texts = {option.flag: environment.get(option.variable, option.default) for option in CONSOLE_OPTIONS}
        host, port, origin, sub_path = "127.0.0.1", 0, "", ""
        trusted = TrustedAddresses(())
        try:
            host, port = _split_address(texts["--console-address"])
        except ValueError as exc:
            complaints.append(f"--console-address: {exc}")
        try:
            origin, sub_path = _origin_and_sub_path(texts["--console-origin"])
        except ValueError as exc:
            complaints.append(f"--console-origin: {exc}")
        try:
            base_path = _sub_path_of(texts[BASE_PATH.flag], texts[BASE_PATH.flag])
            if base_path and sub_path and base_path != sub_path:
                raise ValueError(
                    f"{base_path!r} is another path than that of --console-origin {texts['--console-origin']}"
                )
            sub_path = sub_path or base_path
        except ValueError as exc:
            complaints.append(f"{BASE_PATH.flag}: {exc}")
        try:
            trusted = TrustedAddresses.parse(split_list(environment.get(environment_variable("--trusted-proxy"), "")))
        except ValueError as exc:
            complaints.extend(str(exc).splitlines())
        connections_max = 1
        count = texts["--console-max-connections"]
        if re.fullmatch(r"[1-9][0-9]{0,8}", count) and int(count) <= CONNECTIONS_MAX:
            connections_max = int(count)
        else:
            complaints.append(f"--console-max-connections: {count!r} is not a whole number from 1 to {CONNECTIONS_MAX}")
        seconds: dict[str, float] = {}
        for flag in ("--console-request-timeout", "--console-idle-timeout"):
            try:
                seconds[flag] = seconds_of(texts[flag])
            except ValueError as exc:
                complaints.append(f"{flag}: {exc}")
        retention_ms = 0
        try:
            retention_ms = _retention_ms(texts["--audit-retention"])
        except ValueError as exc:
            complaints.append(f"--audit-retention: {exc}")
        audit_bytes_max = 0
        try:
            audit_bytes_max = _audit_bytes_max(texts["--audit-retention-bytes"])
        except ValueError as exc:
            complaints.append(f"--audit-retention-bytes: {exc}")
        is_reason_required = texts["--pause-reason-required"]
        if is_reason_required not in ("true", "false"):
            complaints.append(f"--pause-reason-required: {is_reason_required!r} is neither true nor false")
        console_tls = texts["--console-tls"]
        if console_tls not in ("true", "false"):
            complaints.append(f"--console-tls: {console_tls!r} is neither true nor false")
        if console_tls == "true" and origin.startswith("http://"):
            complaints.append(f"--console-origin {origin} is not https, and with --console-tls browsers use https")
        cluster = ClusterOptions()
        try:
            cluster = ClusterOptions.parse(
                texts,
                connect_timeout_s=seconds_of(environment.get(environment_variable(CONNECT_TIMEOUT), "2s")),
                request_timeout_s=seconds_of(environment.get(environment_variable(REQUEST_TIMEOUT), "5s")),
            )
        except ValueError as exc:
            complaints.extend(str(exc).splitlines())
        nsqadmin = NsqadminOptions()
        try:
            nsqadmin = NsqadminOptions.parse(texts, has_trusted_proxy=trusted.has_any)
        except ValueError as exc:
            complaints.extend(str(exc).splitlines())
        allowed = split_list(environment.get(environment_variable("--allowed-host"), ""))
        for name in allowed:
            if not re.fullmatch(r"\*|(?:\*?\.)?[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:]+\]?", name):
                complaints.append(f"--allowed-host: {name!r} is not a host name")
        if complaints:
            raise ValueError("\n".join(complaints))
        return cls(
            host=host,
            port=port,
            origin=origin,
            sub_path=sub_path,
            trusted_proxies=trusted,
            connections_max=connections_max,
            request_timeout_s=seconds["--console-request-timeout"],
            idle_timeout_s=seconds["--console-idle-timeout"],
            audit_retention_ms=retention_ms,
            audit_bytes_max=audit_bytes_max,
            pause_reason_required=is_reason_required == "true",
            cluster=cluster,
            nsqadmin=nsqadmin,
            speaks_tls=console_tls == "true",
            allowed_hosts=_allowed_hosts(
                host, origin, [*allowed, environment.get(environment_variable("--broadcast-address"), "")]
            ),
        )


def _retention_ms(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,6})(h|d)", text)
    if text != "0" and (found is None or not int(found[1])):
        raise ValueError(f"{text!r} is neither hours nor days, such as 36h or 400d, nor 0 for ever")
    return int(found[1]) * {"h": 3_600_000, "d": 86_400_000}[found[2]] if found is not None else 0


def _audit_bytes_max(text: str) -> int:
    value = int(text) if re.fullmatch(r"[0-9]{1,16}", text) else -1
    if value and not AUDIT_BYTES_MIN <= value <= AUDIT_BYTES_MAX:
        raise ValueError(
            f"{text!r} is neither a number of bytes from {AUDIT_BYTES_MIN} to {AUDIT_BYTES_MAX}, nor 0 for no limit"
        )
    return value


def _split_address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,100}", port):
        raise ValueError(f"{text!r} is not HOST:PORT")
    if int(port) > 65535:
        raise ValueError(f"{text!r} has the port {port}: a port is 0 to 65535")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)  # noqa: S104 - chosen by the user


def _origin_and_sub_path(text: str) -> tuple[str, str]:
    """`https://Example.org/queue/` → `https://example.org` and `/queue`; both "" for "". Raises ValueError."""
    if not text:
        return "", ""
    if "," in text:
        raise ValueError(f"{text!r} is more than one address, and the console has one")
    if "?" in text or "#" in text:
        raise ValueError(f"{text!r} has a query or a fragment; an address is such as https://example.org/queue/")
    found = _ORIGIN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an origin such as https://queue.example.org")
    return found[1].lower(), _sub_path_of(found[2] or "", text)


def _sub_path_of(path: str, text: str) -> str:
    """`/queue/` → `/queue`, "" for the root. text: the path's owner, for a complaint. Raises ValueError."""
    sub_path = path.removesuffix("/")
    if not _SUB_PATH.fullmatch(sub_path):
        raise ValueError(
            f"{text!r} has a path with an empty part, a dot part, or another character than A-Z a-z 0-9 . _ ~ -"
        )
    if (word := sub_path.partition("/")[2].partition("/")[0]) in OWN_WORDS:
        raise ValueError(f"{text!r} has a path that begins with /{word}/, as pages of the console do; take another one")
    return sub_path


def _allowed_hosts(console_host: str, origin: str, further: list[str]) -> tuple[str, ...]:
    """Loopback names, this machine's own, the address listened on, the origin's, and those of --allowed-hosts."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname(), console_host, *further]
    if origin:
        names.append(urlsplit(origin).hostname or "")
    found: dict[str, None] = {}
    for name in names:
        # An address to listen on is no name; the HTTP API alone can be opened for any.
        if name and name not in ("0.0.0.0", "::", "*"):  # noqa: S104
            # Django writes all names below a domain as .DOMAIN.
            bare = name.removeprefix("[").removesuffix("]").removeprefix("*").lower()
            found[f"[{bare}]" if ":" in bare else bare] = None
    return tuple(found)
