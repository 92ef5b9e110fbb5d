"""Tokens of programs, which the console lists, makes and revokes.

They are in a file of the data directory, which the engine follows (`queue_engine/service/identity/token_file.py`).
"""

import functools
import time
from dataclasses import dataclass
from pathlib import Path

from admin_console.gateway.gateway import DONE, FAILED, UNKNOWN, ActResult
from admin_console.vocabulary import units
from queue_engine.service.identity.token import NAME_LENGTH_MAX, Token, TokenError, TokenState, id_in
from queue_engine.service.identity.token_file import Stamp, TokenFile
from queue_engine.vocabulary.errors import OutcomeUnknownError, PenstockError
from queue_engine.vocabulary.permission import Permission

__all__ = [
    "NAME_LENGTH_MAX",
    "PERMISSIONS",
    "TokenView",
    "complaint_about_tokens",
    "create_token",
    "list_tokens",
    "revoke_token",
]

PERMISSIONS = tuple(
    (one.value, words)
    for one, words in (
        (Permission.PUBLISH, "publish messages"),
        (Permission.CONSUME, "consume channels, and read topics"),
        (Permission.ADMINISTER, "administer: pause, empty, delete, and every other act of the HTTP API"),
    )
)


class TokensUnreadableError(Exception):
    """The file is damaged, or can't be read; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class TokenView:
    """One token. Times are Unix milliseconds; 0 for never. state: valid, expired or revoked."""

    id: str
    name: str
    permissions: tuple[str, ...]
    topics: tuple[str, ...]
    state: str
    created_ms: int
    created_by: str
    expires_ms: int
    used_ms: int
    revoked_ms: int
    revoked_by: str

    @property
    def is_valid(self) -> bool:
        return self.state == TokenState.VALID


def complaint_about_tokens(directory: Path) -> str:
    """Why the file of the tokens can't be read; "" when it can. Reads it once for each of its versions."""
    file = TokenFile(directory)
    try:
        return _complaint_of(str(directory), file.stamp())
    except OSError as exc:
        return f"{file.path} can't be read: {exc}"


@functools.lru_cache(maxsize=4)
def _complaint_of(directory: str, _: Stamp | None) -> str:
    try:
        TokenFile(directory).read()
    except PenstockError as exc:
        return str(exc)
    return ""


def list_tokens(directory: Path) -> list[TokenView] | None:
    """All tokens, valid ones first, then the newest first; None where clients need none. Raises
    TokensUnreadableError."""
    file, now_ms = TokenFile(directory), _now_ms()
    try:
        tokens = file.read()
    except PenstockError as exc:
        raise TokensUnreadableError(str(exc)) from exc
    if tokens is None:
        return None
    used = file.used_ms()
    views = [
        TokenView(
            id=token.id,
            name=token.name,
            permissions=tuple(token.permissions),
            topics=token.topics,
            state=token.state(now_ms).value,
            created_ms=token.created_ms,
            created_by=token.created_by,
            expires_ms=token.expires_ms,
            used_ms=used.get(token.id, 0),
            revoked_ms=token.revoked_ms,
            revoked_by=token.revoked_by,
        )
        for token in tokens
    ]
    return sorted(views, key=lambda view: (not view.is_valid, -view.created_ms))


def create_token(
    directory: Path, name: str, permissions: list[str], topics: list[str], *, valid_ms: int, by: str
) -> tuple[ActResult, str]:
    """Make a token; the result, and the secret, which is nowhere else: "" where none was made. valid_ms: 0 for ever."""
    now_ms = _now_ms()
    try:
        token, secret = TokenFile(directory).create(
            name, permissions, topics, expires_ms=now_ms + valid_ms if valid_ms else 0, by=by, now_ms=now_ms
        )
    except PenstockError as exc:
        return _refused(exc), ""
    rights = f"{', '.join(token.permissions)} on {', '.join(token.topics)}"
    return ActResult(DONE, f"Created the token {token.name}: {rights}."), secret


def revoke_token(directory: Path, token_id: str, *, by: str) -> ActResult:
    try:
        token = next((one for one in TokenFile(directory).read() or () if one.id == token_id), None)
        if token is not None and token.revoked_ms:
            who = f" by {token.revoked_by}" if token.revoked_by else ""
            when = f"{units.moment(token.revoked_ms)} UTC"
            text = f"The token {token.name} was revoked already, at {when}{who}; nothing was changed."
            return ActResult(DONE, text, already=True)
        token = TokenFile(directory).revoke(token_id, by=by, now_ms=_now_ms())
    except PenstockError as exc:
        return _refused(exc)
    return ActResult(DONE, f"Revoked the token {token.name}: it is refused from now on, and its connections end.")


def _refused(error: PenstockError) -> ActResult:
    text = f"{str(error)[:1].upper()}{str(error)[1:]}."
    if isinstance(error, OutcomeUnknownError):
        return ActResult(UNKNOWN, text, "OUTCOME_UNKNOWN")
    return ActResult(FAILED, f"{text} Nothing was changed.", error.code if isinstance(error, TokenError) else "")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class CallerToken:
    """A valid token that a request has."""

    name: str
    token: Token

    def may_read(self, topic: str) -> bool:
        """ "" for all topics."""
        return any(self.token.allows(one, topic, "") for one in (Permission.CONSUME, Permission.ADMINISTER))

    def may_administer(self, topic: str) -> bool:
        return self.token.allows(Permission.ADMINISTER, topic, "")


def token_of(directory: Path, secret: bytes, now_ms: int) -> CallerToken | None:
    """The valid token that has this secret; None where there is none, or the file can't be read."""
    token_id = id_in(secret)
    if not token_id:
        return None
    try:
        tokens = TokenFile(directory).read() or ()
    except PenstockError:
        return None
    for token in tokens:
        if token.id == token_id and token.fits(secret) and token.state(now_ms) is TokenState.VALID:
            return CallerToken(token.name, token)
    return None
