"""Answers with 503 and a sentence when there is no engine to ask."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from admin_console.answers.refusal import refusal
from admin_console.gateway.gateway import EngineUnavailableError


class EngineUnavailable:
    """Middleware: the answer to EngineUnavailableError from any view is its sentence."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, EngineUnavailableError):
            return refusal(request, str(exception), status=503)
        return None
