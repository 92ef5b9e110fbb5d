"""Django's sessions in the database, and in memory while the disk refuses them: users can log in on a full disk.

A session in memory is written with its next save that the disk takes. Until then it ends with the process.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.db import DatabaseError, transaction
from django.utils import timezone

from admin_console.database.errors import Trouble, trouble_of

SESSIONS_MAX = 1_000  # a few hundred bytes each; the oldest goes first, and its user logs in again


@dataclass(frozen=True, slots=True)
class _Waiting:
    encoded: str  # "" for a session that ended
    expires_at: datetime


class WaitingSessions:
    """Sessions by key whose newest state is not in the database. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: OrderedDict[str, _Waiting] = OrderedDict()

    def get(self, key: str | None) -> _Waiting | None:
        with self._lock:
            return self._by_key.get(key) if key else None

    def put(self, key: str, encoded: str, expires_at: datetime) -> None:
        """encoded: "" for a session that ended: its row in the database is out of date."""
        with self._lock:
            self._by_key[key] = _Waiting(encoded, expires_at)
            self._by_key.move_to_end(key)
            while len(self._by_key) > SESSIONS_MAX:
                self._by_key.popitem(last=False)

    def forget(self, key: str) -> None:
        with self._lock:
            self._by_key.pop(key, None)

    def ended_keys(self) -> list[str]:
        """Sessions that are still to be removed from the database."""
        with self._lock:
            return [key for key, found in self._by_key.items() if not found.encoded]

    def __len__(self) -> int:
        return len(self._by_key)


WAITING = WaitingSessions()


class SessionStore(db.SessionStore):
    """One session. Django finds it by its settings: SESSION_ENGINE."""

    # Of Django's class, whose annotations leave them out.
    _get_session: Callable[..., dict[str, object]]
    _session_cache: dict[str, object]

    def load(self) -> dict[str, object]:
        waiting = WAITING.get(self.session_key)
        if waiting is None:
            return super().load()
        if not waiting.encoded or waiting.expires_at <= timezone.now():
            self._session_key = None
            return {}
        return self.decode(waiting.encoded)

    def exists(self, session_key: str) -> bool:
        return WAITING.get(session_key) is not None or super().exists(session_key)

    def save(self, must_create: bool = False) -> None:
        if self.session_key is None:
            self.create()
            return
        waiting = WAITING.get(self.session_key)
        if waiting is not None and not waiting.encoded:
            raise UpdateError  # it has ended meanwhile
        try:
            if waiting is None:
                super().save(must_create)
            else:
                # The row may be in the database or not.
                with transaction.atomic():
                    self.create_model_instance(self._get_session()).save()
                WAITING.forget(self.session_key)
        except (DatabaseError, UpdateError) as exc:
            if trouble_of(exc) is not Trouble.REFUSED:
                raise
            WAITING.put(self.session_key, self.encode(self._get_session(no_load=must_create)), self.get_expiry_date())

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is None:
            return
        expires_at = self.get_expiry_date()
        try:
            super().delete(key)
        except DatabaseError as exc:
            if trouble_of(exc) is not Trouble.REFUSED:
                raise
            WAITING.put(key, "", expires_at)
        else:
            WAITING.forget(key)


def remove_ended() -> None:
    """Remove sessions that ended while the disk refused it. Raises DatabaseError while the disk still refuses."""
    for key in WAITING.ended_keys():
        SessionStore().delete(key)
