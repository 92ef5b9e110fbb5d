"""A trusted proxy logs its users in: --acl-http-header has the name."""

import hashlib
import time
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.middleware import RemoteUserMiddleware
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse

from admin_console.accounts import session_age
from admin_console.accounts.models import User
from admin_console.accounts.proxy_names import ProxyNameError, is_by_proxy, name_of
from admin_console.accounts.waiting_sessions import SessionStore
from admin_console.answers.drafts import owner_in
from admin_console.answers.refusal import refusal
from admin_console.audit.record import record_event


class ProxyUsers:
    """Middleware behind `SessionAge`, around Django's own for names that a web server checked. The name counts before
    the session: one of another user ends. Without a name, a session that the proxy began ends, and others go on.

    A form needs its token here as anywhere, and one that another user filled in is not done. nsqadmin's interface gets
    no session: its programs keep no cookies. A client that sends none to pages, such as a probe, goes on in the session
    that it began there: each request would leave one, and a row of the audit list.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        self._remote_user = RemoteUserMiddleware(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            name = name_of(request)
        except ProxyNameError as exc:
            return refusal(request, str(exc), status=403)
        before = request.user.get_username() if request.user.is_authenticated else ""
        if name and name != before and User.objects.filter(username=name, is_active=False).exists():
            return refusal(request, f"The account {name} is disabled here.", status=403)
        request.META.pop(RemoteUserMiddleware.header, None)
        if name:
            request.META[RemoteUserMiddleware.header] = name
        is_interface = settings.CONSOLE.nsqadmin.has_path(request.path_info)
        if name and not is_interface and not request.user.is_authenticated:
            _resume(request, name)
        if request.user.is_authenticated or not is_interface:
            self._remote_user.process_request(request)
            if request.user.is_authenticated and is_by_proxy(request.session):
                self._note_log_in(request)
        if name and request.method not in ("GET", "HEAD"):
            # The form's own name, too: a session that is over names no one.
            for other in (before, "" if is_interface else owner_in(request.POST)):
                if other not in ("", name):
                    sentence = f"You were {other} and are {name} now. Nothing was done: reload the page."
                    return refusal(request, sentence, status=403)
        return self._get_response(request)

    def _note_log_in(self, request: HttpRequest) -> None:
        if session_age.STARTED_KEY not in request.session:
            session_age.start(request.session)
            record_event(request, "log_in", detail=f"by {settings.CONSOLE.nsqadmin.acl_header} of a trusted proxy")
            # Django saves it with the answer, but not with a fault: a probe of a broken page logs in once, too.
            request.session.save()
            key = _client_of(request, request.user.get_username())
            cache.set(key, request.session.session_key, settings.SESSION_COOKIE_AGE)


def _resume(request: HttpRequest, name: str) -> None:
    """Go on in the session of a client, where it has one that is not over."""
    key = cache.get(_client_of(request, name))
    if key is None:
        return
    sent, request.session = request.session, SessionStore(key)
    user, now_s = get_user(request), time.time()
    if not user.is_authenticated or user.get_username() != name or session_age.is_over(request.session, now_s):
        request.session = sent
        return
    request.user = user
    session_age.touch(request.session, now_s)
    request.session.modified = True  # a browser gets its cookie


def _client_of(request: HttpRequest, name: str) -> str:
    """The key of a user's program at an address: those of others get no session of it."""
    client = (name, request.META.get("REMOTE_ADDR"), request.headers.get("User-Agent"))
    return f"proxy-user-{hashlib.sha256(repr(client).encode()).hexdigest()}"
