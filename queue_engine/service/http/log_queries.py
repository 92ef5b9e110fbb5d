"""Reads the query parameters of requests about topics of the log: places, limits, leases, keys.

Each function raises QueryError for a parameter that is missing or wrong.
"""

import re
from dataclasses import dataclass

from queue_engine.engine.acts.log_acts import KEY_BYTES_MAX, Target
from queue_engine.service.http.query import Query
from queue_engine.service.http.reference.parameters import BATCH_KEY, BEFORE, REPLAYED, TOPIC_NUMBER
from queue_engine.service.http.refusals import Refusal
from queue_engine.storage.readers.leases import LEASES_MAX, NAME_BYTES_MAX
from queue_engine.vocabulary.acts.parameters import TIME_MS, Parameter, Position, WholeNumber
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.wire.lease import read_lease_names

_WHOLE_NUMBER = re.compile(r"[0-9]{1,19}\Z")
_BATCH_KEY = re.compile(BATCH_KEY.pattern)


class QueryError(Refusal):
    """A parameter is missing or wrong; the text names it, its value and the values that are allowed."""

    def __init__(self, detail: str) -> None:
        super().__init__(400, "INVALID_REQUEST", detail)


def whole_number(query: Query, parameter: WholeNumber) -> int:
    """A parameter's value, or its default."""
    name, text = parameter.name, query.get(parameter.name)
    if text is None:
        if parameter.default is None:
            raise QueryError(f"{name} is missing")
        return parameter.default
    assert parameter.most is not None
    if not _WHOLE_NUMBER.match(text) or not parameter.least <= int(text) <= parameter.most:
        raise QueryError(f"{name}={text} is not a whole number from {parameter.least} to {parameter.most}")
    return int(text)


def text_of(query: Query, parameter: Parameter) -> str:
    """A parameter's value; "" without it."""
    text, most = query.get(parameter.name), parameter.longest
    if text is None:
        return ""
    assert most is not None
    if not parameter.shortest <= len(text) <= most:
        raise QueryError(f"{parameter.name} has {len(text)} characters and can have {parameter.shortest} to {most}")
    return text


def target_of(query: Query, place: Position) -> Target | None:
    """The place in a topic that one of three parameters names; None when the query has none of them."""
    given = [parameter for parameter in place if parameter.name in query]
    if len(given) > 1:
        raise QueryError(f"{' and '.join(one.name for one in given)} name two places: give one")
    if not given:
        return None
    if place.word in given:
        word, text = place.word, query[place.word.name]
        if text not in word.words:
            raise QueryError(f"{word.name}={text} can be {' or '.join(word.words)}")
        return Target(word=text)
    if place.offset in given:
        return Target(offset=whole_number(query, place.offset))
    return Target(time_ns=whole_number(query, place.time_ms) * NS_PER_MS)


def time_of(query: Query) -> int | None:
    """`time_ms` as Unix ns; None without it."""
    return whole_number(query, TIME_MS) * NS_PER_MS if TIME_MS.name in query else None


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


@dataclass(frozen=True, slots=True)
class WriteQuery:
    """The query of /log/write without the topic's name. number: of the topic, None for any."""

    batch_key: bytes
    is_replayed: bool
    number: int | None


def write_query_of(query: Query) -> WriteQuery:
    batch_key = query.get(BATCH_KEY.name, "")
    if not _BATCH_KEY.fullmatch(batch_key):
        raise QueryError(f"batch_key={batch_key} is not 32 hex digits, or all of them are 0")
    replayed = query.get(REPLAYED.name, REPLAYED.default)
    if replayed not in REPLAYED.words:
        raise QueryError(f"replayed={replayed} can be {' or '.join(REPLAYED.words)}")
    number = whole_number(query, TOPIC_NUMBER) if TOPIC_NUMBER.name in query else None
    return WriteQuery(bytes.fromhex(batch_key), replayed == "true", number)


def wanted_key_of(query: Query) -> tuple[bytes, int | None] | None:
    """The key that is searched for, and the offset before which; None without a key."""
    given = [name for name in ("channel", "offset", "time_ms", "from") if name in query]
    if "key" not in query:
        if BEFORE.name in query:
            raise QueryError(f"{BEFORE.name}={query[BEFORE.name]} is given without key")
        return None
    if given:
        raise QueryError(f"key and {given[0]} are both given: a key is searched for in the whole topic")
    key = message_key_of(query)
    assert key is not None
    return key, whole_number(query, BEFORE) if BEFORE.name in query else None


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
