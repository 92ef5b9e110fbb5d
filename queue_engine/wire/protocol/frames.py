"""Frames: the server wraps each response, error and message in one.

frame, big-endian:

    | size i32 | frame type i32 | data … |
    size counts the type and the data. Types: 0 response, 1 error, 2 message (see queue_engine.vocabulary.message).
"""

import struct

FRAME_TYPE_RESPONSE = 0
FRAME_TYPE_ERROR = 1

_pack_prefix = struct.Struct(">ii").pack


def response_frame(data: bytes) -> bytes:
    """A frame with the answer to a command, or with the heartbeat."""
    return _pack_prefix(len(data) + 4, FRAME_TYPE_RESPONSE) + data


def error_frame(data: bytes) -> bytes:
    """A frame that refuses a command; data is the code, a space and the description."""
    return _pack_prefix(len(data) + 4, FRAME_TYPE_ERROR) + data


OK = response_frame(b"OK")
HEARTBEAT = response_frame(b"_heartbeat_")
CLOSE_WAIT = response_frame(b"CLOSE_WAIT")
