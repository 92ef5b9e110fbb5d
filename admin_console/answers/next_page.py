"""The page to go to after a log-in or an act."""

from urllib.parse import unquote, urlsplit

from django.http import HttpRequest
from django.urls import Resolver404, get_script_prefix, resolve
from django.utils.http import url_has_allowed_host_and_scheme


def next_page(request: HttpRequest) -> str:
    """The page that the field or query `next` names, if it is one of the console's; else ""."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if not wanted.startswith("/") or not url_has_allowed_host_and_scheme(wanted, allowed_hosts=None):
        return ""
    path, root = unquote(urlsplit(wanted).path), get_script_prefix()
    if not path.startswith(root):
        return ""
    try:
        resolve(f"/{path[len(root) :]}")
    except Resolver404:
        return ""
    return wanted
