"""Refusals as the caller reads them: a page, JSON or a plain line. Also the 503 while the engine does not answer."""

import re
from collections.abc import Callable
from contextlib import suppress

from django.conf import settings
from django.contrib.sessions.exceptions import SessionInterrupted
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict, RawPostDataException
from django.shortcuts import render

from admin_console.gateway.gateway import EngineUnavailableError, NoEngineError
from admin_console.vocabulary import form_limits
from admin_console.vocabulary.current_cluster import split_path

# The author of a link chooses its words, and an operator pastes this one into a shell. Names of files are no sub-path.
_SUB_PATH = re.compile(r"[A-Za-z0-9_-]{1,40}")
NO_SESSION = "Your session is over, or you have not logged in. Nothing was done; log in to go on."
# Over nsqadmin's interface.
_NO_CALLER = (
    "Nothing was done: the caller has no session. A program needs an address that --allow-api-from-cidr lists, a token "
    "of `penstock token create` (Authorization: Bearer TOKEN), or a proxy that names its user (--acl-http-header)."
)


def wants_json(request: HttpRequest) -> bool:
    """Whether the caller accepts JSON, or uses the API, which only has JSON."""
    if request.path_info.startswith(("/api/", "/config/")):
        return True
    accepted = request.headers.get("Accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def wants_fragment(request: HttpRequest) -> bool:
    """Whether the request comes from a dialog, which shows the answer without a page around it."""
    return bool(request.headers.get("X-Fragment"))


def refusal(request: HttpRequest, sentence: str, *, status: int, next_url: str = "") -> HttpResponse:
    """`sentence` with `status`, as the caller reads it. next_url: of the page that a log-in leads to."""
    if wants_json(request):
        if sentence == NO_SESSION and settings.CONSOLE.nsqadmin.has_path(request.path_info):
            sentence = _NO_CALLER
        return JsonResponse({"ok": False, "message": sentence}, status=status)
    if wants_fragment(request) or not getattr(request, "session", None):
        return HttpResponse(sentence, content_type="text/plain; charset=utf-8", status=status)
    context = {"sentence": sentence, "status": status, "next_url": next_url}
    return render(request, "accounts/refused.html", context, status=status)


def not_readable(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer to a request that Django refuses to read, such as a form beyond the limits."""
    status, sentence = 400, "The console can't read this request. Nothing was done."
    if isinstance(exception, TooManyFieldsSent):
        sentence = (
            f"The form has {_field_count(request)} fields, and the console reads {form_limits.FIELDS_MAX:,} at most. "
            "Nothing was done. Go back and select fewer."
        )
    elif isinstance(exception, RequestDataTooBig):
        sent, most = int(request.META.get("CONTENT_LENGTH") or 0), form_limits.BYTES_MAX
        status = 413
        sentence = f"The request has {sent:,} bytes, and the console reads {most:,} at most. Nothing was done."
    elif isinstance(exception, SessionInterrupted):
        # Found when the session is saved, behind the view.
        sentence = "Your session ended meanwhile: log in again. The audit list says whether an act was done."
    # The page around the sentence reads them.
    request.GET = request.POST = QueryDict()
    return refusal(request, sentence, status=status)


def _field_count(request: HttpRequest) -> str:
    """Of the query or the body, in words."""
    texts = [str(request.META.get("QUERY_STRING", "")).encode()]
    # The parts of a multipart body are read one by one, and no more than the limit.
    with suppress(RawPostDataException):
        texts.append(request.body)
    count = max(text.count(b"&") for text in texts) + 1
    return f"{count:,}" if count > form_limits.FIELDS_MAX else "too many"


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer to an unknown path. A proxy that serves the console below a path sends such paths."""
    sentence = "There is no such page."
    cluster, _ = split_path(request.path_info)
    if cluster:
        sentence = f"There is no cluster {cluster}: --lookupd-http-address and --nsqd-http-address name them."
    first = request.path.partition("/")[2].partition("/")[0]
    if not settings.CONSOLE.sub_path and _SUB_PATH.fullmatch(first) and first not in settings.CONSOLE_WORDS:
        sentence += (
            f" Where a proxy serves the console below /{first}, start the server with "
            f"--console-origin=https://HOST/{first}."
        )
    return refusal(request, sentence, status=404)


class EngineUnavailable:
    """Middleware: the answer to EngineUnavailableError from any view is its sentence, with 503; with 404 where this
    console has no engine at all."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, EngineUnavailableError):
            return refusal(request, str(exception), status=404 if isinstance(exception, NoEngineError) else 503)
        return None
