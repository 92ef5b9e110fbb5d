"""Readings of many topics, channels and consumers are made in short slices, and what comes and goes between two of them
is in no answer twice."""

from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import orjson

from queue_engine.service.http.stats import Wanted, stats_json
from queue_engine.service.http.stats_templates import StatsTemplates
from queue_engine.stats_walk import SLICE_CLIENTS
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, make_topic

CONSUMERS = 10 * SLICE_CLIENTS

T = TypeVar("T")


def counted(steps: Generator[None, None, T]) -> tuple[int, T]:
    """How many pauses there were, and what was returned."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            returned: T = stop.value
            return pauses, returned
        pauses += 1


def test_many_consumers_of_one_channel_are_read_and_written_in_slices(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    make_topic(engine, "t", "a")
    consumers = [Client(engine, "t", "a") for _ in range(CONSUMERS)]
    steps = engine.stats.readings_in_slices(has_clients=True)
    next(steps)  # the first consumers are read
    consumers[0].leave()
    consumers[-1].leave()
    late = Client(engine, "t", "a")
    pauses, reading = counted(steps)
    assert pauses >= CONSUMERS // SLICE_CLIENTS - 1
    templates = StatsTemplates()
    pauses, text = counted(stats_json(reading, Wanted(), templates))
    assert pauses >= CONSUMERS // SLICE_CLIENTS
    (channel,) = orjson.loads(text)["topics"][0]["channels"]
    found = [client["client_id"] for client in channel["clients"]]
    assert channel["client_count"] == len(found) == CONSUMERS - 1
    assert found == [client.stats().client_id for client in [*consumers[1:-1], late]]
    pauses, snapshot = counted(engine.stats.in_slices(lambda topic, channel: True))
    assert pauses >= CONSUMERS // SLICE_CLIENTS - 1
    listed = snapshot.topics[0].channels[0].clients or ()
    assert [client.client_id for client in listed] == found
    engine.close()
