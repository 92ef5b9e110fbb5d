"""Probes of the console's own address, as the engine's HTTP API has them; `/ping` is nsqadmin's as well.

    GET /ping, /livez   200 OK: the console answers
    GET /readyz         200 OK; a line more for each notice, such as a disk that refuses the audit list

Before the start is over, `/livez` answers 200 and all else 503 (queue_engine/service/start_probes.py).
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from admin_console.views.notices import notices

PATHS = frozenset({"/ping", "/livez", "/readyz"})


class Probes:
    """Middleware, before all that a probe does not need: its turn among the pages, a Host of the console's, a session.
    Who probes gets no more than the notices, as from the HTTP API."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info not in PATHS:
            return self._get_response(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        lines = ["OK"]
        if request.path_info == "/readyz":
            lines += (f"console: {notice.title} {notice.text}" for notice in notices())
        return HttpResponse("\n".join(lines), content_type="text/plain; charset=utf-8")
