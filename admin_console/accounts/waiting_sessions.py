"""Django's sessions in the database, and in memory while the disk refuses them: users can log in on a full disk.

A session in memory is written with its next save that the disk takes. Until then it ends with the process. A save
writes the keys that its request has changed: requests of one session at once lose nothing of each other.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

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
# A save reads and writes its session while no other save does. Sessions share a lock by their key's hash: one of many,
# since each write waits for seconds while another process holds the database.
_SAVING = tuple(threading.Lock() for _ in range(64))


class SessionStore(db.SessionStore):
    """One session. Django finds it by its settings: SESSION_ENGINE."""

    # Of Django's class, whose annotations leave them out.
    _get_session: Callable[..., dict[str, object]]
    _session_cache: dict[str, object]
    _loaded: Mapping[str, object] = MappingProxyType({})  # as it was read, or saved last

    def load(self) -> dict[str, object]:
        found = self._newest()
        self._loaded = deepcopy(found)
        return found

    def take(self, encoded: str) -> None:
        """As `load`, from the content of the session's row."""
        self._session_cache = self.decode(encoded)
        self._loaded = deepcopy(self._session_cache)

    def _newest(self) -> dict[str, object]:
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
        self._get_session(no_load=must_create)  # of a session that has ended, this forgets the key
        if self.session_key is None:
            self.create()
            return
        with _SAVING[hash(self.session_key) % len(_SAVING)]:
            if not must_create:
                self._merge()
            self._write(self.session_key, must_create)
            self._loaded = deepcopy(self._session_cache)

    def _merge(self) -> None:
        """Other requests of the session may have saved meanwhile: take their keys, and those that this one changed."""
        mine, before = self._get_session(), self._loaded
        with suppress(DatabaseError):
            newest = SessionStore(self.session_key)
            theirs = newest._newest()
            if newest.session_key is None:
                return  # it has ended meanwhile
            changed = {key: value for key, value in mine.items() if key not in before or before[key] != value}
            left = {key: value for key, value in theirs.items() if key in mine or key not in before}
            self._session_cache = {**left, **changed}

    def _write(self, key: str, must_create: bool) -> None:
        waiting = WAITING.get(key)
        if waiting is not None and not waiting.encoded:
            raise UpdateError  # it has ended meanwhile
        try:
            if waiting is None:
                super().save(must_create)
            else:
                # The row may be in the database or not.
                with transaction.atomic():
                    self.create_model_instance(self._get_session()).save()
                WAITING.forget(key)
        except (DatabaseError, UpdateError) as exc:
            if trouble_of(exc) is not Trouble.REFUSED:
                raise
            WAITING.put(key, self.encode(self._get_session(no_load=must_create)), self.get_expiry_date())

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
