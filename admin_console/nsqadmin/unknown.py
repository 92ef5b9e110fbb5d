"""Names and paths that are not there, in nsqadmin's words."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, get_script_prefix, resolve
from django.utils.encoding import escape_uri_path, iri_to_uri

from admin_console.answers import refusal
from admin_console.nsqadmin.answers import complaint, not_found_upstream, upstream, warned
from admin_console.nsqadmin.cluster_now import ClusterNow


def unknown_topic(now: ClusterNow) -> HttpResponse:
    """502: no nsqlookupd lists the topic, and no node has it."""
    if not now.has_lookupds:
        return upstream("nsqd", [])
    return upstream("nsqlookupd", [one.error or not_found_upstream("TOPIC_NOT_FOUND") for one in now.lookupds])


def nothing_to_act_on(now: ClusterNow) -> HttpResponse:
    """An act on such a topic: without nsqlookupds nsqadmin answers 200, which a program that deletes a
    topic twice relies on."""
    if now.has_lookupds:
        return unknown_topic(now)
    return warned({}, [not_found_upstream("TOPIC_NOT_FOUND")])


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer to a path that the console does not have; below nsqadmin's own it is nsqadmin's, which sends a path
    with a slash too many on."""
    path = request.path_info
    if not settings.CONSOLE.nsqadmin.has_path(path):
        return refusal.not_found(request, exception)
    if path.endswith("/") and _is_path(path[:-1]):
        status = 301 if request.method in ("GET", "HEAD") else 307
        query = request.META.get("QUERY_STRING", "")
        location = f"{get_script_prefix()}{escape_uri_path(path[1:-1])}" + (f"?{iri_to_uri(query)}" if query else "")
        return HttpResponse(status=status, headers={"Location": location})
    return complaint("NOT_FOUND", status=404)


def _is_path(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True
