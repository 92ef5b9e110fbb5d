"""How far the rollups say they are, when kills of the server have left offsets unused."""

import threading
from pathlib import Path
from typing import Any

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history.checkpoint import CHECKPOINT
from queue_engine.lake.history.rollup_progress import RollupProgress
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.state import JobState
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


def end_batch(lake: Lake, batch: int, offset: int) -> None:
    """As Spark's checkpoint says that a batch has ended."""
    for name, text in (("commits", "v1\n{}"), ("offsets", f'v1\n{{}}\n{{"{SAMPLES_TOPIC}/1/7":{offset}}}')):
        path = Path(lake.within(CHECKPOINT), name, str(batch))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_bar_counts_samples_and_no_unused_offsets(tmp_path: Path) -> None:
    engine: Any = Engine()
    told: list[tuple[int, int, int | None]] = []

    def report(state: JobState) -> None:
        told.append((state.done, state.total, state.lag))

    lake = Lake(str(tmp_path))
    progress = RollupProgress(JobContext(None, lake, engine, ManualClock(), threading.Event(), report))
    progress.report(None)
    end_batch(lake, 0, 290)
    progress.report({"processedRowsPerSecond": 12.5})
    end_batch(lake, 1, RESERVED + 10)
    progress.report({"processedRowsPerSecond": 12.5})
    engine.ranges = [(200, 300), (RESERVED, RESERVED + 40), (2 * RESERVED, 2 * RESERVED + 5)]
    end_batch(lake, 2, 2 * RESERVED + 1)
    progress.report({"processedRowsPerSecond": 12.5})
    assert told == [(0, 340, 340), (290, 340, 50), (310, 340, 30), (341, 345, 4)]
