"""What every job of the pipeline is handed: nothing of it is found in globals."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queue_engine.pipeline.job.state import JobState
from queue_engine.pipeline.source.read_options import AUTO
from queue_engine.vocabulary.clock import Clock

if TYPE_CHECKING:
    from queue_engine.pipeline.lake.lake import Lake
    from queue_engine.pipeline.source.log_client import LogClient


@dataclass(frozen=True, slots=True)
class JobContext:
    """The surroundings of one job.

    spark: the process's SparkSession. lake: held by this process. engine: a client of this job's own, for its thread
    alone. stop: set when the job is to end early and leave everything so that it can go on later. report: takes the
    job's state as often as it likes; at most one a second reaches the disk. read_from: where messages of topics are
    taken from, a word of `read_options.py`.
    """

    spark: Any
    lake: "Lake"
    engine: "LogClient"
    clock: Clock
    stop: threading.Event
    report: Callable[[JobState], None]
    read_from: str = AUTO
