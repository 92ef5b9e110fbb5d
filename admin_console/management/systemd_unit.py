"""The unit that runs the server under systemd: printed, never installed."""

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from queue_engine.service.process.service_manager import START_LIMIT_S, stop_limit_s
from queue_engine.vocabulary.lake_place import absolute_lake
from queue_engine.vocabulary.options.addresses import is_socket_path, split_address
from queue_engine.vocabulary.options.log_options import PYTHON_PROCESSES_MAX
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.version import VERSION

UNIT_PATH = "/etc/systemd/system/penstock.service"
ENVIRONMENT_PATH = "/etc/penstock/environment"
STATE_ROOT = Path("/var/lib")
DATA_PATH_DEFAULT = STATE_ROOT / "penstock"

# Long enough for a disk that stalls: a restart would not help it.
WATCHDOG_S = 120
# The most that the start takes of the hard limit.
DESCRIPTORS = 65_536
# Python, the console with its pages and duckdb, which no option of the engine limits.
_SERVER_BYTES = 512 << 20
# The worker itself, Spark's Python processes that plan, and Java's memory beside its heap; then those that read and
# write, with large messages.
_WORKER_BYTES = 640 << 20
_WORKER_PER_HEAP = 1.25
_WORKER_PER_PROCESS_BYTES = 192 << 20
# Beyond MemoryHigh the kernel slows the server and takes memory back; at MemoryMax it kills a process.
_MAX_PER_HIGH = 1.25
_PRIVILEGED_PORTS_END = 1024
_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - looked for in paths, not written to


@dataclass(frozen=True, slots=True)
class Service:
    """The service that the unit runs. All paths are absolute.

    program: the first words of the command. arguments: serve's options without --data-path. options: the same, read.
    installed: directories that the program is read from. console_port: 0 for any free one. command_line: the words that
    made the unit, for its text.
    """

    program: tuple[str, ...]
    arguments: tuple[str, ...]
    options: Options
    data_path: Path
    installed: tuple[Path, ...]
    console_port: int
    user: str
    group: str
    with_pipeline: bool
    with_engine: bool
    command_line: tuple[str, ...]


def quoted(word: str, *, is_program: bool = False) -> str:
    """A word of a setting as systemd reads it back. In ExecStart, all words but the program's have $ for variables."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    if not is_program:
        text = text.replace("$", "$$")
    return text if re.fullmatch(r"[\w@%+=:,./$-]+", text, re.ASCII) else f'"{text}"'


def complaint_about_word(word: str, *, is_program: bool = False) -> str:
    """Why a unit can't have this word; "" when it can."""
    if is_program and re.search(r"[\"'\\]", word):
        return f"the program's path is {word}, and systemd takes no quotes and backslashes there: install it elsewhere"
    if re.search(r"[\x00-\x1f\x7f]", word):
        return f"{word!r} has a control character, which systemd refuses"
    try:
        word.encode()
    except UnicodeEncodeError:
        return f"{word!r} is not UTF-8, which systemd refuses"
    return ""


def memory_limits(options: Options, *, with_pipeline: bool, with_engine: bool = True) -> tuple[int, int]:
    """MemoryHigh and MemoryMax, in MiB: the memory that the options allow the server and its worker, and a quarter
    more."""
    high_bytes = _SERVER_BYTES
    if with_engine:
        high_bytes += sum(
            (
                options.log_cache_bytes,
                options.mem_queue_total_bytes,
                options.max_deferred_bytes,
                options.max_in_flight_bytes,
                options.max_pending_body_bytes,
            )
        )
    if with_pipeline:
        high_bytes += _WORKER_BYTES + math.ceil(_WORKER_PER_HEAP * options.worker_memory_bytes)
        high_bytes += _WORKER_PER_PROCESS_BYTES * (options.worker_python_processes or PYTHON_PROCESSES_MAX)
    high_mib = math.ceil(high_bytes / (1 << 20))
    return high_mib, math.ceil(_MAX_PER_HIGH * high_mib)


