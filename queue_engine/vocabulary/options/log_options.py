"""The log: syncs and retention, the pipeline's worker, damaged files, samples."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary.options.option import OptionGroup, flag_of, option
from queue_engine.vocabulary.retention import ARCHIVE_BYTES_MIN, ARCHIVE_MS_MIN

LAKE_SCHEMES = ("s3", "gs", "az")
# More would archive faster, and take cores and memory from publishers.
PYTHON_PROCESSES_MAX = 2  # unless the option sets more


@dataclass(frozen=True, init=False, repr=False, eq=False)
class LogOptions(OptionGroup):
    """The log and its readers."""

    TITLE = "the log and its readers"

    # The storage kind of a new topic, and when a message of a `log` topic is acknowledged.
    storage: str = option("log", "storage kind of new topics: log or diskqueue", choices=("log", "diskqueue"))
    sync: str = option(
        "always",
        "when the log is on the disk: always (before OK), interval, or os (safe against kill -9, not a power cut)",
        choices=("always", "interval", "os"),
    )
    sync_interval_ms: int = option(500, "with --sync interval: longest time between syncs", low=1)
    sync_interval_bytes: int = option(4 << 20, "with --sync interval: most bytes between syncs", low=1)
    log_segment_bytes: int = option(128 << 20, "bytes per file of the log", low=64 << 10, high=1 << 40)

    # Six MPUBs of --max-body-size, so that as many channels may lag by different amounts without reading them twice.
    log_cache_bytes: int = option(32 << 20, "bytes of the log cached for the channels that read them next", low=0)
    log_retention_ms: int = option(
        0, "how long messages that all channels have finished stay in the log (0: they are removed)", low=0
    )
    log_retention_bytes: int = option(0, "such messages stay while the log is smaller, bytes", low=0)
    # A day: a wrong deletion on a Friday evening shows when the next shift begins.
    trash_age_ms: int = option(
        24 * 3_600_000, "how long emptied or deleted messages of the log can be restored (0: not at all)", low=0
    )
    trash_max_bytes: int = option(
        10 << 30, "most bytes of the log that the trash alone keeps; beyond, its oldest entries go (0: no limit)", low=0
    )
    pipeline_retention_bytes: int = option(
        10 << 30,
        "most bytes of the log that one pipeline cursor keeps; beyond, it gives up messages (0: no limit)",
        low=0,
    )


def python_processes_of(chosen: int, cores: int) -> int:
    """The worker's Python processes: `chosen` of them, or, for 0, so many that the engine keeps a core for itself."""
    return chosen or max(1, min(PYTHON_PROCESSES_MAX, cores - 1))


@dataclass(frozen=True, init=False, repr=False, eq=False)
class WorkerOptions(OptionGroup):
    """The pipeline's worker."""

    TITLE = "the pipeline's worker"

    # The kernel counts a process of priority 5 for a third of one of 0: beside a busy program on each core the worker
    # still has a quarter of them.
    worker_nice: int = option(
        5, "priority of the pipeline's worker, 0 (as the server) to 19 (only when nothing else runs)", low=0, high=19
    )
    # Spark refuses to start with less than 450 MiB. Java takes about 300 MiB for its own besides.
    worker_memory_bytes: int = option(
        512 << 20,
        "heap of the pipeline worker's Java, bytes; Java's own and the Python processes come on top",
        low=512 << 20,
    )
    # Each takes a core and about 80 MiB while it works.
    worker_python_processes: int = option(
        0,
        "Python processes of the pipeline's worker that read or write messages at once "
        f"(0: one fewer than the cores, {PYTHON_PROCESSES_MAX} at most)",
        low=0,
        high=256,
    )
    # A start costs some fifteen seconds of a core, as much as ten minutes of waiting.
    worker_rest_ms: int = option(
        300_000,
        "how long the pipeline's worker waits for work before it ends; work starts it again (0: it stays)",
        low=0,
    )
    lake: str = option(
        "",
        "where the archive's tables are: a directory, or s3://BUCKET/PREFIX, gs:// or az:// (default: pipeline/ of the "
        "data directory)",
    )
    # Topics may have limits of their own, set on their pages.
    archive_retention_ms: int = option(0, "retention of archived messages by age (0: for ever)", low=0)
    archive_retention_bytes: int = option(0, "most bytes of a topic's archive, the oldest go (0: no limit)", low=0)
    # Readers outside can't be seen, and those of ours may take hours.
    archive_vacuum_ms: int = option(
        604_800_000, "how long files of the archive stay that are merged or dropped, for its readers", low=86_400_000
    )

    def complaints(self) -> Iterator[str]:
        scheme, separator, rest = self.lake.partition("://")
        if separator and (scheme not in LAKE_SCHEMES or not rest.partition("/")[0]):
            yield (
                f"{flag_of('lake')}: {self.lake[:80]!r} is neither a directory nor begins with "
                f"{', '.join(f'{one}://BUCKET' for one in LAKE_SCHEMES)}"
            )
        # A slip of the hand would empty the archive.
        if 0 < self.archive_retention_ms < ARCHIVE_MS_MIN:
            yield f"--archive-retention is {self.archive_retention_ms} ms: it can be 0 or at least 1h"
        if 0 < self.archive_retention_bytes < ARCHIVE_BYTES_MIN:
            yield (
                f"--archive-retention-bytes is {self.archive_retention_bytes}: it can be 0 or at least"
                f" {ARCHIVE_BYTES_MIN}"
            )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class DamageOptions(OptionGroup):
    """Damaged files."""

    TITLE = "damaged files"

    set_aside_segment: str = option(
        "", "a segment that can't be read: the start reports the loss without it; NAME:COUNT sets it aside"
    )
    drop_unknown_topics: bool = option(
        False, "start though the log has messages of topics that topology.json does not list, and drop those messages"
    )
    # 90 days: after an incident of the last quarter the bytes are still there.
    set_aside_retention_ms: int = option(
        7_776_000_000,
        "retention of damaged files that were set aside, and of the bytes in quarantine (0: for ever)",
        low=0,
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class SampleOptions(OptionGroup):
    """Samples of the server's stats, and metrics."""

    TITLE = "samples of the server's stats, metrics"

    samples_interval_ms: int = option(
        10_000, "how often the server's stats are sampled, each second at most (0: never)", low=0
    )
    samples_retention_ms: int = option(604_800_000, "retention of samples by age", low=60_000)
    samples_retention_bytes: int = option(1 << 30, "most bytes that samples may take on disk", low=64 << 20)
    # Of a channel there are about fifty: enough for two thousand channels. Such an answer has 9 MB, as gzip 0.4 MB.
    metrics_series_max: int = option(
        100_000, "most series of single topics and channels in /metrics; beyond, some are left out (0: no limit)", low=0
    )
