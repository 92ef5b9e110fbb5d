"""The bar of the rollups' stream: how far it is through the samples, counted by their offsets."""

from typing import Any

import orjson

from queue_engine.names import SAMPLES_TOPIC
from queue_engine.pipeline.job_context import JobContext
from queue_engine.pipeline.job_state import RUNNING, JobState
from queue_engine.pipeline.lake import HISTORY_MANIFEST


class SamplesBar:
    """How far the stream of the rollups is: by the offsets of its last batch, and where the samples end."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._began_at: int | None = None

    def tell(self, progress: Any) -> None:
        """progress: Spark's of the last batch; None before there is one."""
        topic = self._context.engine.topic(SAMPLES_TOPIC)
        done_to = _end_offset_of(progress)
        if done_to is None:
            history = self._context.lake.read_manifest(HISTORY_MANIFEST) or {}
            done_to = history.get("samples_offset")
        if done_to is None:
            done_to = topic.oldest_offset
        if self._began_at is None:
            self._began_at = done_to
        rate = progress["processedRowsPerSecond"] if progress else None
        self._context.report(
            JobState(
                "rollup",
                RUNNING,
                done=max(done_to - self._began_at, 0),
                total=max(topic.synced_offset - self._began_at, 0),
                unit="samples",
                rows_per_s=round(rate, 1) if isinstance(rate, int | float) else None,
                lag=max(topic.synced_offset - done_to, 0),
            )
        )


def _end_offset_of(progress: Any) -> int | None:
    """Up to where a batch has read its one topic: Spark tells {"topic/number/id base": offset} as text."""
    if not progress:
        return None
    told = progress["sources"][0]["endOffset"]
    try:
        offsets = orjson.loads(told) if isinstance(told, str) else told
    except orjson.JSONDecodeError:
        return None
    numbers = [value for value in offsets.values() if isinstance(value, int)] if isinstance(offsets, dict) else []
    return numbers[0] if len(numbers) == 1 else None
