"""The answer to a form whose token is missing or old."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from admin_console.answers import drafts
from admin_console.answers.refusal import NO_SESSION, refusal, wants_fragment, wants_json
from admin_console.audit.record import FOREIGN_REQUEST, record_refusal

_FOREIGN = ("Origin checking failed", "Referer checking failed")
_SENTENCE = (
    "This form was not sent: its protection token is missing or belongs to an older session. "
    "Reload the page and try again. Nothing was changed."
)


def refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 in the form that the caller reads; a form of the same user's is shown again, with its typed fields.

    reason: Django's sentence; a foreign origin goes to the audit list. Each log-in makes a new token, so that the forms
    of other tabs come here.
    """
    if reason.startswith(_FOREIGN):
        record_refusal(request, FOREIGN_REQUEST, why=f"{reason} ({request.method} {request.path[:80]})")
    elif not wants_json(request) and (draft := drafts.draft_of(request)):
        if not request.user.is_authenticated:
            if wants_fragment(request):
                return refusal(request, NO_SESSION, status=401)
            return drafts.log_in_page(request, draft)
        if drafts.keep(request, draft):
            return HttpResponseRedirect(draft.url)
    return refusal(request, _SENTENCE, status=403)
