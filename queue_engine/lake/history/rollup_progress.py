"""The progress of the rollups' stream, for its bar on the page: samples read and samples left, not offsets."""

from typing import Any

from queue_engine.lake.history.checkpoint import samples_offset
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.state import RUNNING, JobState
from queue_engine.lake.source.wanted_range import synced_messages
from queue_engine.vocabulary.names import SAMPLES_TOPIC


class RollupProgress:
    """Computes the stream's progress from its checkpoint and the samples that the engine has."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._at: int | None = None  # the offset up to which `_done` counts
        self._done = 0

    def report(self, progress: Any) -> None:
        """Report the job's state. progress: Spark's progress of the last batch; None before the first one."""
        topic = self._context.engine.topic(SAMPLES_TOPIC)
        done_to = samples_offset(self._context.lake)
        if done_to is None:
            done_to = topic.oldest_offset
        if self._at is not None:
            self._done += synced_messages(topic).count_between(self._at, done_to)
        self._at = done_to
        left = synced_messages(topic).count_between(done_to, topic.synced_offset)
        rate = progress["processedRowsPerSecond"] if progress else None
        self._context.report(
            JobState(
                "rollup",
                RUNNING,
                done=self._done,
                total=self._done + left,
                unit="samples",
                rows_per_s=round(rate, 1) if isinstance(rate, int | float) else None,
                lag=left,
            )
        )
