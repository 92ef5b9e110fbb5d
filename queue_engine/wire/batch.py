"""A batch of messages that POST /log/write publishes once per batch key: the request's body, and the answer.

    body:    | count u32 | then for each message: | key bytes u16 | body bytes u32 | key | body |    big-endian
    answer:  {"topic": "orders", "number": 7, "id_base": 912, "first_offset": 40, "count": 3, "known": false}

A key of no bytes is none.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

_COUNT = struct.Struct(">I")
_SIZES = struct.Struct(">HI")


class BatchFormatError(ValueError):
    """A body that is not as drawn above; the text says where."""


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """The topic that got a batch, by name, number and id base, and the offsets of its messages. is_repeat: an earlier
    request with the same key and content has written it, and this one has added nothing."""

    topic: str
    number: int
    id_base: int
    first_offset: int
    count: int
    is_repeat: bool

    def encoded(self) -> bytes:
        return orjson.dumps(
            {
                "topic": self.topic,
                "number": self.number,
                "id_base": self.id_base,
                "first_offset": self.first_offset,
                "count": self.count,
                "known": self.is_repeat,
            }
        )


def read_written_batch(data: bytes) -> WrittenBatch:
    answer = orjson.loads(data)
    return WrittenBatch(
        answer["topic"],
        answer["number"],
        answer["id_base"],
        answer["first_offset"],
        answer["count"],
        answer["known"],
    )


def encode_batch(bodies: Sequence[bytes], keys: Sequence[bytes] | None) -> bytes:
    """keys: one for each body, b"" for none; None when no message has one."""
    parts = [_COUNT.pack(len(bodies))]
    for index, body in enumerate(bodies):
        key = b"" if keys is None else keys[index]
        parts += [_SIZES.pack(len(key), len(body)), key, body]
    return b"".join(parts)


def split_batch(data: bytes, message_bytes_max: int, count_max: int) -> tuple[list[bytes], list[bytes]]:
    """Bodies and keys of a request's body. Raises BatchFormatError."""
    if len(data) < _COUNT.size:
        raise BatchFormatError(f"{len(data)} bytes hold no message count")
    count: int = _COUNT.unpack_from(data)[0]
    if not 0 < count <= (len(data) - _COUNT.size) // (_SIZES.size + 1):
        raise BatchFormatError(
            f"the message count is {count}, which {len(data)} bytes can't hold; it must be 1 or more"
        )
    if count > count_max:
        raise BatchFormatError(f"it has {count} messages and the most is {count_max} (--max-mpub-messages)")
    bodies: list[bytes] = []
    keys: list[bytes] = []
    at = _COUNT.size
    for index in range(count):
        if at + _SIZES.size > len(data):
            raise BatchFormatError(f"the body ends at {len(data)}, before message {index}")
        key_bytes, body_bytes = _SIZES.unpack_from(data, at)
        if not 0 < body_bytes <= message_bytes_max:
            raise BatchFormatError(f"message {index} has {body_bytes} bytes and can have 1 to {message_bytes_max}")
        at += _SIZES.size
        key_end = at + key_bytes
        end = key_end + body_bytes
        if end > len(data):
            raise BatchFormatError(
                f"the body ends at {len(data)}, in the midst of message {index}, which ends at {end}"
            )
        keys.append(data[at:key_end])
        bodies.append(data[key_end:end])
        at = end
    if at != len(data):
        raise BatchFormatError(f"{len(data) - at} bytes follow the last of {count} messages")
    return bodies, keys
