"""Answers requests whose path or method does not fit: nsqd's redirects, OPTIONS and 405, or 404."""

import posixpath
from html import escape
from urllib.parse import quote

from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Response, error_response
from queue_engine.service.http.reference.content_types import HTML
from queue_engine.service.http.reference.endpoints import route_of
from queue_engine.service.http.rules import PATHS

_EVERY_METHOD = ("GET", "OPTIONS", "POST", "PUT")


def misrouted(head: RequestHead) -> Response:
    """The answer to a request whose path does not exist or does not take its method."""
    methods = _methods_of(head.path)
    moved = _redirect(head)
    if moved is not None:
        return moved
    if head.method == "OPTIONS" and head.path == "*":
        return Response(200, b"", headers=(("Allow", ", ".join(_EVERY_METHOD)),))
    if not methods:
        return error_response(404, "NOT_FOUND")
    allow = ("Allow", ", ".join(sorted((*methods, "OPTIONS"))))
    if head.method == "OPTIONS":
        return Response(200, b"", nsq_version=False, headers=(allow,))
    return error_response(405, "METHOD_NOT_ALLOWED", headers=(allow,))


def _methods_of(path: str) -> tuple[str, ...]:
    """The methods of a path; none for a path that is not there."""
    found = PATHS.get(route_of(path))
    return () if found is None else found.methods


def _redirect(head: RequestHead) -> Response | None:
    """Redirects a path with further slashes, dot segments or capitals to the plain one, if that takes the method."""
    if not head.path.startswith("/") or head.path == "/":
        return None
    meant = posixpath.normpath("/" + head.path.lstrip("/"))
    for path in (meant, meant.lower()):
        if head.method in _methods_of(path):
            break
    else:
        return None
    location = quote(path) + (f"?{head.raw_query}" if head.raw_query else "")
    headers = (("Location", location),)
    if head.method != "GET":
        return Response(307, b"", nsq_version=False, headers=headers)
    link = f'<a href="{escape(location)}">Moved Permanently</a>.\n\n'
    return Response(301, link.encode(), HTML, nsq_version=False, headers=headers)
