"""What the server tells about itself to other programs: latency percentiles."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary.options.option import OptionGroup, option


@dataclass(frozen=True)
class StatsOptions(OptionGroup):
    """Latency percentiles."""

    TITLE = "latency percentiles"

    e2e_processing_latency_percentile: tuple[float, ...] = option(
        (), "a percentile of the time from publish to FIN, such as 0.99, shown in /stats"
    )
    e2e_processing_latency_window_time_ms: int = option(
        600_000,
        "which messages the percentiles are of: those finished in the last half to whole of this time",
        low=2_000,
    )

    def complaints(self) -> Iterator[str]:
        for one in self.e2e_processing_latency_percentile:
            if not 0 < one <= 1:
                yield f"--e2e-processing-latency-percentile is {one:g}: it can be more than 0, up to 1"
