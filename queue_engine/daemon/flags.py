"""The daemon's flags: all of nsqd 1.3, and the engine's own options beside them.

A flag acts when the engine has an option of its name. `FLAGS_OF_NSQD` has the reason why the others have no effect.
"""

from dataclasses import dataclass, fields
from typing import Any

from queue_engine.daemon.go_flags.command_line import FlagSet
from queue_engine.daemon.go_flags.flag import Flag, Kind
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
    kind: Kind
    note: str = ""
    config_name: str = ""


_ANY_ZONE = "all consumers of a channel share its messages, whatever their zone is"
FLAGS_OF_NSQD = (
    NsqdFlag("auth-http-address", Kind.TEXTS, config_name="auth_http_addresses"),
    NsqdFlag("auth-http-request-method", Kind.TEXT),
    NsqdFlag("broadcast-address", Kind.TEXT),
    NsqdFlag("broadcast-http-port", Kind.INT),
    NsqdFlag("broadcast-tcp-port", Kind.INT),
    NsqdFlag("data-path", Kind.TEXT),
    NsqdFlag("deflate", Kind.BOOL),
    NsqdFlag("e2e-processing-latency-percentile", Kind.FLOATS, config_name="e2e_processing_latency_percentiles"),
    NsqdFlag("e2e-processing-latency-window-time", Kind.DURATION),
    NsqdFlag("enable-experiment", Kind.TEXTS, _ANY_ZONE, config_name="experiments"),
    NsqdFlag("http-address", Kind.TEXT),
    NsqdFlag("http-client-connect-timeout", Kind.DURATION),
    NsqdFlag("http-client-request-timeout", Kind.DURATION),
    NsqdFlag("https-address", Kind.TEXT),
    NsqdFlag("log-level", Kind.TEXT),
    NsqdFlag(LOG_PREFIX, Kind.TEXT),
    NsqdFlag("lookupd-tcp-address", Kind.TEXTS, config_name="nsqlookupd_tcp_addresses"),
    NsqdFlag("max-body-size", Kind.INT),
    NsqdFlag("max-bytes-per-file", Kind.INT),
    NsqdFlag("max-channel-consumers", Kind.INT),
    NsqdFlag("max-deflate-level", Kind.INT),
    NsqdFlag("max-heartbeat-interval", Kind.DURATION),
    NsqdFlag("max-msg-size", Kind.INT),
    NsqdFlag("max-msg-timeout", Kind.DURATION),
    NsqdFlag("max-output-buffer-size", Kind.INT),
    NsqdFlag("max-output-buffer-timeout", Kind.DURATION),
    NsqdFlag("max-rdy-count", Kind.INT),
    NsqdFlag("max-req-timeout", Kind.DURATION),
    NsqdFlag("mem-queue-size", Kind.INT),
    NsqdFlag("min-output-buffer-timeout", Kind.DURATION),
    NsqdFlag("msg-timeout", Kind.DURATION),
    NsqdFlag("node-id", Kind.INT, config_name="id"),
    NsqdFlag("output-buffer-timeout", Kind.DURATION),
    NsqdFlag("queue-scan-selection-count", Kind.INT),
    NsqdFlag("queue-scan-worker-pool-max", Kind.INT, "one thread checks all deadlines, earliest first"),
    NsqdFlag("snappy", Kind.BOOL),
    NsqdFlag("statsd-address", Kind.TEXT),
    NsqdFlag("statsd-exclude-ephemeral", Kind.BOOL),
    NsqdFlag("statsd-interval", Kind.DURATION),
    NsqdFlag("statsd-mem-stats", Kind.BOOL),
    NsqdFlag("statsd-prefix", Kind.TEXT),
    NsqdFlag("statsd-udp-packet-size", Kind.INT),
    NsqdFlag("sync-every", Kind.INT),
    NsqdFlag("sync-timeout", Kind.DURATION),
    NsqdFlag("tcp-address", Kind.TEXT),
    NsqdFlag("tls-cert", Kind.TEXT),
    NsqdFlag("tls-client-auth-policy", Kind.TEXT),
    NsqdFlag("tls-key", Kind.TEXT),
    NsqdFlag("tls-min-version", Kind.TEXT),
    NsqdFlag("tls-required", Kind.SWITCH),
    NsqdFlag("tls-root-ca-file", Kind.TEXT),
    NsqdFlag("topology-region", Kind.TEXT, _ANY_ZONE),
    NsqdFlag("topology-zone", Kind.TEXT, _ANY_ZONE),
    NsqdFlag("verbose", Kind.BOOL, "as in nsqd: use --log-level"),
    NsqdFlag("worker-id", Kind.BOOL, "as in nsqd: use --node-id"),
)


def field_of(flag_name: str) -> str | None:
    """The engine's option of that name; None where it has none."""
    return next((spec.name for spec in fields(Options) if flag_of(spec.name) == f"--{flag_name}"), None)


def flag_set() -> FlagSet:
    """All flags of the daemon."""
    options = {flag_of(spec.name).removeprefix("--"): spec for spec in fields(Options) if spec.name not in _NOT_USED}
    flags = [Flag(LOG_PREFIX, Kind.TEXT, "text before each line of the log", LOG_PREFIX_DEFAULT)]
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


def _kind(spec: Any) -> Kind:
    if spec.name.endswith("_ms"):
        return Kind.DURATION
    if isinstance(spec.default, bool):
        return Kind.BOOL
    if isinstance(spec.default, int):
        return Kind.INT
    return Kind.TEXT if isinstance(spec.default, str) else Kind.TEXTS


def _default(spec: Any) -> str:
    value = DEFAULTS.get(spec.name, spec.default)
    if value in ("", (), -1):
        return ""
    if spec.name.endswith("_ms"):
        return format_duration(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
