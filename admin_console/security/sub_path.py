"""The sub-path that the console is served below, such as /queue, whether the proxy passes it on or takes it off."""

from collections.abc import Awaitable, Callable
from typing import Any

from admin_console.security.proxy import Application, Scope


class SubPath:
    """Around pages and sockets: a path with the sub-path and one without mean the same.

    A page gets its path with the sub-path and `root_path`, from which Django makes its links. A socket makes no links
    and gets the path without. Daphne takes `root_path` from a header that any client can send: it is replaced.
    """

    def __init__(self, application: Application, sub_path: str) -> None:
        """sub_path: "" or such as /queue, without a slash at the end."""
        self._application = application
        self._sub_path = sub_path

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] in ("http", "websocket"):
            path = self._path_below(scope["path"])
            if scope["type"] == "http":
                scope = {**scope, "path": self._sub_path + path, "root_path": self._sub_path}
            else:
                scope = {**scope, "path": path, "root_path": ""}
        await self._application(scope, receive, send)

    def _path_below(self, path: str) -> str:
        """/queue/topics/ → /topics/, as a proxy that takes the sub-path off sends it."""
        if path == self._sub_path or path.startswith(f"{self._sub_path}/"):
            return path.removeprefix(self._sub_path)
        return path
