"""The last fifteen minutes as columns, a value a second, oldest first; null for seconds without a snapshot."""

from collections.abc import Sequence

import orjson
from django.http import HttpRequest, HttpResponse

from admin_console.hub.hub import Key, LiveState, get_hub
from admin_console.rings.rings import SECONDS
from admin_console.screens import graphs


def overview_series(request: HttpRequest) -> HttpResponse:
    live = get_hub().live
    return _answer(live, graphs.overview_plans(live, graphs.chosen_channels(request.GET.get("draw", ""))), None)


def topic_series(request: HttpRequest, topic: str) -> HttpResponse:
    live = get_hub().live
    return _answer(live, (*graphs.node_plans(live, topic), *graphs.topic_plans(topic)), (topic, ""))


def channel_series(request: HttpRequest, topic: str, channel: str) -> HttpResponse:
    live = get_hub().live
    plans = (*graphs.node_plans(live, topic, channel), *graphs.channel_plans(topic, channel))
    return _answer(live, plans, (topic, channel))


def _answer(live: LiveState | None, plans: Sequence[graphs.GraphPlan], key: Key | None) -> HttpResponse:
    """{"newest": Unix second, "seconds": 900, "columns": {...}, "graphs": {name: [column...]}, "labels", "paused"}.

    In a cluster it has "partial", too: the spans that lack a node's part. key: None for the overview.
    """
    rings = live.rings.get(key) if live and key else None
    newest = live.second if live else None
    body = {
        "newest": newest,
        "seconds": SECONDS,
        "columns": graphs.columns_of(live, plans),
        "graphs": {plan.name: [line.column for line in plan.lines] for plan in plans},
        "labels": {line.column: line.label for plan in plans for line in plan.lines},
        "paused": spans(rings.series("paused"), newest) if rings and newest is not None else [],
    }
    if live is not None and live.cluster is not None:
        body["partial"] = live.silences_of(*(key or ()))
    return HttpResponse(orjson.dumps(body), content_type="application/json")


def spans(paused: Sequence[float | None], newest: int) -> list[tuple[int, int]]:
    """First and last Unix second of every pause; a second without a snapshot neither ends nor begins one."""
    found: list[tuple[int, int]] = []
    begun: int | None = None
    first = newest - len(paused) + 1
    last = first
    for second, value in enumerate(paused, first):
        if value is None:
            continue
        if value and begun is None:
            begun = second
        elif not value and begun is not None:
            found.append((begun, second))
            begun = None
        last = second
    if begun is not None:
        found.append((begun, last))
    return found
