"""What `/stats` answers, without a server."""

from typing import Any

import orjson

from queue_engine.engine.engine import Engine
from queue_engine.service.http.stats import Wanted, stats_json
from queue_engine.vocabulary.pieces import whole


def stats_answer(engine: Engine) -> dict[str, Any]:
    figures = whole(engine.stats.figures_in_slices())
    answer: dict[str, Any] = orjson.loads(whole(stats_json(figures, Wanted())))
    return answer
