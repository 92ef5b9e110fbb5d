"""Stats for other programs: latency percentiles, statsd, debugging."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary.options.addresses import split_address
from queue_engine.vocabulary.options.option import OptionGroup, option

# Every path through the internet carries so much in one piece: 576 bytes less the heads of IP and UDP.
PACKET_BYTES = 508
PACKET_BYTES_MAX = 65_507  # UDP has no more


@dataclass(frozen=True, init=False, repr=False, eq=False)
class StatsOptions(OptionGroup):
    """Latency percentiles, statsd, and looking into the process."""

    TITLE = "latency percentiles, statsd, debugging"

    e2e_processing_latency_percentile: tuple[float, ...] = option(
        (), "a percentile of the time from publish to FIN, such as 0.99, shown in /stats and sent to statsd"
    )
    e2e_processing_latency_window_time_ms: int = option(
        600_000,
        "which messages the percentiles are of: those finished in the last half to whole of this time",
        low=2_000,
    )

    statsd_address: str = option("", "HOST:PORT of a statsd daemon that gets the stats by UDP (default: none)")
    statsd_prefix: str = option("nsq.%s", "prefix of their names; %s becomes this server's address and HTTP port")
    statsd_interval_ms: int = option(60_000, "how often they are sent", low=100)
    statsd_mem_stats: bool = option(True, "send the memory of the process, too")
    statsd_udp_packet_size: int = option(PACKET_BYTES, "most bytes of one packet", low=100, high=PACKET_BYTES_MAX)
    statsd_exclude_ephemeral: bool = option(False, "leave topics and channels named #ephemeral out")

    # Stacks and types of objects say much about the server, and counting objects takes a share of a core.
    debug_endpoints: bool = option(False, "answer /debug/… over HTTP: threads, tasks and memory of the process")

    def complaints(self) -> Iterator[str]:
        for one in self.e2e_processing_latency_percentile:
            if not 0 < one <= 1:
                yield f"--e2e-processing-latency-percentile is {one:g}: it can be more than 0, up to 1"
        if self.statsd_address:
            try:
                split_address(self.statsd_address)
            except ValueError as exc:
                yield f"--statsd-address: {exc}"
        prefix = self.statsd_prefix
        if not (prefix.isascii() and prefix.isprintable()) or any(char in prefix for char in ":| "):
            yield f"--statsd-prefix is {prefix!r}: it can have printable ASCII without a space, : or |"

    def effective_statsd_prefix(self, host: str, http_port: int) -> str:
        """The prefix of names: %s becomes the server's address and HTTP port, without dots and colons."""
        address = f"[{host}]" if ":" in host else host
        server = f"{address}:{http_port}".replace(".", "_").replace(":", "_")
        prefix = self.statsd_prefix.replace("%s", server)
        return prefix if not prefix or prefix.endswith(".") else prefix + "."
