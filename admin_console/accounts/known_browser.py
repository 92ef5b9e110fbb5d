"""Known browsers: browsers that have logged in under a name. A signed cookie marks them, and guesses from other
browsers do not delay them.

The cookie holds an id and hashes of the names, and gives no permission. With a copy of it one can try passwords for
these names in a line of its own, delayed like every line.
"""

import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import salted_hmac

COOKIE_AGE_S = 180 * 24 * 3600
NAMES_MAX = 8  # of one browser; beyond that, the name that logged in longest ago is dropped
_SALT = "admin_console.known_browser"


def browser_of(request: HttpRequest, name: str) -> str:
    """The browser's id, where it has logged in under this name; else ""."""
    browser, names = _read(request)
    return browser if _hash(name) in names else ""


def is_known(request: HttpRequest) -> bool:
    """Whether a user has logged in from this browser."""
    return bool(_read(request)[0])


def remember(request: HttpRequest, response: HttpResponse, name: str) -> None:
    """Set the cookie: this browser has logged in under this name."""
    browser, names = _read(request)
    digest = _hash(name)
    digests = [digest, *(other for other in names if other != digest)][:NAMES_MAX]
    response.set_cookie(
        settings.KNOWN_BROWSER_COOKIE_NAME,
        signing.dumps([browser or secrets.token_hex(8), *digests], salt=_SALT),
        max_age=COOKIE_AGE_S,
        path=settings.KNOWN_BROWSER_COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


def _read(request: HttpRequest) -> tuple[str, list[str]]:
    """The id and the names' hashes; empty where the cookie is missing, old, or not signed by us."""
    cookie = request.COOKIES.get(settings.KNOWN_BROWSER_COOKIE_NAME)
    if not cookie:
        return "", []
    try:
        browser, *names = signing.loads(cookie, salt=_SALT, max_age=COOKIE_AGE_S)
    except signing.BadSignature:
        return "", []
    return browser, names


def _hash(name: str) -> str:
    return salted_hmac(_SALT, name).hexdigest()[:16]
