"""The resources that a job of the pipeline gets from its process; jobs use no globals."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.archive_settings import ArchiveSettings
from queue_engine.lake.job.reports import JobReports
from queue_engine.lake.job.state import JobState
from queue_engine.lake.source.read_options import AUTO
from queue_engine.vocabulary.clock import Clock

if TYPE_CHECKING:
    from queue_engine.lake.tables.tables import LakeTables


@dataclass(frozen=True, slots=True)
class JobResources:
    """The resources that all jobs of a process share.

    spark: the process's SparkSession; None where no job needs it. lake: the pipeline's directory, held by this process.
    make_engine: makes a client for one thread. reports: writes the jobs' states. read_from: where messages of topics
    are read, as in `ReadOptions`. archive: its options.
    """

    spark: Any
    lake: Lake
    make_engine: Callable[[], LogClient]
    clock: Clock
    reports: JobReports
    read_from: str = AUTO
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)


@dataclass(frozen=True, slots=True)
class JobContext:
    """The resources of one job; see `JobResources`.

    engine: this job's own client, for its thread. stop: set when the job has to end early, in a state from which it can
    go on later. report: takes the job's state, as often as the job likes; at most one a second is written.
    """

    spark: Any
    lake: Lake
    engine: LogClient
    clock: Clock
    stop: threading.Event
    report: Callable[[JobState], None]
    read_from: str = AUTO
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)

    def open_tables(self) -> "LakeTables":
        """The archive's tables; a job opens them once. Raises StorePlaceError."""
        # Here, since the console imports this module, and pyarrow takes 90 MB.
        from queue_engine.lake.tables.storage import TableStorage
        from queue_engine.lake.tables.tables import LakeTables

        return LakeTables(TableStorage(self.archive.place or self.lake.path), clock=self.clock)
