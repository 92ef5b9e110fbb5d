"""Options of nsqlookupd, with nsqlookupd's own flag names and defaults; the last two are ours."""

import socket
from dataclasses import dataclass, fields

from queue_engine.vocabulary.errors import OptionsError
from queue_engine.vocabulary.options.addresses import split_address
from queue_engine.vocabulary.options.option import flag_of, option

LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")


@dataclass(frozen=True, slots=True)
class LookupOptions:
    """Values of one server. Times are milliseconds, in the flags durations such as 5m."""

    tcp_address: str = option("0.0.0.0:4160", "<addr>:<port> to listen on for TCP clients (nsqds)")
    http_address: str = option("0.0.0.0:4161", "<addr>:<port> to listen on for HTTP clients")
    broadcast_address: str = option("", "address of this lookupd node (default: the host name)")
    inactive_producer_timeout_ms: int = option(
        300_000, "how long a producer stays in answers after its last ping", low=1
    )
    tombstone_lifetime_ms: int = option(
        45_000, "how long a tombstoned producer stays hidden if its registration remains", low=0
    )
    log_level: str = option("info", "log verbosity: debug, info, warn, error or fatal")
    log_prefix: str = option("[nsqlookupd] ", "the begin of each line of the log")
    verbose: bool = option(False, "deprecated in favor of --log-level")
    max_connections: int = option(10_000, "TCP and HTTP connections at once, each", low=1)
    # A hundred nsqds with a thousand topics of four channels each take half of it, some 100 MB.
    max_registrations: int = option(1_000_000, "topics, channels and producers of each, together", low=1)

    def validate(self) -> None:
        """Raises OptionsError with all complaints, each naming flag, value and limit."""
        complaints = []
        for spec in fields(self):
            low, value = spec.metadata["low"], getattr(self, spec.name)
            if low is not None and value < low:
                complaints.append(f"{flag_of(spec.name)} is {value}: the least is {low}")
        for name in ("tcp_address", "http_address"):
            try:
                split_address(getattr(self, name))
            except ValueError as exc:
                complaints.append(f"{flag_of(name)}: {exc}")
        if self.log_level.lower() not in LOG_LEVELS:
            complaints.append(f"--log-level is {self.log_level!r}: it can be {', '.join(LOG_LEVELS)}")
        if complaints:
            raise OptionsError(complaints)

    @property
    def effective_broadcast_address(self) -> str:
        return self.broadcast_address or socket.gethostname()
