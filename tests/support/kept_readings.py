"""Readings of `/stats` that may be kept, without a server."""

from collections.abc import Hashable
from typing import Any

import pytest

from queue_engine.delivery.kept_reading import KeptReading
from queue_engine.delivery.readings import TopicReading
from queue_engine.engine import Engine
from queue_engine.service.http.stats_templates import StatsTemplates
from queue_engine.vocabulary.pieces import whole
from tests.support.engine import make_topic, settle
from tests.support.stats_answer import stats_answer


def answered(engine: Engine, templates: StatsTemplates, *, has_clients: bool = False) -> list[dict[str, Any]]:
    topics: list[dict[str, Any]] = stats_answer(engine, templates, has_clients=has_clients)["topics"]
    return topics


def read_anew(engine: Engine, *, has_clients: bool = False) -> list[dict[str, Any]]:
    """The same without what is kept."""
    for topic in engine.topics.values():
        topic.changes.note()
    return answered(engine, StatsTemplates(), has_clients=has_clients)


def kept_names(engine: Engine, *, has_clients: bool = False) -> set[str]:
    """The topics of which a reading takes what is kept."""
    names: set[str] = set()
    read = KeptReading.read

    def noted(kept: KeptReading, sign: Hashable, **given: Any) -> TopicReading | None:
        found = read(kept, sign, **given)
        if found is not None:
            names.add(found.topic_name)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptReading, "read", noted)
        whole(engine.stats.readings_in_slices(has_clients=has_clients))
    return names


def two_resting(engine: Engine) -> None:
    for name in ("t", "other"):
        make_topic(engine, name, "a", "b")
        engine.publish(name, [b"x"] * 5)
        settle(engine)
