"""The sockets' paths; each has its rule in permissions/table.py."""

from django.urls import path

from admin_console.live.consumers import LiveConsumer

websocket_urlpatterns = [path("ws/live/", LiveConsumer.as_asgi())]
