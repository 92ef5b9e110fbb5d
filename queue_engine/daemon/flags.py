"""The daemon's flags: all of nsqd 1.3, and the engine's own options beside them.

A flag acts when the engine has an option of its name. `FLAGS_OF_NSQD` has the reason why the others have no effect.
"""

from dataclasses import dataclass, fields
from typing import Any

from queue_engine.daemon.go_flags.command_line import FlagSet
from queue_engine.daemon.go_flags.flag import Flag, FlagType
from queue_engine.vocabulary.options.durations import format_duration
from queue_engine.vocabulary.options.option import flag_of
from queue_engine.vocabulary.options.options import Options

LOG_PREFIX = "log-prefix"
LOG_PREFIX_DEFAULT = "[nsqd] "

# Where nsqd's own default differs from the one that the engine has elsewhere. The data directory is the current one.
DEFAULTS: dict[str, Any] = {
    "tcp_address": "0.0.0.0:4150",
    "http_address": "0.0.0.0:4151",
    "https_address": "0.0.0.0:4152",  # with --tls-cert
    "data_path": "",
    # As users of nsqd expect: its files, which it can take back.
    "storage": "diskqueue",
    # Without the console they have no reader, and nsqd writes none.
    "samples_interval_ms": 0,
}

# Of the pipeline's worker: the daemon runs none.
_NOT_USED = tuple(spec.name for spec in fields(Options) if spec.name.startswith("worker_"))


@dataclass(frozen=True, slots=True)
class NsqdFlag:
    """A flag of nsqd 1.3. note: why it has no effect, where the engine has no option of its name. config_name: as of
    `Flag`."""

    name: str
    kind: FlagType
    note: str = ""
    config_name: str = ""


_ANY_ZONE = "all consumers of a channel share its messages, whatever their zone is"
FLAGS_OF_NSQD = (
    NsqdFlag("auth-http-address", FlagType.TEXTS, config_name="auth_http_addresses"),
    NsqdFlag("auth-http-request-method", FlagType.TEXT),
    NsqdFlag("broadcast-address", FlagType.TEXT),
    NsqdFlag("broadcast-http-port", FlagType.INT),
    NsqdFlag("broadcast-tcp-port", FlagType.INT),
    NsqdFlag("data-path", FlagType.TEXT),
    NsqdFlag("deflate", FlagType.BOOL),
    NsqdFlag("e2e-processing-latency-percentile", FlagType.FLOATS, config_name="e2e_processing_latency_percentiles"),
    NsqdFlag("e2e-processing-latency-window-time", FlagType.DURATION),
    NsqdFlag("enable-experiment", FlagType.TEXTS, _ANY_ZONE, config_name="experiments"),
    NsqdFlag("http-address", FlagType.TEXT),
    NsqdFlag("http-client-connect-timeout", FlagType.DURATION),
    NsqdFlag("http-client-request-timeout", FlagType.DURATION),
    NsqdFlag("https-address", FlagType.TEXT),
    NsqdFlag("log-level", FlagType.TEXT),
    NsqdFlag(LOG_PREFIX, FlagType.TEXT),
    NsqdFlag("lookupd-tcp-address", FlagType.TEXTS, config_name="nsqlookupd_tcp_addresses"),
    NsqdFlag("max-body-size", FlagType.INT),
    NsqdFlag("max-bytes-per-file", FlagType.INT),
    NsqdFlag("max-channel-consumers", FlagType.INT),
    NsqdFlag("max-deflate-level", FlagType.INT),
    NsqdFlag("max-heartbeat-interval", FlagType.DURATION),
    NsqdFlag("max-msg-size", FlagType.INT),
    NsqdFlag("max-msg-timeout", FlagType.DURATION),
    NsqdFlag("max-output-buffer-size", FlagType.INT),
    NsqdFlag("max-output-buffer-timeout", FlagType.DURATION),
    NsqdFlag("max-rdy-count", FlagType.INT),
    NsqdFlag("max-req-timeout", FlagType.DURATION),
    NsqdFlag("mem-queue-size", FlagType.INT),
    NsqdFlag("min-output-buffer-timeout", FlagType.DURATION),
    NsqdFlag("msg-timeout", FlagType.DURATION),
    NsqdFlag("node-id", FlagType.INT, config_name="id"),
    NsqdFlag("output-buffer-timeout", FlagType.DURATION),
    NsqdFlag("queue-scan-selection-count", FlagType.INT),
    NsqdFlag("queue-scan-worker-pool-max", FlagType.INT, "one thread checks all deadlines, earliest first"),
    NsqdFlag("snappy", FlagType.BOOL),
    NsqdFlag("statsd-address", FlagType.TEXT),
    NsqdFlag("statsd-exclude-ephemeral", FlagType.BOOL),
    NsqdFlag("statsd-interval", FlagType.DURATION),
    NsqdFlag("statsd-mem-stats", FlagType.BOOL),
    NsqdFlag("statsd-prefix", FlagType.TEXT),
    NsqdFlag("statsd-udp-packet-size", FlagType.INT),
    NsqdFlag("sync-every", FlagType.INT),
    NsqdFlag("sync-timeout", FlagType.DURATION),
    NsqdFlag("tcp-address", FlagType.TEXT),
    NsqdFlag("tls-cert", FlagType.TEXT),
    NsqdFlag("tls-client-auth-policy", FlagType.TEXT),
    NsqdFlag("tls-key", FlagType.TEXT),
    NsqdFlag("tls-min-version", FlagType.TEXT),
    NsqdFlag("tls-required", FlagType.SWITCH),
    NsqdFlag("tls-root-ca-file", FlagType.TEXT),
    NsqdFlag("topology-region", FlagType.TEXT, _ANY_ZONE),
    NsqdFlag("topology-zone", FlagType.TEXT, _ANY_ZONE),
    NsqdFlag("verbose", FlagType.BOOL, "as in nsqd: use --log-level"),
    NsqdFlag("worker-id", FlagType.BOOL, "as in nsqd: use --node-id"),
)


