"""The answer to a form whose token is missing or old."""

from django.http import HttpRequest, HttpResponse

from admin_console.answers.refusal import refusal
from admin_console.audit.record import FOREIGN_REQUEST, record_refusal

_FOREIGN = ("Origin checking failed", "Referer checking failed")
_SENTENCE = (
    "This form was not sent: its protection token is missing or belongs to an older session. "
    "Reload the page and try again. Nothing was changed."
)


def refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 in the form that the caller reads. reason: Django's sentence; a foreign origin goes to the audit list."""
    if reason.startswith(_FOREIGN):
        record_refusal(request, FOREIGN_REQUEST, why=f"{reason} ({request.method} {request.path[:80]})")
    return refusal(request, _SENTENCE, status=403)
