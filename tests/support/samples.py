"""Takes samples when a test wants one, decodes them, and looks values up by name."""

from typing import Any

from queue_engine.engine.acts.log_acts import READ_MESSAGES_MAX, Target
from queue_engine.engine.engine import Engine
from queue_engine.engine.samples.sample_format import Sample, decode_sample
from queue_engine.vocabulary.acts.parameters import START
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from tests.support.clock import ManualClock
from tests.support.engine import pass_time

INTERVAL_MS = 10_000


def take_sample(engine: Engine, clock: ManualClock, *, ms: int = INTERVAL_MS) -> None:
    """Let an interval go by, and hand in the snapshot that follows."""
    pass_time(engine, clock, ms)
    engine.offer_sample(engine.stats.now(include_clients=False))


def samples_of(engine: Engine) -> list[Sample]:
    """All there are, oldest first."""
    found: list[Sample] = []
    target = Target(word=START)
    while True:
        page = engine.log.read_messages(SAMPLES_TOPIC, target, READ_MESSAGES_MAX)
        found += [decode_sample(one.body) for one in page.messages]
        if not page.messages:
            return found
        target = Target(offset=page.next_offset)


def topic_row(sample: Sample, topic: str) -> dict[str, Any]:
    """One topic's values in a sample."""
    table = sample["topics"]
    at = table["topic"].index(topic)
    return {column: values[at] for column, values in table.items()}


def channel_row(sample: Sample, topic: str, channel: str) -> dict[str, Any]:
    """One channel's values in a sample."""
    table = sample["channels"]
    at = list(zip(table["topic"], table["channel"], strict=True)).index((topic, channel))
    return {column: values[at] for column, values in table.items()}
