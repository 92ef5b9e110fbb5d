"""Every option of the engine in one table: the field, its flag, its limits, and why the default is what it is.

The flag is the field's name with dashes and without its unit; the environment variable is PENSTOCK_ and the
flag in capitals: `msg_timeout_ms` is `--msg-timeout 60s` and `PENSTOCK_MSG_TIMEOUT=60s`.
"""

import re
import socket
import zlib
from dataclasses import dataclass, field, fields
from typing import Any

from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.errors import OptionsError

_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)")
_NS_PER_UNIT = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration as nsqd writes it: "60s", "1m30s", "500ms", "1.5h", "0".

    Raises ValueError, naming the text, for anything else, another bare number included: its unit would be a guess.
    """
    if text == "0":
        return 0
    position = 0
    total_ns = 0.0
    while position < len(text):
        part = _DURATION_PART.match(text, position)
        if part is None:
            break
        total_ns += float(part[1]) * _NS_PER_UNIT[part[2]]
        position = part.end()
    if not text or position != len(text):
        raise ValueError(f"{text!r} is not a duration such as 60s, 500ms or 1m30s")
    return round(total_ns / 1_000_000)


def format_duration(value_ms: int) -> str:
    """The shortest exact form of a duration: 60000 → "1m", 1500 → "1500ms"."""
    for unit, size_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if value_ms and value_ms % size_ms == 0:
            return f"{value_ms // size_ms}{unit}"
    return f"{value_ms}ms"


def _option(
    default: Any, help: str, *, low: int | None = None, high: int | None = None, choices: tuple[str, ...] = ()
) -> Any:
    return field(default=default, metadata={"help": help, "low": low, "high": high, "choices": choices})


# A field of Options → what it and the fields up to the next one here are about.
GROUPS = {
    "tcp_address": "addresses, directory, log lines",
    "storage": "the log and its readers",
    "worker_nice": "the pipeline's worker",
    "set_aside_segment": "damaged files",
    "samples_interval_ms": "samples of the server's stats, metrics",
    "http_token": "access and stopping",
    "mem_queue_size": "disk queues",
    "msg_timeout_ms": "messages",
    "max_heartbeat_interval_ms": "clients",
    "queue_scan_interval_ms": "deadlines",
    "max_topics": "limits against exhaustion",
}

# What a byte of an MPUB's body may cost in the log: a message of one byte is 5 there and at most 67 in a record.
LOG_BYTES_PER_BODY_BYTE_MAX = 16
# What a message costs in an MPUB's body beside its own bytes.
MPUB_SIZE_BYTES = 4
# Messages that came one by one and are appended together are at most so many bytes, counted as an MPUB counts them.
GATHERED_BYTES_MAX = 1 << 20


def _node_id() -> int:
    """A node id from the host name, as nsqd derives it: stable, and different on most machines."""
    return zlib.crc32(socket.gethostname().encode()) % 1024


@dataclass(frozen=True, slots=True)
class Options:
    """What the engine may be told. Check with `validate()` once at start."""

    # Where it listens and lives.
    tcp_address: str = _option("127.0.0.1:4150", "HOST:PORT for NSQ clients (port 0 picks a free one)")
    http_address: str = _option("127.0.0.1:4151", "HOST:PORT for the HTTP API (port 0 picks a free one)")
    data_path: str = _option(".penstock", "directory of queues, topology, users and keys")
    broadcast_address: str = _option("", "the name other machines reach this one by (default: the host name)")
    allowed_host: tuple[str, ...] = _option((), "a further Host name that the HTTP API and the console accept")
    log_level: str = _option(
        log_lines.LEVEL_DEFAULT,
        "least level of what the server writes to standard error: debug, info, warning or error",
        choices=log_lines.LEVELS,
    )
    log_format: str = _option(
        log_lines.FORMAT_DEFAULT,
        "form of those lines: text, or json (an object a line, what the start prints included)",
        choices=log_lines.FORMATS,
    )
    node_id: int = _option(-1, "part of every message id, 0 to 1023 (default: from the host name)", low=-1, high=1023)

    # Storage: what a new topic gets, and when what was published to a `log` topic counts as kept.
    storage: str = _option("log", "storage kind of new topics: log or diskqueue", choices=("log", "diskqueue"))
    sync: str = _option(
        "always",
        "when the log is on the disk: always (before OK), interval, or os (safe against kill -9, not a power cut)",
        choices=("always", "interval", "os"),
    )
    sync_interval_ms: int = _option(500, "with --sync interval: longest time between syncs", low=1)
    sync_interval_bytes: int = _option(4 << 20, "with --sync interval: most bytes between syncs", low=1)
    log_segment_bytes: int = _option(128 << 20, "bytes per file of the log", low=64 << 10, high=1 << 40)

    # Six MPUBs of --max-body-size, so that as many channels may lag by different amounts without reading them twice.
    log_cache_bytes: int = _option(
        32 << 20, "bytes of the log kept in memory for the channels that read them next", low=0
    )
    log_retention_ms: int = _option(
        0, "how long messages that all channels have finished stay in the log (0: they are removed)", low=0
    )
    log_retention_bytes: int = _option(0, "such messages stay while the log is smaller, bytes", low=0)
    # A day: whoever deleted the wrong thing on a Friday evening finds out when the next shift begins.
    trash_age_ms: int = _option(
        24 * 3_600_000, "how long what was emptied or deleted of the log can be restored (0: not at all)", low=0
    )
    trash_max_bytes: int = _option(
        10 << 30, "most bytes of the log that the trash alone keeps; beyond, its oldest entries go (0: no limit)", low=0
    )
    pipeline_retention_bytes: int = _option(
        10 << 30,
        "most bytes of the log that one pipeline cursor keeps; beyond, it gives up messages (0: no limit)",
        low=0,
    )
    # The kernel counts a process of priority 5 for a third of one of 0: beside a busy program on each core the worker
    # still has a quarter of them.
    worker_nice: int = _option(
        5, "priority of the pipeline's worker, 0 (as the server) to 19 (only when nothing else runs)", low=0, high=19
    )
    # Spark refuses to start with less than 450 MiB. Java takes about 300 MiB for its own besides.
    worker_memory_bytes: int = _option(
        512 << 20,
        "heap of the pipeline worker's Java, bytes; Java's own and the Python processes come on top",
        low=512 << 20,
    )
    # Two leave the engine a core on most machines; each takes about 80 MiB while it works.
    worker_python_processes: int = _option(
        2, "Python processes of the pipeline's worker that read or write messages at once", low=1, high=256
    )
    # A start costs some fifteen seconds of a core, as much as ten minutes of waiting.
    worker_rest_ms: int = _option(
        300_000,
        "how long the pipeline's worker waits for work before it ends; work starts it again (0: it stays)",
        low=0,
    )
    set_aside_segment: str = _option(
        "", "a segment that can't be read: the start reports what would be lost without it; NAME:COUNT sets it aside"
    )
    drop_unknown_topics: bool = _option(
        False, "start though the log has messages of topics that topology.json does not know, and drop those messages"
    )
    # 90 days: who looks into an incident of the last quarter still finds the bytes.
    set_aside_retention_ms: int = _option(
        7_776_000_000,
        "how long damaged files that were set aside are kept, and the bytes in quarantine (0: for ever)",
        low=0,
    )
    samples_interval_ms: int = _option(
        10_000, "how often the server's stats are sampled, each second at most (0: never)", low=0
    )
    samples_retention_ms: int = _option(604_800_000, "how long samples are kept", low=60_000)
    samples_retention_bytes: int = _option(1 << 30, "most bytes that samples may take on disk", low=64 << 20)
    # Of a channel there are about fifty: enough for two thousand channels. Such an answer has 9 MB, as gzip 0.4 MB.
    metrics_series_max: int = _option(
        100_000, "most series of single topics and channels in /metrics; beyond, some are left out (0: no limit)", low=0
    )
    http_token: str = _option(
        "", "HTTP requests that read bodies, publish or change anything need Authorization: Bearer TOKEN"
    )

    stop_timeout_ms: int = _option(
        60_000, "how long a stop goes on trying while the disk refuses and nothing advances", low=0
    )

    # Queues.
    mem_queue_size: int = _option(
        10_000,
        "messages in memory per topic and per channel, on diskqueue; one that comes back waits behind at most so many",
        low=0,
    )
    # 10,000 messages of 6 KiB: where those are larger, their bytes decide.
    mem_queue_bytes: int = _option(
        64 << 20, "bytes of messages in memory per topic and per channel, on diskqueue", low=0
    )
    # Four full queues. A message that several channels have is counted for each.
    mem_queue_total_bytes: int = _option(
        256 << 20, "bytes of messages in memory in all, on diskqueue; beyond, they go to disk", low=0
    )
    max_bytes_per_file: int = _option(100 << 20, "bytes per disk queue file before it rolls", low=1 << 10)
    sync_every: int = _option(2_500, "disk queue writes per fsync", low=1)
    sync_timeout_ms: int = _option(2_000, "longest time between fsyncs of a written disk queue", low=1)

    # Messages.
    msg_timeout_ms: int = _option(60_000, "how long a consumer may hold a message", low=1)
    max_msg_timeout_ms: int = _option(900_000, "longest time a message may be in flight with TOUCH", low=1)
    max_msg_size: int = _option(1 << 20, "largest message body in bytes", low=1, high=1 << 30)
    max_body_size: int = _option(5 << 20, "largest command body in bytes", low=1, high=1 << 30)
    # A dozen of the largest at once keep any disk busy; more would only wait in memory.
    max_pending_body_bytes: int = _option(
        64 << 20, "bytes of unfinished bodies in all, TCP and HTTP; beyond, reading them waits", low=1
    )
    max_req_timeout_ms: int = _option(3_600_000, "longest delay of REQ and DPUB", low=0)

    # An hour: longer than most repairs, shorter than a shift.
    pause_limit_ms: int = _option(
        3_600_000, "a pause without an end has outlived its time after so long, which pages and metrics say (0: never)",
        low=0,
    )  # fmt: skip

    # Clients.
    max_heartbeat_interval_ms: int = _option(60_000, "longest heartbeat interval a client may ask for", low=1_000)
    client_timeout_ms: int = _option(60_000, "how long a client that sent no IDENTIFY may be silent", low=1_000)
    max_rdy_count: int = _option(2_500, "largest RDY", low=1)
    max_output_buffer_size: int = _option(64 << 10, "largest output buffer a client may ask for, bytes", low=64)
    max_output_buffer_timeout_ms: int = _option(30_000, "longest output buffer timeout a client may ask for", low=1)
    output_buffer_timeout_ms: int = _option(250, "output buffer timeout a client gets without asking", low=0)
    max_channel_consumers: int = _option(0, "consumers per channel (0: unlimited)", low=0)
    max_connections: int = _option(
        10_000, "TCP and HTTP connections at once, each; fewer where descriptors are few", low=1
    )
    magic_timeout_ms: int = _option(5_000, "how long a new connection may take to send its magic", low=100)
    command_timeout_ms: int = _option(
        10_000, "how long a command and its body may take from first byte to last, per MiB begun", low=100
    )
    requeue_on_disconnect: bool = _option(
        True, "give a lost consumer's messages back at once (false: wait for their timeout, as nsqd)"
    )

    # Quarantine: each message costs some 300 bytes of memory, and keeps its segment.
    quarantine_max_count: int = _option(
        10_000, "quarantined messages per channel; beyond, messages wait again as without a quarantine", low=1
    )
    quarantine_max_bytes: int = _option(
        256 << 20, "bytes of quarantined messages per channel; beyond, messages wait again", low=1
    )
    # For ever would keep the log's segments for ever; a week is long enough to look.
    quarantine_max_age_ms: int = _option(
        7 * 24 * 3_600_000, "after how long a quarantined message waits again, attempts anew (0: never)", low=0
    )

    # The scan loop: nsqd's shape; channels are picked by earliest deadline instead of at random.
    queue_scan_interval_ms: int = _option(100, "how often deadlines are checked", low=1)
    queue_scan_selection_count: int = _option(20, "channels handled per pass", low=1)
    queue_scan_dirty_percent: int = _option(
        25, "share of a pass that had work, above which another follows", low=0, high=100
    )

    # Limits against exhaustion.
    max_topics: int = _option(10_000, "topics", low=1)
    max_channels_per_topic: int = _option(1_000, "channels per topic", low=1)
    max_deferred_per_channel: int = _option(1_000_000, "deferred messages per channel: they cost memory", low=0)
    # Two channels of the log at the limit above, or 500 messages of 1 MiB on `diskqueue`, whose bodies are in memory.
    max_deferred_bytes: int = _option(
        512 << 20,
        "bytes of memory for deferred messages in all; beyond, DPUB is refused and REQ slows its channel",
        low=0,
    )
    # What is in flight on `diskqueue` is in memory alone. As much as waits in all memory queues together.
    max_in_flight_bytes: int = _option(
        256 << 20, "bytes of messages in flight in all, on diskqueue; beyond, channels wait for FIN", low=0
    )

    def validate(self) -> None:
        """Check every limit at once. Raises OptionsError with all complaints, each naming flag, value and limit."""
        complaints: list[str] = []
        for spec in fields(self):
            value = getattr(self, spec.name)
            low, high = spec.metadata["low"], spec.metadata["high"]
            if low is not None and value < low:
                complaints.append(f"{flag_of(spec.name)} is {value}: the least is {low}")
            if high is not None and value > high:
                complaints.append(f"{flag_of(spec.name)} is {value}: the most is {high}")
            choices = spec.metadata["choices"]
            if choices and value not in choices:
                complaints.append(f"{flag_of(spec.name)} is {value!r}: it can be {', '.join(choices)}")
        for name in ("tcp_address", "http_address"):
            try:
                split_address(getattr(self, name))
            except ValueError as exc:
                complaints.append(f"{flag_of(name)}: {exc}")
        if self.max_msg_size > self.max_body_size:
            complaints.append(f"--max-msg-size {self.max_msg_size} is more than --max-body-size {self.max_body_size}")
        if self.msg_timeout_ms > self.max_msg_timeout_ms:
            complaints.append(
                f"--msg-timeout {self.msg_timeout_ms}ms is more than --max-msg-timeout {self.max_msg_timeout_ms}ms"
            )
        segment_bytes_min = LOG_BYTES_PER_BODY_BYTE_MAX * self.max_body_size
        if self.log_segment_bytes < segment_bytes_min:
            complaints.append(
                f"--log-segment-bytes {self.log_segment_bytes} is less than {segment_bytes_min}, "
                f"which an MPUB of --max-body-size {self.max_body_size} may need"
            )
        if complaints:
            raise OptionsError(complaints)

    @property
    def gathered_bytes_max(self) -> int:
        """Most bytes of messages that came one by one and are appended together, each counted with MPUB_SIZE_BYTES:
        no more than an MPUB may have, so that the record fits a file of the log."""
        return min(GATHERED_BYTES_MAX, self.max_body_size)

    @property
    def effective_node_id(self) -> int:
        return self.node_id if self.node_id >= 0 else _node_id()

    @property
    def effective_broadcast_address(self) -> str:
        return self.broadcast_address or socket.gethostname()


def flag_of(field_name: str) -> str:
    """The command line's name of a field: `msg_timeout_ms` → `--msg-timeout`."""
    return "--" + field_name.removesuffix("_ms").replace("_", "-")


def environment_name_of(field_name: str) -> str:
    """The environment's name of a field: `msg_timeout_ms` → `PENSTOCK_MSG_TIMEOUT`."""
    return "PENSTOCK_" + field_name.removesuffix("_ms").upper()


def parse_option(field_name: str, text: str) -> Any:
    """The value of a field from its text on the command line or in the environment.

    Raises ValueError with a sentence that names the text. A list is comma-separated.
    """
    spec = next(spec for spec in fields(Options) if spec.name == field_name)
    if field_name.endswith("_ms"):
        return parse_duration_ms(text)
    if spec.type is bool:
        return parse_bool(text)
    if spec.type is int:
        if not re.fullmatch(r"-?[0-9]{1,19}", text):
            raise ValueError(f"{text!r} is not a whole number")
        return int(text)
    if spec.type is str:
        return text
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_bool(text: str) -> bool:
    """Raises ValueError with a sentence that names the text."""
    if text.lower() in ("true", "1", "yes", "on"):
        return True
    if text.lower() in ("false", "0", "no", "off"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def split_address(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, brackets around an IPv6 host taken off. Raises ValueError naming the text."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
