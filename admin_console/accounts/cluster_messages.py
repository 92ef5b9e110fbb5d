"""The sentence about an act, for the page after it: in the session, and shown on pages of the act's cluster alone.

Each request adds a key of its own to the session, and a page takes the keys that it shows: acts in two tabs at once
lose none of their sentences (`waiting_sessions.py` saves key by key).
"""

import secrets
import time
from collections.abc import Callable
from typing import Any

from django.contrib.messages.storage.base import Message
from django.contrib.messages.storage.session import SessionStorage
from django.http import HttpRequest, HttpResponseBase

from admin_console.vocabulary.current_cluster import current_cluster


class ClusterMessages(SessionStorage):
    """Of one request. Django finds it by its settings: MESSAGE_STORAGE."""

    # Of Django's class, whose annotations leave them out.
    _queued_messages: list[Message]
    _prepare_messages: Callable[[list[Message]], None]

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        # No name of a cluster has a dot.
        self._prefix = f"messages.{current_cluster()}."
        self._keys: list[str] = []

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Message], bool]:
        session = self.request.session
        self._keys = sorted(key for key in session.keys() if key.startswith(self._prefix))  # noqa: SIM118 - no dict
        return [one for key in self._keys for one in self.deserialize_messages(session[key]) or ()], True

    def update(self, response: HttpResponseBase) -> list[Message]:
        """Store those that were added, and forget those that were shown."""
        self._prepare_messages(self._queued_messages)
        for key in self._keys if self.used else ():
            self.request.session.pop(key, None)
        if self._queued_messages:
            key = f"{self._prefix}{time.time_ns():020}.{secrets.token_hex(4)}"
            self.request.session[key] = self.serialize_messages(self._queued_messages)
        return []
