"""Refuses requests for a host that is not the console's, before anything else reads them."""

import logging
import time
from collections.abc import Callable

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse

logger = logging.getLogger(__name__)

_SENTENCE = "The console does not answer to this host name. See --allowed-host and --console-origin.\n"
LINES_PER_MINUTE_MAX = 10
_HOST_LENGTH_MAX = 80


class AllowedHosts:
    """Middleware: 400 and one line in the log. Beyond ten lines a minute refusals are counted in the next line."""

    sync_capable = True
    async_capable = False

    def __init__(
        self, get_response: Callable[[HttpRequest], HttpResponse], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._get_response = get_response
        self._monotonic_s = monotonic_s
        self._minute_began_s = monotonic_s()
        self._line_count = self._silent_count = 0

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            request.get_host()
        except DisallowedHost:
            self._tell(request)
            return HttpResponse(_SENTENCE, status=400, content_type="text/plain; charset=utf-8")
        return self._get_response(request)

    def _tell(self, request: HttpRequest) -> None:
        now_s = self._monotonic_s()
        if now_s - self._minute_began_s >= 60:
            self._minute_began_s, self._line_count = now_s, 0
        if self._line_count >= LINES_PER_MINUTE_MAX:
            self._silent_count += 1
            return
        self._line_count += 1
        host = request.META.get("HTTP_HOST", "")[:_HOST_LENGTH_MAX]
        before, self._silent_count = self._silent_count, 0
        logger.warning(
            "request refused, its host is not the console's: host=%r address=%s%s",
            host,
            request.META.get("REMOTE_ADDR", ""),
            f" refused_before={before}" if before else "",
        )
