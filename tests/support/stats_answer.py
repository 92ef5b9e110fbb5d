"""What `/stats` answers, without a server."""

from typing import Any

import orjson

from queue_engine.engine import Engine
from queue_engine.service.http.stats import Wanted, stats_json
from queue_engine.service.http.stats_templates import StatsTemplates
from queue_engine.vocabulary.pieces import whole


def stats_answer(
    engine: Engine, templates: StatsTemplates | None = None, *, has_clients: bool = False
) -> dict[str, Any]:
    """templates: with what is kept of the answer before; None for none."""
    reading = whole(engine.stats.readings_in_slices(has_clients=has_clients, takes_values=True))
    answer: dict[str, Any] = orjson.loads(whole(stats_json(reading, Wanted(), templates or StatsTemplates())))
    return answer
