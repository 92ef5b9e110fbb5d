"""The sockets' paths; each has its rule in permissions/table.py."""

from typing import Any

from django.urls import path

from admin_console.live.consumers import LiveConsumer

# Django's annotations of `path` allow views only.
_live: Any = LiveConsumer.as_asgi()
websocket_urlpatterns: list[Any] = [path("ws/live/", _live)]
