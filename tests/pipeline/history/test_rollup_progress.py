"""How far the rollups say they are, when kills of the server have left offsets unused."""

import threading
from pathlib import Path
from typing import Any

from queue_engine.pipeline.history.rollup_progress import RollupProgress
from queue_engine.pipeline.job.context import JobContext
from queue_engine.pipeline.job.state import JobState
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from queue_engine.wire.topic_state import TopicState
from tests.support.clock import ManualClock

RESERVED = 1 << 20


class Engine:
    """Tells the samples that there are."""

    def __init__(self) -> None:
        self.ranges = [(0, 300), (RESERVED, RESERVED + 40)]

    def topic(self, topic: str) -> TopicState:
        end = self.ranges[-1][1]
        oldest = self.ranges[0][0]
        return TopicState(
            topic=topic,
            number=1,
            id_base=7,
            oldest_offset=oldest,
            synced_offset=end,
            end_offset=end,
            ranges=tuple(self.ranges),
        )


def batch_up_to(offset: int) -> dict[str, Any]:
    return {"sources": [{"endOffset": {f"{SAMPLES_TOPIC}/1/7": offset}}], "processedRowsPerSecond": 12.5}


def test_the_bar_counts_samples_and_no_unused_offsets(tmp_path: Path) -> None:
    engine: Any = Engine()
    told: list[tuple[int, int, int | None]] = []

    def report(state: JobState) -> None:
        told.append((state.done, state.total, state.lag))

    progress = RollupProgress(JobContext(None, Lake(str(tmp_path)), engine, ManualClock(), threading.Event(), report))
    progress.report(None)
    progress.report(batch_up_to(290))
    progress.report(batch_up_to(RESERVED + 10))
    engine.ranges = [(200, 300), (RESERVED, RESERVED + 40), (2 * RESERVED, 2 * RESERVED + 5)]
    progress.report(batch_up_to(2 * RESERVED + 1))
    assert told == [(0, 340, 340), (290, 340, 50), (310, 340, 30), (341, 345, 4)]
