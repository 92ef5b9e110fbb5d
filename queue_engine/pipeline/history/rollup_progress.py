"""The bar of the rollups' stream: how far it is through the samples, counted by the messages between its offsets."""

from typing import Any

import orjson

from queue_engine.pipeline.job.context import JobContext
from queue_engine.pipeline.job.state import RUNNING, JobState
from queue_engine.pipeline.lake.lake import HISTORY_MANIFEST
from queue_engine.pipeline.source.wanted_range import synced_messages
from queue_engine.vocabulary.names import SAMPLES_TOPIC


class RollupProgress:
    """How far the stream of the rollups is: by the offsets of its last batch, and which samples there are."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._at: int | None = None  # `_done` counts the samples before it
        self._done = 0

    def tell(self, progress: Any) -> None:
        """progress: Spark's of the last batch; None before there is one."""
        topic = self._context.engine.topic(SAMPLES_TOPIC)
        done_to = _end_offset_of(progress)
        if done_to is None:
            history = self._context.lake.read_manifest(HISTORY_MANIFEST) or {}
            done_to = history.get("samples_offset")
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
