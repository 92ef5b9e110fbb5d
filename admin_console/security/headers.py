"""Headers of every answer; above all the Content-Security-Policy: own files only, nothing inline."""

from collections.abc import Callable

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse

# Plotly adds an empty <style> element and fills it by script; this is the hash of an empty style.
EMPTY_STYLE_HASH = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"

POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": f"'self' {EMPTY_STYLE_HASH}",
    "img-src": "'self' data: blob:",
    "font-src": "'self'",
    "object-src": "'none'",
    "frame-ancestors": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
}


def content_security_policy(request: HttpRequest) -> str:
    """The policy for this request: its own host is where sockets may go."""
    try:
        socket = f"{'wss' if request.is_secure() else 'ws'}://{request.get_host()}"
    except DisallowedHost:
        socket = ""
    return "; ".join(
        f"{name} {value}" for name, value in (POLICY | {"connect-src": f"'self' {socket}".strip()}).items()
    )


class SecurityHeaders:
    """Outermost, so that static files and refusals carry the headers too."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response.setdefault("Content-Security-Policy", content_security_policy(request))
        response.setdefault("X-Frame-Options", "DENY")
        response.setdefault("X-Content-Type-Options", "nosniff")
        response.setdefault("Referrer-Policy", "same-origin")
        response.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        response.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        if not request.path_info.startswith("/static/"):
            # Pages show topics: no cache may keep them after the user has logged out.
            response.setdefault("Cache-Control", "no-store")
        return response
