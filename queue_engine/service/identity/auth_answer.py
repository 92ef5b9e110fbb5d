"""An auth server's answer: nsqd's form, checked.

    {"ttl": 3600, "identity": "deploy", "identity_url": "https://…", "authorizations": [
        {"topic": "orders\\..*", "channels": [".*"], "permissions": ["subscribe", "publish"]}]}

ttl is in seconds. topic and channels are regular expressions, which must fit the whole name (`pattern.py`). Publishing
is about no channel: of its channels one must fit the empty name.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from queue_engine.service.identity.authorization import Authorization
from queue_engine.service.identity.pattern import Pattern, PatternError
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.permission import Permission

logger = logging.getLogger(__name__)

# Parts of one answer, and expressions in all of them: each costs memory as long as its client is connected.
AUTHORIZATIONS_MAX = 1_000
PATTERNS_MAX = 1_000
# Ten years: an answer that asks for more means "for ever".
_TTL_S_MAX = 10 * 365 * 86_400
_TEXT_LENGTH_MAX = 1_024
_PERMISSIONS = {"publish": Permission.PUBLISH, "subscribe": Permission.CONSUME}


class AnswerError(ValueError):
    """The answer does not have nsqd's form. The text says where."""


@dataclass(frozen=True, slots=True)
class ServerAllowance:
    """One of an answer's authorizations."""

    topic: Pattern
    channels: tuple[Pattern, ...]
    permissions: frozenset[Permission]

    def allows(self, permission: Permission, topic: str, channel: str) -> bool:
        return (
            permission in self.permissions
            and self.topic.matches(topic)
            and any(pattern.matches(channel) for pattern in self.channels)
        )


def parse_answer(body: bytes, now_ns: int) -> Authorization:
    """The authorization of an answer. now_ns: monotonic. Raises AnswerError."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise AnswerError("the answer is no JSON") from exc
    if not isinstance(answer, dict):
        raise AnswerError("the answer is no JSON object")
    ttl_s = answer.get("ttl", 0)
    if type(ttl_s) is not int or ttl_s <= 0:
        raise AnswerError(f"ttl is {str(ttl_s)[:20]} and must be a whole number of seconds above 0")
    parts = answer.get("authorizations") or []
    if not isinstance(parts, list) or not all(isinstance(one, dict) for one in parts):
        raise AnswerError("authorizations is no list of objects")
    if len(parts) > AUTHORIZATIONS_MAX:
        raise AnswerError(f"there are {len(parts)} authorizations and the most is {AUTHORIZATIONS_MAX}")
    if sum(1 + len(_texts(one, "channels")) for one in parts) > PATTERNS_MAX:
        raise AnswerError(f"there are more than {PATTERNS_MAX} regular expressions")
    return Authorization(
        _text(answer, "identity"),
        [allowance for one in parts if (allowance := _allowance(one)) is not None],
        identity_url=_text(answer, "identity_url"),
        ends_ns=now_ns + min(ttl_s, _TTL_S_MAX) * NS_PER_S,
    )


def _allowance(part: Mapping[str, Any]) -> ServerAllowance | None:
    """One allowance of the answer. None where a regular expression is invalid: that authorization allows nothing, and
    the others stay."""
    permissions = set()
    for name in _texts(part, "permissions"):
        if name not in _PERMISSIONS:
            raise AnswerError(f"the permission {name[:20]!r} is none of publish and subscribe")
        permissions.add(_PERMISSIONS[name])
    text = ""
    try:
        patterns = [Pattern(text := expression) for expression in (_text(part, "topic"), *_texts(part, "channels"))]
    except PatternError as exc:
        logger.warning(
            "an auth server's regular expression is left out, with its authorization: %r: %s", text[:80], exc
        )
        return None
    return ServerAllowance(patterns[0], tuple(patterns[1:]), frozenset(permissions))


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name) or ""
    if not isinstance(value, str) or len(value) > _TEXT_LENGTH_MAX:
        raise AnswerError(f"{name} is no text of at most {_TEXT_LENGTH_MAX} characters")
    return value


def _texts(fields: Mapping[str, Any], name: str) -> list[str]:
    values = fields.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise AnswerError(f"{name} is no list of texts")
    return values
