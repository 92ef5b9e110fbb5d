"""Writing to topics of the log over HTTP: batches, each once per key, and single messages with a key.

    POST /log/write?topic=T&batch_key=K[&replayed=true][&number=N]      K: 32 hex digits, not all of them 0
    POST /pub?topic=T&key=KEY                                           KEY: 1 to 255 bytes of text

    body of the former:  | count u32 | then for each message: | key bytes u16 | body bytes u32 | key | body |

Big-endian; a key of no bytes is none. The answer tells the offsets that the messages have, whoever wrote them first.
"""

import re
import struct
from dataclasses import dataclass

import orjson

from queue_engine.log_acts import WrittenBatch
from queue_engine.service.http.connection import JSON, Response
from queue_engine.service.http.log import QueryError, whole_number

KEY_BYTES_MAX = 255
NUMBER_MAX = (1 << 32) - 1
_BATCH_KEY = re.compile(r"[0-9a-fA-F]{32}\Z")
_unpack_count = struct.Struct(">I").unpack_from
_unpack_sizes = struct.Struct(">HI").unpack_from
_SIZES_BYTES = 6


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


def split_keyed(body: bytes, message_bytes_max: int) -> tuple[list[bytes], list[bytes]]:
    """Bodies and keys of a request's body. Raises QueryError where it is not as drawn above."""
    if len(body) < 4:
        raise QueryError(f"{len(body)} bytes hold no message count")
    count: int = _unpack_count(body)[0]
    if not 0 < count <= (len(body) - 4) // (_SIZES_BYTES + 1):
        raise QueryError(f"the message count is {count}, which {len(body)} bytes can't hold; it must be 1 or more")
    bodies: list[bytes] = []
    keys: list[bytes] = []
    at = 4
    for index in range(count):
        if at + _SIZES_BYTES > len(body):
            raise QueryError(f"the body ends at {len(body)}, before message {index}")
        key_bytes, body_bytes = _unpack_sizes(body, at)
        if not 0 < body_bytes <= message_bytes_max:
            raise QueryError(f"message {index} has {body_bytes} bytes and can have 1 to {message_bytes_max}")
        at += _SIZES_BYTES
        key_end = at + key_bytes
        end = key_end + body_bytes
        if end > len(body):
            raise QueryError(f"the body ends at {len(body)}, in the midst of message {index}, which ends at {end}")
        keys.append(body[at:key_end])
        bodies.append(body[key_end:end])
        at = end
    if at != len(body):
        raise QueryError(f"{len(body) - at} bytes follow the last of {count} messages")
    return bodies, keys


def written_response(written: WrittenBatch) -> Response:
    return Response(
        200,
        orjson.dumps(
            {
                "topic": written.topic,
                "number": written.number,
                "id_base": written.id_base,
                "first_offset": written.first_offset,
                "count": written.count,
                "known": written.is_known,
            }
        ),
        JSON,
    )
