"""Reads the query parameters of requests about topics of the log: places, limits, leases, keys.

Each function raises QueryError for a parameter that is missing or wrong.
"""

import re
from dataclasses import dataclass

from queue_engine.log_acts import (
    END,
    LEASE_SEGMENTS_MAX,
    LEASE_TTL_MS_MAX,
    LEASE_TTL_MS_MIN,
    READ_BYTES_MAX,
    READ_MESSAGES_MAX,
    READ_RECORDS_BYTES,
    START,
    Target,
)
from queue_engine.readers.leases import LEASES_MAX, NAME_BYTES_MAX
from queue_engine.service.http.query import Query
from queue_engine.service.http.refusals import Refusal
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.wire.lease import read_lease_names

DEFAULT_LIMIT = 10
DEFAULT_LEASE_TTL_MS = 60_000
TIME_MS_MAX = 1 << 43
OFFSET_MAX = (1 << 62) - 1
NUMBER_MAX = (1 << 32) - 1
KEY_BYTES_MAX = 255
_WHOLE_NUMBER = re.compile(r"[0-9]{1,19}\Z")
_BATCH_KEY = re.compile(r"[0-9a-fA-F]{32}\Z")


class QueryError(Refusal):
    """A parameter is missing or wrong; the text names it, its value and the values that are allowed."""

    def __init__(self, detail: str) -> None:
        super().__init__(400, "INVALID_REQUEST", detail)


def whole_number(query: Query, name: str, default: int | None, most: int) -> int:
    """A parameter from 0 to `most`."""
    text = query.get(name)
    if text is None and default is not None:
        return default
    if text is None:
        raise QueryError(f"{name} is missing")
    if not _WHOLE_NUMBER.match(text) or int(text) > most:
        raise QueryError(f"{name}={text} is not a whole number from 0 to {most}")
    return int(text)


def target_of(query: Query, *, offset: str, time_ms: str, word: str) -> Target | None:
    """The place in a topic that one of three parameters names; None when the query has none of them."""
    given = [name for name in (offset, time_ms, word) if name in query]
    if len(given) > 1:
        raise QueryError(f"{' and '.join(given)} name two places: give one")
    if not given:
        return None
    if given == [word]:
        if query[word] not in (START, END):
            raise QueryError(f"{word}={query[word]} can be {START} or {END}")
        return Target(word=query[word])
    if given == [offset]:
        return Target(offset=whole_number(query, offset, None, OFFSET_MAX))
    return Target(time_ns=whole_number(query, time_ms, None, TIME_MS_MAX) * NS_PER_MS)


def limit_of(query: Query) -> int:
    return whole_number(query, "limit", DEFAULT_LIMIT, READ_MESSAGES_MAX)


def bytes_of(query: Query) -> int:
    return whole_number(query, "max_bytes", 1 << 20, READ_BYTES_MAX)


def records_bytes_of(query: Query) -> int:
    return whole_number(query, "max_bytes", READ_RECORDS_BYTES, READ_BYTES_MAX)


def time_of(query: Query) -> int | None:
    """`time_ms` as Unix ns; None without it."""
    return whole_number(query, "time_ms", None, TIME_MS_MAX) * NS_PER_MS if "time_ms" in query else None


def ttl_of(query: Query) -> int:
    ttl_ms = whole_number(query, "ttl_ms", DEFAULT_LEASE_TTL_MS, LEASE_TTL_MS_MAX)
    if ttl_ms < LEASE_TTL_MS_MIN:
        raise QueryError(f"ttl_ms={ttl_ms} is not a whole number from {LEASE_TTL_MS_MIN} to {LEASE_TTL_MS_MAX}")
    return ttl_ms


def leases_of(body: bytes) -> list[str]:
    """The names of leases in a body, one a line."""
    names = read_lease_names(body)
    if not names:
        raise QueryError("the body names no lease; it tells one a line")
    if len(names) > LEASES_MAX:
        raise QueryError(f"the body names {len(names)} leases, more than {LEASES_MAX}")
    for name in names:
        if len(name) > NAME_BYTES_MAX:
            raise QueryError(f"lease {name[:20]}… has {len(name)} characters, more than {NAME_BYTES_MAX}")
    return names


def segments_of(query: Query) -> int:
    return whole_number(query, "segments", LEASE_SEGMENTS_MAX, LEASE_SEGMENTS_MAX)


@dataclass(frozen=True, slots=True)
class WriteQuery:
    """The query of /log/write without the topic's name. number: of the topic, None for any."""

    batch_key: bytes
    is_replayed: bool
    number: int | None


def write_query_of(query: Query) -> WriteQuery:
    batch_key = query.get("batch_key", "")
    if not _BATCH_KEY.match(batch_key) or not int(batch_key, 16):
        raise QueryError(f"batch_key={batch_key} is not 32 hex digits, or all of them are 0")
    replayed = query.get("replayed", "false")
    if replayed not in ("true", "false"):
        raise QueryError(f"replayed={replayed} can be true or false")
    number = whole_number(query, "number", None, NUMBER_MAX) if "number" in query else None
    return WriteQuery(bytes.fromhex(batch_key), replayed == "true", number)


def message_key_of(query: Query) -> bytes | None:
    """`key` as bytes; None without it."""
    if "key" not in query:
        return None
    key = query["key"].encode("utf-8", "replace")
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise QueryError(f"key has {len(key)} bytes and can have 1 to {KEY_BYTES_MAX}")
    if "defer" in query:
        raise QueryError("key and defer are both given: a deferred message has no key")
    return key
