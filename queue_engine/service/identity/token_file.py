"""The file of all tokens. Each process that makes or revokes one replaces it as a whole, under a lock.

    tokens.json, mode 0600: one checked line (storage/disk/checked_line.py)

    {"version": 1, "tokens": [TOKEN…]}

    TOKEN   {"id", "name", "hash", "permissions": [publish | consume | administer…], "topics": [pattern…],
             "created_ms", "created_by", "expires_ms", "revoked_ms", "revoked_by"}      `Token` explains them

    tokens.lock: empty; an flock on it lasts from the reading of the file to its replacement

    tokens.used.json: one checked line, {"version": 1, "used_ms": {id: Unix ms}}: written by the server alone, once a
    minute at most. Without it only the column "last used" is empty.

Where the file is, clients must give a token, also when all of them are revoked: so revoking the last one opens nothing.
A damaged file is refused by each reader, and no server starts with it.
"""

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from queue_engine.service.identity.token import Token, TokenError, TokenState, new_token
from queue_engine.storage.disk.checked_line import decode_versioned, encode_line
from queue_engine.storage.disk.files import Files, NameNotSyncedError
from queue_engine.vocabulary.errors import OutcomeUnknownError, StorageError
from queue_engine.vocabulary.permission import Permission

VERSION = 1
NAME = "tokens.json"
USED_NAME = "tokens.used.json"
_LOCK_NAME = "tokens.lock"
TOKENS_MAX = 1_000
# A token with 20 patterns takes 2 KB.
_SIZE_MAX = 4 << 20

Stamp = tuple[int, int, int]

logger = logging.getLogger(__name__)


class TokenFile:
    """The tokens of one data directory. Every method reads the disk, and may be called by any process."""

    def __init__(self, directory: str | Path, files: Files | None = None) -> None:
        self.path = os.path.join(directory, NAME)
        self.used_path = os.path.join(directory, USED_NAME)
        self._lock_path = os.path.join(directory, _LOCK_NAME)
        self._files = files or Files()

    def stamp(self) -> Stamp | None:
        """A value that changes whenever the file is replaced; None where there is none. Raises OSError."""
        found = self._files.status(self.path)
        return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)

    def read(self) -> tuple[Token, ...] | None:
        """All tokens, in the order they were made; None where there is no file. Raises StorageError for a damaged or
        unreadable one."""
        try:
            data = self._files.read_whole(self.path, _SIZE_MAX)
        except OSError as exc:
            raise StorageError(f"{self.path} can't be read: {exc}. No client gets in while it can't") from exc
        if data is None:
            return None
        self._close_to_others()
        content = decode_versioned(data, self.path, VERSION)
        try:
            if content is None:
                raise ValueError("its checksum does not fit")
            return tuple(_token_of(fields) for fields in content["tokens"])
        except (ValueError, TypeError, KeyError) as exc:
            raise StorageError(
                f"{self.path} is damaged: {exc}. No token counts. Restore it from a backup, or move it away and "
                "make new tokens; without the file and another option the server asks for no token"
            ) from exc

    def _close_to_others(self) -> None:
        try:
            if self._files.close_to_others(self.path):
                logger.warning("%s could be read or written by other accounts: its mode is 0600 now", self.path)
        except OSError as exc:
            logger.warning("%s can be read or written by other accounts, and stays so: %s", self.path, exc)

    def used_ms(self) -> Mapping[str, int]:
        """When each token was last used, by id; tokens without a recorded use are missing."""
        try:
            data = self._files.read_whole(self.used_path, _SIZE_MAX)
            content = None if data is None else decode_versioned(data, self.used_path, VERSION)
        except (OSError, StorageError):
            return {}
        used = {} if content is None else content.get("used_ms")
        return {str(key): value for key, value in used.items() if type(value) is int} if isinstance(used, dict) else {}

    def create(
        self, name: str, permissions: list[str], topics: list[str], *, expires_ms: int, by: str, now_ms: int
    ) -> tuple[Token, str]:
        """Make a token, durably; returns it and its secret, which is shown once. Raises TokenError,
        StorageError or OutcomeUnknownError."""
        token, secret = new_token(name, permissions, topics, expires_ms=expires_ms, by=by, now_ms=now_ms)
        with self._locked():
            tokens = list(self.read() or ())
            if any(one.name == name and one.state(now_ms) is TokenState.VALID for one in tokens):
                raise TokenError(f"there is a token {name} already: revoke it first, or take another name")
            # The oldest expired or revoked tokens make room.
            for one in [one for one in tokens if one.state(now_ms) is not TokenState.VALID]:
                if len(tokens) >= TOKENS_MAX:
                    tokens.remove(one)
            if len(tokens) >= TOKENS_MAX:
                raise TokenError(f"there are {len(tokens)} valid tokens and the most is {TOKENS_MAX}: revoke some")
            self._write([*tokens, token])
        return token, secret

    def revoke(self, name_or_id: str, *, by: str, now_ms: int) -> Token:
        """Take a token's rights away, durably; returns it. Raises TokenError or StorageError."""
        with self._locked():
            tokens = list(self.read() or ())
            found = [
                index
                for index, one in enumerate(tokens)
                if name_or_id in (one.id, one.name) and one.state(now_ms) is not TokenState.REVOKED
            ]
            if not found:
                raise TokenError(f"there is no token {name_or_id[:80]} that is not revoked")
            # An expired one may have the name of a valid one: that is the one that is meant.
            index = next((one for one in found if tokens[one].state(now_ms) is TokenState.VALID), found[-1])
            tokens[index] = replace(tokens[index], revoked_ms=now_ms, revoked_by=by[:64])
            self._write(tokens)
            return tokens[index]

    def _write(self, tokens: list[Token]) -> None:
        content = encode_line({"version": VERSION, "tokens": [asdict(token) for token in tokens]})
        try:
            self._files.replace(self.path, content)
        except NameNotSyncedError as exc:
            raise OutcomeUnknownError(
                f"outcome unknown: {self.path} was replaced, and syncing its directory failed ({exc}). It counts "
                "until a power cut; do it again when the disk is well"
            ) from exc
        except OSError as exc:
            raise StorageError(f"{self.path} can't be written: {exc}. Nothing was changed") from exc

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the file, among all processes and threads."""
        try:
            fd = self._files.open(self._lock_path, os.O_RDWR | os.O_CREAT)
        except OSError as exc:
            raise StorageError(f"{self._lock_path} can't be opened: {exc}") from exc
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            self._files.close(fd)  # and with it the lock


def encode_used(used_ms: Mapping[str, int]) -> bytes:
    """The content of `tokens.used.json`."""
    return encode_line({"version": VERSION, "used_ms": dict(used_ms)})


def _token_of(fields: Mapping[str, Any]) -> Token:
    """A token of its JSON. Raises KeyError, TypeError or ValueError for any other object."""
    token = Token(
        **{
            **fields,
            "permissions": tuple(Permission(one) for one in fields["permissions"]),
            "topics": tuple(str(one) for one in fields["topics"]),
        }
    )
    times = (token.created_ms, token.expires_ms, token.revoked_ms)
    texts = (token.id, token.name, token.hash, token.created_by, token.revoked_by)
    if not all(type(one) is int for one in times) or not all(type(one) is str for one in texts):
        raise ValueError("a field has another type")
    return token
