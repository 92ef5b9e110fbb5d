"""`/clusters/NAME/` before the path of a page or socket: the request is about that cluster.

The answer is made as without the prefix: the console's own URLs do not have it, and the links of a page begin with it.
A name that no cluster has is an unknown path.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import set_script_prefix

from admin_console.cluster.cluster import cluster_names
from admin_console.security.proxy import Application, Scope
from admin_console.vocabulary.current_cluster import enter_cluster, path_of, split_path


class ClusterPages:
    """Middleware, before all that reads the path.

    The cluster holds for the rest of the request's context: a file is sent after the view has ended.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        cluster, path = _place_of(request.path_info)
        enter_cluster(cluster)
        set_script_prefix(f"{settings.FORCE_SCRIPT_NAME or ''}{path_of(cluster)}/")
        request.path_info = path
        return self._get_response(request)


class ClusterSockets:
    """Around the sockets."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        cluster, path = _place_of(scope["path"])
        enter_cluster(cluster)
        await self._application({**scope, "path": path} if cluster else scope, receive, send)


def _place_of(path: str) -> tuple[str, str]:
    """The cluster, and the path without it; "" and the path as it is where there is no such cluster."""
    cluster, rest = split_path(path)
    return (cluster, rest) if cluster in cluster_names() else ("", path)
