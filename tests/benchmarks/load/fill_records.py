"""An engine in process, filled with messages that were each published alone, a record of the log for each.

python -m tests.benchmarks.load.fill_records DATA_PATH TOPIC CHANNEL BODY_BYTES COUNT
"""

import sys
import time
from pathlib import Path

from queue_engine.engine.engine import Engine
from queue_engine.storage.commit_log.record import HEADER_BYTES
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.options.options import Options
from tests.benchmarks.load.gate import report, wait_for_go
from tests.support.engine import settle

TURN = 200  # records that are written together: what is written stays the same, it only takes less time


def fill(data_path: Path, topic: str, channel: str, body_bytes: int, count: int) -> None:
    """`count` messages; checks by the bytes written that none shared a record with another."""
    data_path.mkdir(parents=True)
    engine = Engine(
        Options(data_path=str(data_path), storage="log", sync="os"),
        clock=SystemClock(),
        files=Files(),
        backgrounds=Backgrounds.of(InlineBackground()),
    )
    engine.open()
    engine.acts.create_topic(topic)
    engine.acts.create_channel(topic, channel)
    settle(engine)
    body = b"x" * body_bytes
    wait_for_go()
    for first in range(0, count, TURN):
        for _ in range(min(TURN, count - first)):
            engine.publish_turn(topic, [body])
        settle(engine)
    log = engine.stats.now().log
    if log is None or log.written_bytes < count * (body_bytes + HEADER_BYTES):
        sys.exit("messages share records")
    engine.close()
    report(count=count, end_ns=time.monotonic_ns())


if __name__ == "__main__":
    path, topic_name, channel_name, body_text, count_text = sys.argv[1:]
    fill(Path(path), topic_name, channel_name, int(body_text), int(count_text))
