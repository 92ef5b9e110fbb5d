"""The fields of a form whose session had ended: the log-in carries them and fills the form in again. Nothing is done.

form ─ POST ─► 401: the log-in, which carries the fields ─ POST ─► the new session ─ GET ─► the question, filled in

The fields travel in the forms themselves: that works without scripts, has the size limit of forms, and leaves nothing
in the browser. The form of a dialog goes the same way once "Log in" is pressed there. The session has them between two
requests. A form names its user, signed (`typed_by`): another user gets nothing of it, and no stranger has it rendered.
A form without that field, such as a password's, is never carried.
"""

import time
from dataclasses import dataclass
from urllib.parse import unquote, urlencode, urlsplit

from django.contrib.auth.models import AbstractBaseUser
from django.core import signing
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from admin_console.answers.next_page import next_page

OWNER = "typed_by"
# A dialog's form with this field is to be shown again, not done.
SHOW_AGAIN = "ask_alone"
_CARRIED = "draft."
_KEY = "draft"
# The user types the name of the topic or channel to delete again.
_NOT_TYPED = frozenset({"csrfmiddlewaretoken", SHOW_AGAIN, "typed_name"})
# A list's rows have boxes of the name "id" and buttons of the name "only": a row's own button is about that row alone.
_SELECTED, _ONLY = "id", "only"
# From the log-in to the question that it leads to. A later question is another one.
LIFE_S = 120


@dataclass(frozen=True, slots=True)
class Draft:
    """owner: the name of the user who typed it. url: of the question. fields: names and values, in their order."""

    owner: str
    url: str
    fields: list[tuple[str, str]]

    def carried(self) -> list[tuple[str, str]]:
        """The fields as the log-in's form has them."""
        return [(f"{_CARRIED}{name}", value) for name, value in self.fields]


def typed_by(username: str) -> str:
    """The value of the field OWNER in a form of this user's."""
    return _signer().sign(username)


def _signer() -> signing.Signer:
    return signing.Signer(salt="admin_console.draft")


def owner_in(posted: QueryDict, prefix: str = "") -> str:
    """The name of the user who filled in a form; "" where the form has none, or one that is not signed here."""
    try:
        return _signer().unsign(posted.get(f"{prefix}{OWNER}", ""))
    except signing.BadSignature:
        return ""


def draft_of(request: HttpRequest) -> Draft | None:
    """The draft in a posted form, or in a posted log-in; None where the form names no user."""
    posted = request.POST
    prefix = _CARRIED if f"{_CARRIED}{OWNER}" in posted else ""
    match = request.resolver_match
    if not prefix and not hasattr(match and match.func, "view_class"):
        return None  # the pages of acts are classes, and they alone show a question again
    owner = owner_in(posted, prefix)
    if not owner:
        return None
    fields = [
        (name.removeprefix(prefix), value)
        for name, values in posted.lists()
        if name.startswith(prefix) and name not in _NOT_TYPED
        for value in values
    ]
    only = posted.get(f"{prefix}{_ONLY}")
    if only:
        fields = [(name, value) for name, value in fields if name not in (_SELECTED, _ONLY)] + [(_SELECTED, only)]
    url = next_page(request) if prefix else request.get_full_path()
    return Draft(owner, url, fields) if url else None


def log_in_page(request: HttpRequest, draft: Draft) -> HttpResponse:
    """The log-in that leads back to the form."""
    context = {"name": draft.owner, "next": draft.url, "draft": draft}
    return render(request, "accounts/login.html", context, status=401)


def keep(request: HttpRequest, draft: Draft | None) -> bool:
    """Store the draft for the question's page, which comes next; false for another user's."""
    user = request.user
    if draft is None or not isinstance(user, AbstractBaseUser) or user.get_username() != draft.owner:
        return False
    request.session[_KEY] = [draft.url, urlencode(draft.fields), time.time()]
    return True


def take(request: HttpRequest) -> None:
    """Before an act's page: put the draft's fields into `request.POST` of a GET, so that the page shows its question
    and does nothing."""
    if request.method == "POST":
        if SHOW_AGAIN in request.POST:
            request.method = "GET"
        return
    if _KEY not in request.session:
        return
    stored = request.session[_KEY]
    if len(stored) != 3:  # another version's session
        del request.session[_KEY]
        return
    url, fields, at_s = stored
    # A dialog in another tab sends `?still` to check whether its question is current.
    if unquote(urlsplit(url).path) == request.path and "still" not in request.GET:
        del request.session[_KEY]
        if time.time() < at_s + LIFE_S:
            request.POST = QueryDict(fields)


def is_draft(request: HttpRequest) -> bool:
    """Whether `take` found something."""
    return request.method == "GET" and bool(request.POST)
