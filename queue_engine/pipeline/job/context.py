"""What every job of the pipeline is given: nothing of it is found in globals."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queue_engine.pipeline.job.reports import JobReports
from queue_engine.pipeline.job.state import JobState
from queue_engine.pipeline.source.read_options import AUTO
from queue_engine.vocabulary.clock import Clock

if TYPE_CHECKING:
    from queue_engine.pipeline.lake.lake import Lake
    from queue_engine.pipeline.source.log_client import LogClient


@dataclass(frozen=True, slots=True)
class JobResources:
    """What all jobs of a process share.

    spark: the process's SparkSession; None where no job needs it. lake: held by this process. make_engine: makes a
    client for one thread alone. reports: writes the jobs' states. read_from: where messages of topics are taken from, a
    word of `read_options.py`.
    """

    spark: Any
    lake: "Lake"
    make_engine: "Callable[[], LogClient]"
    clock: Clock
    reports: JobReports
    read_from: str = AUTO


@dataclass(frozen=True, slots=True)
class JobContext:
    """What one job gets; see `JobResources`.

    engine: a client of this job's own, for its thread alone. stop: set when the job is to end early and leave
    everything so that it can go on later. report: takes the job's state as often as it likes; at most one a second
    reaches the disk.
    """

    spark: Any
    lake: "Lake"
    engine: "LogClient"
    clock: Clock
    stop: threading.Event
    report: Callable[[JobState], None]
    read_from: str = AUTO
