"""The sentence about an act, for the page after it: in the session, and shown on pages of the act's cluster alone."""

from typing import Any

from django.contrib.messages.storage.session import SessionStorage
from django.http import HttpRequest

from admin_console.vocabulary.current_cluster import current_cluster


class ClusterMessages(SessionStorage):
    """Of one request. Django finds it by its settings: MESSAGE_STORAGE."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self.session_key = f"messages.{current_cluster()}"
