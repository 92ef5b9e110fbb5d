"""Clients: the settings they may request, and how long they may be silent."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary.options.option import OptionGroup, option


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ClientOptions(OptionGroup):
    """Clients."""

    TITLE = "clients"

    max_heartbeat_interval_ms: int = option(60_000, "longest heartbeat interval a client may request", low=1_000)
    client_timeout_ms: int = option(60_000, "how long a client that sent no IDENTIFY may be silent", low=1_000)
    max_rdy_count: int = option(2_500, "largest RDY", low=1)
    max_output_buffer_size: int = option(64 << 10, "largest output buffer a client may request, bytes", low=64)
    min_output_buffer_timeout_ms: int = option(25, "shortest output buffer timeout a client may request", low=1)
    max_output_buffer_timeout_ms: int = option(30_000, "longest output buffer timeout a client may request", low=1)
    output_buffer_timeout_ms: int = option(250, "output buffer timeout of a client that requests none", low=0)
    max_channel_consumers: int = option(0, "consumers per channel (0: unlimited)", low=0)
    max_connections: int = option(
        10_000, "TCP and HTTP connections at once, each; fewer where descriptors are few", low=1
    )
    magic_timeout_ms: int = option(5_000, "how long a new connection may take to send its magic", low=100)
    command_timeout_ms: int = option(
        10_000,
        "how long a command may take, and once more for each MiB of its body; how long nothing of it may come",
        low=100,
    )
    requeue_on_disconnect: bool = option(
        True, "give a lost consumer's messages back at once (false: wait for their timeout, as nsqd)"
    )

    def complaints(self) -> Iterator[str]:
        if self.min_output_buffer_timeout_ms > self.max_output_buffer_timeout_ms:
            yield (
                f"--min-output-buffer-timeout {self.min_output_buffer_timeout_ms}ms is more than "
                f"--max-output-buffer-timeout {self.max_output_buffer_timeout_ms}ms"
            )
