"""Who calls nsqadmin's interface: a session, a token of this server, a user whom a trusted proxy names, or a program at
an address that `--allow-api-from-cidr` lists, as nsqadmin's programs send nothing.

Pages of other sites can have a browser send requests, so that one without a session's form token is refused where the
browser says that it comes from such a page.
"""

import ipaddress
import time
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from admin_console.accounts.models import USERNAME_LENGTH_MAX, User
from admin_console.accounts.proxy_names import name_of, role_of
from admin_console.gateway.tokens import CallerToken, token_of
from admin_console.nsqadmin.answers import complaint
from admin_console.vocabulary.roles import Role

_PROGRAM = "nsqadmin-api"


class _CallerRequest(HttpRequest):
    """A request without a session. _dont_enforce_csrf_checks: Django's own mark, which CsrfViewMiddleware reads."""

    nsqadmin_token: CallerToken | None
    _dont_enforce_csrf_checks: bool


class NsqadminCallers:
    """Middleware behind the sessions'. A request with no session gets the user that its token, header or address stands
    for: one that the database does not have."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.CONSOLE.nsqadmin.has_path(request.path_info) and not request.user.is_authenticated:
            secret = request.headers.get("Authorization", "").partition(" ")[2].strip()
            token = token_of(settings.DATA_PATH, secret.encode(), time.time_ns() // 1_000_000) if secret else None
            user = _user_of_token(token) if token is not None else _user_of(request)
            if user is not None:
                if _is_from_other_site(request):
                    return complaint("FORBIDDEN", status=403)
                caller = cast(_CallerRequest, request)
                caller.user = user
                caller.nsqadmin_token = token
                # No cookie stands for this caller, and a page of another site was refused above.
                caller._dont_enforce_csrf_checks = True
        return self._get_response(request)


def may_read(request: HttpRequest, topic: str = "") -> bool:
    """Whether the caller's token covers a topic, for "" all of them; true for one without a token."""
    token: CallerToken | None = getattr(request, "nsqadmin_token", None)
    return token is None or token.may_read(topic)


def may_act(request: HttpRequest, topic: str) -> bool:
    token: CallerToken | None = getattr(request, "nsqadmin_token", None)
    return token is None or token.may_administer(topic)


def _user_of_token(token: CallerToken) -> User:
    return User(username=token.name[:USERNAME_LENGTH_MAX], role=Role.ADMIN)


def _user_of(request: HttpRequest) -> User | None:
    # security/proxy_users.py has refused one that is no name, or whose account is disabled.
    if name := name_of(request):
        return User(username=name, role=role_of(name))
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:
        return None
    if any(address in network for network in settings.CONSOLE.nsqadmin.api_from):
        return User(username=_PROGRAM, role=role_of(""))
    return None


def _is_from_other_site(request: HttpRequest) -> bool:
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return True
    origin = request.headers.get("Origin", "")
    return bool(origin) and urlsplit(origin).netloc.lower() != request.get_host().lower()