def unit_text(service: Service) -> str:
    """The whole file, with a line on how to install it."""
    sections = (_head(service), _unit(service), _command(service), _life(service), _limits(service))
    return "\n".join(line for section in (*sections, _hardening(service), _install()) for line in section) + "\n"


def _head(service: Service) -> list[str]:
    is_state = _state_directory(service.data_path) is not None
    user, group, path = service.user, service.group, shlex.quote(str(service.data_path))
    add_group = [f"groupadd --system {group}"] if group != user else []
    own_group = f"--gid {group}" if group != user else "--user-group"
    add_user = f"useradd --system {own_group} --home-dir {path} --shell /usr/sbin/nologin {user}"
    own = [*([] if is_state else [service.data_path]), *_lake_elsewhere(service)]
    make = [f"install -d -m 0700 -o {user} -g {group} {shlex.quote(str(one))}" for one in own]
    steps = [
        *add_group,
        add_user,
        *make,
        f"{shlex.join(service.command_line)} > {UNIT_PATH}",
        "systemctl daemon-reload",
        "systemctl enable --now penstock",
    ]
    served = "NSQ clients, the HTTP API and the console are served" if service.with_engine else "the console is served"
    secret = "must set PENSTOCK_HTTP_TOKEN, which is not here" if service.options.http_token else "may set variables"
    return [
        f"# Penstock {VERSION} as a service of systemd. To change an option, print the unit again.",
        "# To install it, as root:",
        "#",
        *(f"#   {step}" for step in steps),
        "#",
        f"# `systemctl` returns when {served}.",
        f"# The first start writes the admin's password to {service.data_path / 'admin-password'}.",
        "# Commands run as the server's account:",
        "#",
        f"#   sudo -u {user} {shlex.join(service.program)} user list --data-path {path}",
        "#",
        f"# Other accounts can read this file. {ENVIRONMENT_PATH} (root's, mode 0600) {secret},",
        "# one a line: PENSTOCK_HTTP_TOKEN=…, PENSTOCK_ADMIN_PASSWORD=…",
    ]


def _unit(service: Service) -> list[str]:
    return [
        "",
        "[Unit]",
        f"Description=Penstock {'message queue' if service.with_engine else 'console'}",
        "Wants=network-online.target",
        "After=network-online.target",
        f"RequiresMountsFor={_paths([service.data_path, *_lake_elsewhere(service)])}",
        "# A server that fails is started again, however often.",
        "StartLimitIntervalSec=0",
    ]


def _command(service: Service) -> list[str]:
    program, *rest = service.program
    words = [*rest, "serve", f"--data-path={service.data_path}", *service.arguments]
    is_file_needed = "" if service.options.http_token else "-"
    return [
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={' '.join([quoted(program, is_program=True), *(quoted(word) for word in words)])}",
        f"EnvironmentFile={is_file_needed}{ENVIRONMENT_PATH}",
        f"User={service.user}",
        f"Group={service.group}",
        "UMask=0077",
        *_data(service),
    ]


def _data(service: Service) -> list[str]:
    lines, writable = [], _lake_elsewhere(service)
    if state := _state_directory(service.data_path):
        lines = [f"StateDirectory={quoted(str(state), is_program=True)}", "StateDirectoryMode=0700"]
    else:
        writable = [service.data_path, *writable]
    if writable:
        lines.append(f"ReadWritePaths={_paths(writable)}")
    return lines


def _lake_elsewhere(service: Service) -> list[Path]:
    """The directory of --lake where it is not in the data directory; none for an object store."""
    place = absolute_lake(service.options.lake)
    if not place or "://" in place or Path(place).is_relative_to(service.data_path):
        return []
    return [Path(place)]


def _paths(paths: Sequence[Path]) -> str:
    return " ".join(quoted(str(path), is_program=True) for path in paths)


