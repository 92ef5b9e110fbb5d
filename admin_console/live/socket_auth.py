"""The user of a socket: read from its cookie when it opens, and every few seconds while it is open."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from admin_console.accounts import session_age
from admin_console.accounts.models import User
from admin_console.accounts.proxy_names import ProxyNameError, is_by_proxy, name_of_socket, role_of
from admin_console.accounts.waiting_sessions import WAITING, SessionStore
from admin_console.permissions.table import SOCKETS
from admin_console.vocabulary.roles import Role

_KEYS_PER_QUERY = 500


@dataclass(frozen=True, slots=True)
class SocketUser:
    """The user of a socket, as the database had him at the last check. is_by_proxy: a trusted proxy named him."""

    user_id: int
    username: str
    role: Role
    is_by_proxy: bool = False


def session_key_of(scope: Mapping[str, Any]) -> str:
    """The session's key in a socket's cookie; "" when there is none."""
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                morsel = SimpleCookie(value.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
            except CookieError:
                return ""
            if morsel is not None:
                return morsel.value
    return ""


async def allowed_user(scope: Mapping[str, Any]) -> SocketUser | None:
    """The user of a socket's cookie, if he may hold a socket at this path now; else None.

    None means: no session, session over, user disabled, password changed, role too small, path unknown, or another user
    than the trusted proxy names. Reads the database in a thread.
    """
    least = SOCKETS.get(scope["path"])
    session_key = session_key_of(scope)
    if least is None or not session_key:
        return None
    try:
        named = name_of_socket(scope)
    except ProxyNameError:
        return None
    user = (await database_sync_to_async(users_of)([session_key])).get(session_key)
    if user is None or not user.role.includes(least):
        return None
    # As for pages: the proxy's name counts before the session, and without one a session of the proxy's is over.
    return user if user.username == named or not (named or user.is_by_proxy) else None


def users_of(session_keys: Collection[str]) -> dict[str, SocketUser]:
    """The users of the sessions that hold now, by session key: two queries, however many sessions.

    An open socket counts as activity: a session that is due is noted as seen. Raises DatabaseError.
    """
    now_s = time.time()
    sessions = {
        key: session
        for key, session in _sessions(session_keys)
        if BACKEND_SESSION_KEY in session and not session_age.is_over(session, now_s)
    }
    users = User.objects.in_bulk({session[SESSION_KEY] for session in sessions.values()})
    found = {}
    for key, session in sessions.items():
        user = users.get(int(session[SESSION_KEY]))
        if user is None or not user.is_active:
            continue
        if not constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
            continue
        if session_age.touch(session, now_s):
            try:
                session.save()
            except UpdateError:  # logged out this very moment
                continue
        by_proxy = is_by_proxy(session)
        role = role_of(user.username) if by_proxy else Role(user.role)
        found[key] = SocketUser(user_id=user.pk, username=user.username, role=role, is_by_proxy=by_proxy)
    return found


def _sessions(keys: Iterable[str]) -> Iterator[tuple[str, SessionStore]]:
    """The sessions that exist and have not expired, each loaded."""
    in_database = []
    for key in keys:
        if WAITING.get(key) is None:
            in_database.append(key)
        else:
            yield key, SessionStore(key)
    for at in range(0, len(in_database), _KEYS_PER_QUERY):
        rows = Session.objects.filter(
            session_key__in=in_database[at : at + _KEYS_PER_QUERY], expire_date__gt=timezone.now()
        )
        for row in rows:
            session = SessionStore(row.session_key)
            session._session_cache = session.decode(row.session_data)
            yield row.session_key, session
