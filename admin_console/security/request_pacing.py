"""Every request waits in the queue of its kind before anything is computed for it (pacing/)."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from admin_console.accounts.known_browser import is_known
from admin_console.pacing.pace import PACE
from admin_console.pacing.request_queue import TurnTimeoutError

_BUSY = "Too many people are logging in at this moment. Try again in a few seconds.\n"


class PaceRequests:
    """The middleware right behind SecurityHeaders, so that its refusals carry the headers, too.

    A browser that has logged in before does not wait behind log-ins of unknown ones.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_log_in = request.path == reverse(settings.LOGIN_URL) and not is_known(request)
        try:
            with PACE.turn(is_log_in=is_log_in):
                return self._get_response(request)
        except TurnTimeoutError:
            return HttpResponse(
                _BUSY, status=503, content_type="text/plain; charset=utf-8", headers={"Retry-After": "5"}
            )