def _life(service: Service) -> list[str]:
    feeder = "The engine's loop" if service.with_engine else "The console's loop"
    return [
        "",
        "# A start that reads many files, and a stop that writes many messages, get more time while they advance.",
        f"TimeoutStartSec={START_LIMIT_S}s",
        f"TimeoutStopSec={stop_limit_s(service.options.stop_timeout_ms)}s",
        "# Certificates, keys and tokens are read again.",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "# SIGTERM goes to the server, which ends its own processes.",
        "KillMode=mixed",
        f"# {feeder} feeds it. A server that hangs is ended by SIGABRT; the journal has each thread's stack.",
        f"WatchdogSec={WATCHDOG_S}s",
        "# Also a start that is refused: its address, its disk or room on it may be there a moment later.",
        "Restart=on-failure",
        "RestartSec=5s",
    ]


def _limits(service: Service) -> list[str]:
    high_mib, max_mib = memory_limits(
        service.options, with_pipeline=service.with_pipeline, with_engine=service.with_engine
    )
    of_whom = "the server and the pipeline's worker" if service.with_pipeline else "the server"
    return [
        "",
        f"LimitNOFILE={DESCRIPTORS}",
        "# A core would hold messages.",
        "LimitCORE=0",
        f"# The memory that its options allow {of_whom}, and a quarter more.",
        f"MemoryHigh={high_mib}M",
        f"MemoryMax={max_mib}M",
        "# A worker that is killed is started again; the server goes on.",
        "OOMPolicy=continue",
    ]


def _hardening(service: Service) -> list[str]:
    options = service.options
    named = (options.tls_cert, options.tls_key, options.tls_root_ca_file, options.http_token_file)
    files = (Path(path).absolute() for path in named if path)
    places = (service.data_path, *_lake_elsewhere(service), *service.installed, *files)
    addresses = (options.tcp_address, options.http_address, options.https_address)
    ports = [split_address(one)[1] for one in addresses if service.with_engine and not is_socket_path(one)]
    is_privileged = any(0 < port < _PRIVILEGED_PORTS_END for port in (*ports, service.console_port))
    capability = "CAP_NET_BIND_SERVICE" if is_privileged else ""
    home = ["ProtectHome=yes"]
    if _is_any_below(places, _HOMES):
        home = ["# The program, its data or a certificate is there: let the account read it.", "ProtectHome=read-only"]
    temporary = ["PrivateTmp=yes"]
    if _is_any_below(places, _TEMPORARY):
        temporary = ["# The program, its data or a certificate is there.", "PrivateTmp=no"]
    return [
        "",
        "NoNewPrivileges=yes",
        f"CapabilityBoundingSet={capability}",
        f"AmbientCapabilities={capability}",
        "ProtectSystem=strict",
        *home,
        *temporary,
        "PrivateDevices=yes",
        "ProtectClock=yes",
        "ProtectControlGroups=yes",
        "ProtectHostname=yes",
        "ProtectKernelLogs=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
        "ProtectProc=invisible",
        "RemoveIPC=yes",
        "LockPersonality=yes",
        "RestrictNamespaces=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "# AF_NETLINK: the system's library looks up addresses with it.",
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
        "SystemCallArchitectures=native",
        "SystemCallFilter=@system-service",
        "SystemCallErrorNumber=EPERM",
        "# Without MemoryDenyWriteExecute: Java compiles while it runs.",
    ]


def _install() -> list[str]:
    return ["", "[Install]", "WantedBy=multi-user.target"]


def _state_directory(path: Path) -> Path | None:
    """The directory below /var/lib that systemd makes for the account; None for a path elsewhere.

    /var/lib/private is systemd's own: it ignores such a name."""
    if STATE_ROOT not in path.parents:
        return None
    below = path.relative_to(STATE_ROOT)
    return below if below.parts[0] != "private" else None


def _is_any_below(places: Sequence[Path], roots: Sequence[Path]) -> bool:
    return any(place.is_relative_to(root) for place in places for root in roots)
