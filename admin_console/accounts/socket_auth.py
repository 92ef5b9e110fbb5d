"""Who holds a socket: read from its cookie when it opens, and again while it is open."""

import time
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.base import UpdateError
from django.utils.crypto import constant_time_compare

from admin_console.accounts import session_age
from admin_console.accounts.models import User
from admin_console.accounts.roles import Role
from admin_console.permissions.table import SOCKETS


@dataclass(frozen=True, slots=True)
class SocketUser:
    """The user behind a socket, as the database knew him a moment ago."""

    user_id: int
    username: str
    role: Role


async def allowed_role(scope: dict[str, Any]) -> SocketUser | None:
    """The user behind a socket's cookie, if he may hold a socket at this path now; else None.

    None means: no session, session over, user disabled, password changed, role too small, or path unknown. Reads the
    database in a thread; call it at connect, and again every half minute while the socket is open: that also counts
    as being there, so a page that is only watched does not time out.
    """
    least = SOCKETS.get(scope["path"])
    session_key = _session_key(scope)
    if least is None or session_key is None:
        return None
    return await database_sync_to_async(_read)(session_key, least)


def _session_key(scope: dict[str, Any]) -> str | None:
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                morsel = SimpleCookie(value.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
            except CookieError:
                return None
            if morsel is not None:
                return morsel.value
    return None


def _read(session_key: str, least: Role) -> SocketUser | None:
    session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    now_s = time.time()
    if BACKEND_SESSION_KEY not in session or session_age.is_over(session, now_s):
        return None
    user = User.objects.filter(pk=session[SESSION_KEY]).first()
    if user is None or not user.has_role(least):
        return None
    if not constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
        return None
    if session_age.touch(session, now_s):
        try:
            session.save()
        except UpdateError:  # logged out this very moment
            return None
    return SocketUser(user_id=user.pk, username=user.username, role=Role(user.role))
