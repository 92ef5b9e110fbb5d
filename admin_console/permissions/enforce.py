"""Every request is checked against the table before its view runs."""

from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_console.accounts.models import User
from admin_console.answers.drafts import draft_of, log_in_page
from admin_console.answers.refusal import NO_SESSION, refusal, wants_fragment, wants_json
from admin_console.audit.record import record_refusal
from admin_console.hub.hub import get_hub
from admin_console.permissions.allowed import Allowed, CheckedRequest, WhyNot, may_use
from admin_console.permissions.table import ALL_ACTS, LEAST_ROLES, OF_THE_SERVER
from admin_console.vocabulary.current_cluster import current_cluster


class EnforcePermissions:
    """Sends strangers to the log-in, refuses requests that a role does not cover, and audits refused acts."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = _user(request)
        checked = cast(CheckedRequest, request)
        checked.may, checked.why_not = Allowed(user), WhyNot(user)
        response = self._get_response(request)
        match = request.resolver_match
        if request.method == "POST" and match is not None and match.view_name in ALL_ACTS:
            get_hub().note_act()
        return response

    def process_view(
        self, request: CheckedRequest, view: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        assert request.resolver_match is not None, "a view is called for a path that it was found by"
        url_name = request.resolver_match.view_name
        user = _user(request)
        if may_use(user, url_name):
            return _no_page_here(request) if current_cluster() and url_name in OF_THE_SERVER else None
        if user is None:
            return _ask_to_log_in(request, url_name)
        is_act = url_name in ALL_ACTS
        sentence = _why_not(request, url_name)
        if is_act and request.method == "POST":
            record_refusal(
                request, url_name, topic=kwargs.get("topic", ""), channel=kwargs.get("channel", ""), why=sentence
            )
        return refusal(request, sentence, status=403)


def _no_page_here(request: HttpRequest) -> HttpResponse:
    sentence = f"This page is about the queue of this server, which is no part of the cluster {current_cluster()}."
    return refusal(request, sentence, status=404)


def _why_not(request: CheckedRequest, url_name: str) -> str:
    if url_name not in LEAST_ROLES:
        return "No role is allowed this: it has no rule."
    reason = request.why_not[url_name]
    return f"This {'act' if url_name in ALL_ACTS else 'page'} {reason[:1].lower()}{reason[1:]}"


def _user(request: HttpRequest) -> User | None:
    return request.user if request.user.is_authenticated and request.user.is_active else None


def _ask_to_log_in(request: HttpRequest, url_name: str) -> HttpResponse:
    if wants_json(request) or wants_fragment(request) or request.method not in ("GET", "HEAD"):
        if not wants_json(request) and not wants_fragment(request) and (draft := draft_of(request)):
            return log_in_page(request, draft)
        # The question of an act is a page, too: it is shown again after the log-in.
        next_url = request.get_full_path() if url_name in ALL_ACTS else ""
        return refusal(request, NO_SESSION, status=401, next_url=next_url)
    return HttpResponseRedirect(f"{reverse('login')}?{urlencode({'next': request.get_full_path()})}")