def field_of(flag_name: str) -> str | None:
    """The engine's option of that name; None where it has none."""
    return next((spec.name for spec in fields(Options) if flag_of(spec.name) == f"--{flag_name}"), None)


def flag_set() -> FlagSet:
    """All flags of the daemon."""
    options = {flag_of(spec.name).removeprefix("--"): spec for spec in fields(Options) if spec.name not in _NOT_USED}
    flags = [Flag(LOG_PREFIX, FlagType.TEXT, "text before each line of the log", LOG_PREFIX_DEFAULT)]
    for nsqd in FLAGS_OF_NSQD:
        if nsqd.name == LOG_PREFIX:
            continue
        spec = options.pop(nsqd.name, None)
        if spec is not None:
            flags.append(Flag(nsqd.name, nsqd.kind, spec.metadata["help"], _default(spec), nsqd.config_name))
        else:
            flags.append(Flag(nsqd.name, nsqd.kind, f"[has no effect] {nsqd.note}", "", nsqd.config_name))
    flags += [Flag(name, _kind(spec), spec.metadata["help"], _default(spec)) for name, spec in options.items()]
    return FlagSet("nsqd", flags)


def _kind(spec: Any) -> FlagType:
    if spec.name.endswith("_ms"):
        return FlagType.DURATION
    if isinstance(spec.default, bool):
        return FlagType.BOOL
    if isinstance(spec.default, int):
        return FlagType.INT
    return FlagType.TEXT if isinstance(spec.default, str) else FlagType.TEXTS


def _default(spec: Any) -> str:
    value = DEFAULTS.get(spec.name, spec.default)
    if value in ("", (), -1):
        return ""
    if spec.name.endswith("_ms"):
        return format_duration(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
