"""A token: a secret made by Penstock, the permissions of the program that has it, and their end.

    pst_3f2a91c07b5e_<64 hex digits>        the secret, 256 random bits behind the token's id

The server stores a SHA-256 of the secret. That is enough, and a slow password hash would be no better: no attacker
tries 2^256 secrets, however fast the hash, while a slow one would let a client stop the engine's thread by sending
secrets. The id finds the one token whose hash is compared, in constant time.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from queue_engine.vocabulary.errors import RequestError
from queue_engine.vocabulary.grants import ALL_TOPICS, check_pattern, matches
from queue_engine.vocabulary.permission import Permission

NAME_LENGTH_MAX = 64
TOPICS_MAX = 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}")
_SECRET = re.compile(rb"pst_([0-9a-f]{12})_[0-9a-f]{64}")


class TokenError(RequestError):
    """A token can't be made or revoked; the text names the value and the limit."""


class TokenState(StrEnum):
    """valid: it lets in. expired and revoked: it does not."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Token:
    """One token as the file keeps it, without its secret. Implements `Allowance`.

    expires_ms: Unix milliseconds, 0 for never. revoked_ms: 0 while it is not. topics: patterns, as in
    `vocabulary/grants.py`.
    """

    id: str  # 12 hex digits
    name: str
    hash: str  # SHA-256 of the whole secret, 64 hex digits
    permissions: tuple[Permission, ...]
    topics: tuple[str, ...]
    created_ms: int
    created_by: str
    expires_ms: int = 0
    revoked_ms: int = 0
    revoked_by: str = ""

    def state(self, now_ms: int) -> TokenState:
        if self.revoked_ms:
            return TokenState.REVOKED
        return TokenState.EXPIRED if 0 < self.expires_ms <= now_ms else TokenState.VALID

    def fits(self, secret: bytes) -> bool:
        """Whether this is the token's secret, in constant time."""
        return hmac.compare_digest(hash_of(secret), self.hash)

    def allows(self, permission: Permission, topic: str, channel: str) -> bool:
        return permission in self.permissions and (
            any(matches(pattern, topic) for pattern in self.topics) if topic else ALL_TOPICS in self.topics
        )


def hash_of(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def id_in(secret: bytes) -> str:
    """The token's id in a secret; "" for a secret of another form."""
    found = _SECRET.fullmatch(secret)
    return found[1].decode() if found is not None else ""


def looks_like_token(secret: bytes) -> bool:
    """Whether a secret looks like a token, truncated ones included: no other server should see it."""
    return secret.startswith(b"pst_")


def new_token(
    name: str, permissions: Iterable[str], topics: Iterable[str], *, expires_ms: int, by: str, now_ms: int
) -> tuple[Token, str]:
    """A token and its secret, which is nowhere else. Raises TokenError."""
    if not _NAME.fullmatch(name):
        raise TokenError(
            f"{name[: NAME_LENGTH_MAX + 1]!r} is no name of a token: 1 to {NAME_LENGTH_MAX} of letters, digits, "
            "blanks and . _ @ -, a letter or digit first"
        )
    wanted = set(permissions)
    if unknown := sorted(wanted - {one.value for one in Permission}):
        raise TokenError(f"{unknown[0][:20]!r} is no permission: {', '.join(Permission)}")
    if not wanted:
        raise TokenError(f"the token {name} needs a permission: {', '.join(Permission)}")
    patterns = tuple(dict.fromkeys(topics)) or (ALL_TOPICS,)
    if len(patterns) > TOPICS_MAX:
        raise TokenError(f"the token {name} has {len(patterns)} topic patterns and the most is {TOPICS_MAX}")
    for pattern in patterns:
        try:
            check_pattern(pattern)
        except ValueError as exc:
            raise TokenError(str(exc)) from exc
    if expires_ms and expires_ms <= now_ms:
        raise TokenError(f"the token {name} would have expired already")
    token_id = secrets.token_hex(6)
    secret = f"pst_{token_id}_{secrets.token_hex(32)}"
    token = Token(
        id=token_id,
        name=name,
        hash=hash_of(secret.encode()),
        permissions=tuple(one for one in Permission if one.value in wanted),
        topics=patterns,
        created_ms=now_ms,
        created_by=by[:NAME_LENGTH_MAX],
        expires_ms=expires_ms,
    )
    return token, secret
