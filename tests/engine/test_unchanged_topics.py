"""A topic of which nothing changed since `/stats` told it is told without a look at it, and rightly."""

from pathlib import Path

import orjson

from queue_engine.service.http.stats import Wanted, stats_json
from queue_engine.service.http.stats_templates import StatsTemplates
from queue_engine.stats_walk import SLICE_CHANNELS
from queue_engine.vocabulary.pieces import whole
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, make_topic, settle
from tests.support.kept_readings import answered, read_anew, two_resting


def test_an_answer_without_clients_follows_one_with_them(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    two_resting(engine)
    Client(engine, "t", "a")
    templates = StatsTemplates()
    for _ in range(2):
        for has_clients in (True, False):
            for _ in range(4):
                told = answered(engine, templates, has_clients=has_clients)
                assert told == read_anew(engine, has_clients=has_clients)
                assert told == answered(engine, templates, has_clients=has_clients)
    engine.close()


def test_a_topic_that_comes_when_another_one_goes_is_told_as_it_is(tmp_path: Path) -> None:
    for name in ("t", "before"):
        (directory := tmp_path / name).mkdir()
        engine = make_engine(directory, ManualClock())
        two_resting(engine)
        templates = StatsTemplates()
        for _ in range(3):
            answered(engine, templates)
        engine.acts.delete_topic("t")
        settle(engine)
        make_topic(engine, name, "a", "c")
        for _ in range(3):
            told = {one["topic_name"]: one["channels"] for one in answered(engine, templates)}
            depths = {topic: [(one["channel_name"], one["depth"]) for one in each] for topic, each in told.items()}
            assert depths == {name: [("a", 0), ("c", 0)], "other": [("a", 5), ("b", 5)]}
        engine.close()


def test_what_is_deleted_while_unchanged_topics_are_listed_is_not_in_the_answer(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    two_resting(engine)
    for number in range(2 * SLICE_CHANNELS):
        engine.acts.create_topic(f"a{number:02}")
        settle(engine)
    for _ in range(3):
        answered(engine, StatsTemplates())
    steps = engine.stats.readings_in_slices(has_clients=False, takes_values=True)
    next(steps)  # the first topics are listed
    for act in (
        lambda: engine.acts.delete_topic("a00"),  # which has no channel
        lambda: engine.acts.delete_channel("t", "a"),
        lambda: engine.acts.delete_topic("a01"),
        lambda: engine.acts.create_topic("a01"),
    ):
        act()
        settle(engine)
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        reading = stop.value
    told = orjson.loads(whole(stats_json(reading, Wanted(), StatsTemplates())))["topics"]
    names = [f"a{number:02}" for number in range(1, 2 * SLICE_CHANNELS)]
    assert [one["topic_name"] for one in told] == [*names, "other", "t"]
    assert [one["channel_name"] for one in told[-1]["channels"]] == ["b"]
    engine.close()
