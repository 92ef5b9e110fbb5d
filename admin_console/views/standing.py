"""Whether the state on an open page or dialog is current: static/standing.js reads its URL with `?still=1&shown=`."""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse

from admin_console.gateway.gateway import Asker, EngineUnavailableError, get_gateway
from admin_console.views.question import SHOWN

STILL = "still"
GONE, CHANGED = "gone", "changed"

_View = Callable[..., HttpResponse]


def standing(found: str, sentence: str) -> HttpResponse:
    """204 where nothing changed, for "" as `sentence`. Otherwise 200, since browsers log each 4xx as an error of the
    page, with `found` in X-Standing."""
    if not sentence:
        return HttpResponse(status=204)
    return HttpResponse(sentence, content_type="text/plain; charset=utf-8", headers={"X-Standing": found})


def stands(action: str, name: str = "") -> Callable[[_View], _View]:
    """A page without a live socket, with the state that the question of `action` shows. name: of an object without a
    topic."""

    def decorate(view: _View) -> _View:
        @wraps(view)
        def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            topic, channel = kwargs.get("topic", ""), kwargs.get("channel", "")
            if request.method != "GET" or STILL not in request.GET:
                # Read before the figures of the page; base.html has it. Some of these pages can do without an engine.
                with suppress(EngineUnavailableError):
                    request.META[SHOWN] = get_gateway().mark(topic, channel)
                return view(request, *args, **kwargs)
            gateway = get_gateway()
            asker = Asker(request.user.get_username(), request.GET.get(SHOWN, "")[:100])
            sentence = gateway.changed_since(action, topic, channel, asker, name)
            deletion = gateway.deletion_of(topic, channel) if sentence and topic else None
            return standing(CHANGED, sentence) if deletion is None else standing(GONE, deletion.sentence)

        return page

    return decorate
