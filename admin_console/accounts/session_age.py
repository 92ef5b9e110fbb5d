"""A session ends 12 hours after its log-in, or 30 minutes after the last page or open socket."""

import time
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponse

STARTED_KEY = "started_s"
SEEN_KEY = "seen_s"
# The session is written at most once in this time, however many pages are read.
SEEN_STEP_S = 60


def start(session: SessionBase, now_s: float | None = None) -> None:
    """Note the log-in's time."""
    session[STARTED_KEY] = session[SEEN_KEY] = int(time.time() if now_s is None else now_s)


def is_over(session: SessionBase, now_s: float) -> bool:
    """Whether the session was idle for too long, or is too old."""
    started_s, seen_s = session.get(STARTED_KEY), session.get(SEEN_KEY)
    if not isinstance(started_s, int) or not isinstance(seen_s, int):
        return False
    return now_s - seen_s > settings.SESSION_IDLE_S or now_s - started_s > settings.SESSION_COOKIE_AGE


def touch(session: SessionBase, now_s: float) -> bool:
    """Note that the session is in use; true when it has to be saved."""
    seen_s = session.get(SEEN_KEY)
    if isinstance(seen_s, int) and now_s - seen_s < SEEN_STEP_S:
        return False
    session.setdefault(STARTED_KEY, int(now_s))
    session[SEEN_KEY] = int(now_s)
    return True


class SessionAge:
    """Middleware: logs out users whose session is over, and marks the other sessions as used."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            now_s = time.time()
            if is_over(request.session, now_s):
                logout(request)
            else:
                touch(request.session, now_s)
        return self._get_response(request)
