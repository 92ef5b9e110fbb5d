"""Every option of the engine: all groups in one object, checked as a whole.

The flag of a field is its name with dashes and without its unit; the environment variable is PENSTOCK_ and the
flag in capitals: `msg_timeout_ms` is `--msg-timeout 60s` and `PENSTOCK_MSG_TIMEOUT=60s`.
"""

import hashlib
import socket
import zlib
from dataclasses import dataclass, fields

from queue_engine.vocabulary.errors import OptionsError
from queue_engine.vocabulary.options.client_options import ClientOptions
from queue_engine.vocabulary.options.discovery_options import DiscoveryOptions
from queue_engine.vocabulary.options.disk_queue_options import DiskQueueOptions
from queue_engine.vocabulary.options.identity_options import IdentityOptions
from queue_engine.vocabulary.options.limit_options import LimitOptions, ScanOptions
from queue_engine.vocabulary.options.log_options import DamageOptions, LogOptions, SampleOptions, WorkerOptions
from queue_engine.vocabulary.options.message_options import MessageOptions, QuarantineOptions
from queue_engine.vocabulary.options.option import OptionGroup, flag_of
from queue_engine.vocabulary.options.server_options import AccessOptions, ServerOptions
from queue_engine.vocabulary.options.stats_options import StatsOptions
from queue_engine.vocabulary.options.wire_options import WireOptions

# The most bytes in the log for a byte of an MPUB's body: a message of one byte is 5 there and at most 67 in a record.
LOG_BYTES_PER_BODY_BYTE_MAX = 16
# Bytes of a message in an MPUB's body beside its own.
MPUB_SIZE_BYTES = 4
# Messages that came one by one and are appended together are at most so many bytes, counted as an MPUB counts them.
GATHERED_BYTES_MAX = 1 << 20


# The help shows the groups from the last one here to the first: a dataclass takes its fields in that order.
@dataclass(frozen=True)
class Options(
    LimitOptions,
    ScanOptions,
    QuarantineOptions,
    WireOptions,
    ClientOptions,
    MessageOptions,
    DiskQueueOptions,
    DiscoveryOptions,
    IdentityOptions,
    AccessOptions,
    StatsOptions,
    SampleOptions,
    DamageOptions,
    WorkerOptions,
    LogOptions,
    ServerOptions,
):
    """All options of the engine. Check with `validate()` once at start."""

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
                complaints.append(f"{flag_of(spec.name)} is {value!r}: it can be {', '.join(filter(None, choices))}")
        for group in option_groups():
            complaints.extend(group.complaints(self))
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


def option_groups() -> tuple[type[OptionGroup], ...]:
    """All groups, in the order in which the help shows them."""
    return tuple(group for group in reversed(Options.__mro__) if "TITLE" in vars(group))


def _node_id() -> int:
    """nsqd's own for this host name: stable, and different on most machines."""
    digest = hashlib.md5(socket.gethostname().encode(), usedforsecurity=False).digest()
    return zlib.crc32(digest) % 1024
