"""Stats of many topics, channels and consumers are made in short slices, and what comes and goes between two of them
is in no answer twice."""

from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import orjson

from queue_engine.engine.figures.stats_walk import SLICE_CHANNELS, SLICE_CLIENTS
from queue_engine.service.http.stats import Wanted, stats_json
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, make_topic, settle

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
    steps = engine.stats.figures_in_slices(has_clients=True)
    next(steps)  # the first consumers are read
    consumers[0].leave()
    consumers[-1].leave()
    late = Client(engine, "t", "a")
    pauses, figures = counted(steps)
    assert pauses >= CONSUMERS // SLICE_CLIENTS - 1
    pauses, text = counted(stats_json(figures, Wanted()))
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


def test_what_is_deleted_while_topics_are_listed_is_not_in_the_answer(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    for name in ("t", "other"):
        make_topic(engine, name, "a", "b")
    for number in range(2 * SLICE_CHANNELS):
        engine.acts.create_topic(f"a{number:02}")
        settle(engine)
    steps = engine.stats.figures_in_slices()
    next(steps)  # the first topics are listed
    for act in (
        lambda: engine.acts.delete_topic("a00"),  # which has no channel
        lambda: engine.acts.delete_channel("t", "a"),
        lambda: engine.acts.delete_topic("a01"),
        lambda: engine.acts.create_topic("a01"),
    ):
        act()
        settle(engine)
    _, figures = counted(steps)
    listed = orjson.loads(counted(stats_json(figures, Wanted()))[1])["topics"]
    # The new a01 came behind the walk.
    names = [f"a{number:02}" for number in range(2, 2 * SLICE_CHANNELS)]
    assert [one["topic_name"] for one in listed] == [*names, "other", "t"]
    assert [one["channel_name"] for one in listed[-1]["channels"]] == ["b"]
    engine.close()


def test_a_channel_deleted_after_it_was_listed_is_not_in_the_answer(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    make_topic(engine, "t", *(f"c{number:02}" for number in range(2 * SLICE_CHANNELS)))
    steps = engine.stats.figures_in_slices()
    next(steps)
    engine.acts.delete_channel("t", "c00")
    settle(engine)
    (topic,) = counted(steps)[1].topics
    assert [one["channel_name"] for one in topic["channels"]] == [f"c{at:02}" for at in range(1, 2 * SLICE_CHANNELS)]
    engine.close()
