"""Users whom a trusted proxy names in the header of --acl-http-header; `security/proxy.py` removes it from all others.

A name has its account, made with the first request, without a password. Its role is that of --acl-admin-user at each
request and is not in the database: the role there counts for a log-in with a password alone.
"""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.backends import RemoteUserBackend
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from admin_console.accounts.models import User, check_username
from admin_console.vocabulary.roles import Role

BACKEND = f"{__name__}.ProxyUsersBackend"


class ProxyNameError(Exception):
    """The proxy names no user, or more than one; the text is a sentence."""


def name_in(value: str) -> str:
    """The user's name in the header's value, "" for none. value: several headers are joined by commas. Raises
    ProxyNameError."""
    name = value.strip()
    if not name:
        return ""
    header = settings.CONSOLE.nsqadmin.acl_header
    if "," in name:
        raise ProxyNameError(f"{header} names several users: {name[:80]!r}. The proxy has to replace a client's own.")
    try:
        check_username(name)
    except ValidationError as exc:
        raise ProxyNameError(f"{header}: {' '.join(exc.messages)}") from exc
    return name


def name_of(request: HttpRequest) -> str:
    """The user whom a trusted proxy names, "" for none. Raises ProxyNameError."""
    header = settings.CONSOLE.nsqadmin.acl_header
    return name_in(request.headers.get(header, "")) if header else ""


def name_of_socket(scope: Mapping[str, Any]) -> str:
    """As `name_of`, of a socket's request."""
    header = settings.CONSOLE.nsqadmin.acl_header.lower().encode()
    found = [value.decode("latin-1") for key, value in scope["headers"] if key == header]
    return name_in(",".join(found)) if header else ""


def role_of(name: str) -> Role:
    """As nsqadmin has it: without a list of admins everyone is one. name: "" for a program without one."""
    admins = settings.CONSOLE.nsqadmin.admin_users
    return Role.ADMIN if not admins or name in admins else Role.VIEWER


def is_by_proxy(session: Mapping[str, Any]) -> bool:
    """Whether a session is that of a user whom the proxy named."""
    return session.get(BACKEND_SESSION_KEY) == BACKEND


class ProxyUsersBackend(RemoteUserBackend):
    """Django's way from a name to its account. Settings name it in AUTHENTICATION_BACKENDS."""

    def configure_user(self, request: HttpRequest, user: Any, created: bool = True) -> Any:
        if created:
            user.set_unusable_password()
            user.save(update_fields=["password"])
        user.role = role_of(user.username)
        return user

    def get_user(self, user_id: Any) -> User | None:
        user = super().get_user(user_id)
        if not isinstance(user, User):
            return None
        user.role = role_of(user.username)
        return user
