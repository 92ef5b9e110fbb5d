"""The bytes of a message: in a frame to a consumer, and in a disk queue.

frame (a consumer receives it), big-endian:

    | size i32 | frame type i32 = 2 | timestamp i64 | attempts u16 | id 16 B | body … |
      0          4                    8               16             18        34
    size counts all that follows it.

stored message (in nsqd's disk queue, after its 4-byte length):

    | timestamp i64 | attempts u16 | id 16 B | body … |

The timestamp is the publish time in nanoseconds since the Unix epoch. The id is 16 ASCII hex characters.
attempts counts deliveries: a frame carries the number of the delivery it makes (1 at first), a stored
message the deliveries made so far (0 at first). Both are capped at 65535 instead of wrapping to 0.
"""

import re
import struct
from collections.abc import Callable

FRAME_TYPE_MESSAGE = 2
FRAME_HEADER_BYTES = 34
STORED_HEADER_BYTES = 26
ID_BYTES = 16
ATTEMPTS_MAX = 0xFFFF

# Offsets within a frame.
TIMESTAMP_AT = 8
ATTEMPTS_AT = 16
ID_AT = 18

# How every stored message starts; the disk queue searches for it behind damaged bytes.
STORED_MESSAGE_START = re.compile(rb".{10}[0-9a-f]{16}", re.DOTALL)

pack_frame_prefix: Callable[..., bytes] = struct.Struct(">iiqH").pack  # size, type, timestamp, attempts: 18 bytes
pack_stored_prefix: Callable[..., bytes] = struct.Struct(">qH").pack  # timestamp, attempts: 10 bytes
unpack_size = struct.Struct(">i").unpack_from
unpack_timestamp = struct.Struct(">q").unpack_from
unpack_attempts = struct.Struct(">H").unpack_from


def frame(timestamp_ns: int, attempts: int, message_id: bytes, body: bytes) -> bytes:
    """One message frame; `attempts` is the number of the delivery it makes."""
    prefix = pack_frame_prefix(FRAME_HEADER_BYTES - 4 + len(body), FRAME_TYPE_MESSAGE, timestamp_ns, attempts)
    return prefix + message_id + body


def frame_with_next_attempt(one_frame: bytes) -> bytes:
    """The same message for its next delivery."""
    attempts: int = min(unpack_attempts(one_frame, ATTEMPTS_AT)[0] + 1, ATTEMPTS_MAX)
    return one_frame[:ATTEMPTS_AT] + attempts.to_bytes(2, "big") + one_frame[ID_AT:]


def stored_from_frame(one_frame: bytes) -> bytes:
    """The stored form of a message that waits for the delivery its frame makes."""
    attempts: int = unpack_attempts(one_frame, ATTEMPTS_AT)[0] - 1
    return one_frame[TIMESTAMP_AT:ATTEMPTS_AT] + attempts.to_bytes(2, "big") + one_frame[ID_AT:]
