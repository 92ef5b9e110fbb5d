"""The answer to a request that failed: 503 with a sentence where the database was the reason, else 500."""

import sys

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from admin_console.answers.refusal import wants_fragment, wants_json
from admin_console.database.errors import Trouble, sqlite_error_of, trouble_of

_SENTENCES = {
    Trouble.DAMAGED: (
        "The console's database is damaged. The server sets it aside and makes a new one, which takes a few seconds; "
        "its log has the new log-in. Messages are not affected."
    ),
    Trouble.REFUSED: (
        "The disk refuses the console's database ({}). Nothing of this request was written. Free space, or see the "
        "server's log. Messages are not affected."
    ),
    Trouble.NONE: "This request failed; the server's log has the reason. Messages are not affected.",
}


def server_error(request: HttpRequest) -> HttpResponse:
    """Django calls this while it handles the exception. It uses neither users nor sessions: they may be the reason."""
    error = sys.exc_info()[1]
    trouble = trouble_of(error)
    sentence = _SENTENCES[trouble].format(sqlite_error_of(error))
    status = 500 if trouble is Trouble.NONE else 503
    if wants_json(request):
        return JsonResponse({"ok": False, "message": sentence}, status=status)
    if wants_fragment(request):
        return HttpResponse(sentence, content_type="text/plain; charset=utf-8", status=status)
    return render(None, "unavailable.html", {"sentence": sentence, "status": status}, status=status)
