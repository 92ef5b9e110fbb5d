"""The sockets' paths; each has its rule in permissions/table.py."""

from typing import Any

from django.urls import path

from admin_console.live.consumers import LiveConsumer

# Django's annotations know views alone, and those of Channels a path of their own.
_live: Any = LiveConsumer.as_asgi()
websocket_urlpatterns: list[Any] = [path("ws/live/", _live)]
