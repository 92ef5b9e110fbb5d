"""A range of the past as columns: recorded windows and, where the range reaches them, the live seconds."""

from collections.abc import Callable

import orjson
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from admin_console.answers.refusal import refusal
from admin_console.gateway.gateway import get_gateway
from admin_console.gateway.history import HistorySource, HistoryUnreadableError
from admin_console.history.ranges import Range, RangeError, now_s, range_of
from admin_console.history.series import History, channel_history, overview_history, topic_history
from admin_console.hub.hub import LiveState, get_hub
from admin_console.screens.graphs import chosen_channels


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    chosen = chosen_channels(request.GET.get("draw", ""))
    return _answer(request, lambda source, live, span: overview_history(source, live, span, chosen=chosen))


@require_safe
def topic(request: HttpRequest, topic: str) -> HttpResponse:
    return _answer(request, lambda source, live, span: topic_history(source, live, topic, span))


@require_safe
def channel(request: HttpRequest, topic: str, channel: str) -> HttpResponse:
    return _answer(request, lambda source, live, span: channel_history(source, live, topic, channel, span))


def _answer(request: HttpRequest, read: Callable[[HistorySource, LiveState | None, Range], History]) -> HttpResponse:
    """`History.wire` as JSON; 400 for an invalid range, 503 for a history that can't be read, both with a sentence."""
    live = get_hub().live
    try:
        span = range_of(request.GET, now_s(live))
        found = read(get_gateway().history(), live, span)
    except RangeError as exc:
        return refusal(request, f"The range is not valid: {exc}", status=400)
    except HistoryUnreadableError as exc:
        return refusal(request, str(exc), status=503)
    return HttpResponse(orjson.dumps(found.wire(), option=orjson.OPT_SERIALIZE_NUMPY), content_type="application/json")
