"""The answer to a form whose token is missing or old."""

from django.http import HttpRequest, HttpResponse

from admin_console.permissions.answers import refusal

_SENTENCE = (
    "This form was not sent: its protection token is missing or belongs to an older session. "
    "Reload the page and try again. Nothing was changed."
)


def refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 in the form the caller understands. `reason` is Django's word, for the log only."""
    return refusal(request, _SENTENCE, status=403)
