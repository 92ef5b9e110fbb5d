"""Writing to topics of the log over HTTP: batches, each once per key, and single messages with a key.

    POST /log/write?topic=T&batch_key=K[&replayed=true][&number=N]      K: 32 hex digits, not all of them 0
    POST /pub?topic=T&key=KEY                                           KEY: 1 to 255 bytes of text

`wire/batch.py` draws the body of the former, and its answer.
"""

import re
from dataclasses import dataclass

from queue_engine.service.http.log import QueryError, whole_number

KEY_BYTES_MAX = 255
NUMBER_MAX = (1 << 32) - 1
_BATCH_KEY = re.compile(r"[0-9a-fA-F]{32}\Z")


@dataclass(frozen=True, slots=True)
class WriteQuery:
    """What a query of /log/write says beside the topic. number: of the topic that is meant, None for any."""

    batch_key: bytes
    is_replayed: bool
    number: int | None


def write_query_of(query: dict[str, str]) -> WriteQuery:
    """Raises QueryError."""
    batch_key = query.get("batch_key", "")
    if not _BATCH_KEY.match(batch_key) or not int(batch_key, 16):
        raise QueryError(f"batch_key={batch_key} is not 32 hex digits, or all of them are 0")
    replayed = query.get("replayed", "false")
    if replayed not in ("true", "false"):
        raise QueryError(f"replayed={replayed} can be true or false")
    number = whole_number(query, "number", None, NUMBER_MAX) if "number" in query else None
    return WriteQuery(bytes.fromhex(batch_key), replayed == "true", number)


def message_key_of(query: dict[str, str]) -> bytes | None:
    """`key` as bytes; None without it. Raises QueryError."""
    if "key" not in query:
        return None
    key = query["key"].encode("utf-8", "replace")
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise QueryError(f"key has {len(key)} bytes and can have 1 to {KEY_BYTES_MAX}")
    if "defer" in query:
        raise QueryError("key and defer are both given: a deferred message has no key")
    return key
