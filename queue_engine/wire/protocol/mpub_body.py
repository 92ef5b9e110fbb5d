"""Cuts an MPUB's body into its messages, and names the fault of one that can't be cut.

    | count i32 | count × ( size i32 | body ) |      numbers are signed, big-endian

The messages must fill the body exactly. Cutting one is a hot path: messages of one size are cut by loops in C.
"""

import struct
from functools import lru_cache
from io import BytesIO

from queue_engine.vocabulary.errors import ProtocolError

_unpack_size = struct.Struct(">i").unpack
_unpack_size_from = struct.Struct(">i").unpack_from


def mpub_count_refused(count: int, count_max: int) -> str:
    """Why a body of so many messages is refused."""
    return f"has {count} messages and the most is {count_max} (--max-mpub-messages)"


def split_messages(buffer: bytes, start: int, end: int, max_msg_size: int) -> list[bytes]:
    """The bodies in an MPUB body, | count i32 | count × ( size i32 | body ) |, which is buffer[start:end].

    The count is above 0 and the body at least 4 bytes long: the caller has checked both.
    Raises ProtocolError E_BAD_MESSAGE or E_BAD_BODY, with nsqd's text where nsqd has one.
    """
    count: int = _unpack_size_from(buffer, start)[0]
    if end - start >= 8:
        # Messages of one size are cut by one loop in C.
        size: int = _unpack_size_from(buffer, start + 4)[0]
        if 0 < size <= max_msg_size and (4 + size) * count == end - start - 4:
            bodies = _split_even(buffer, start + 4, size, count)
            if bodies is not None:
                return bodies
    stream = BytesIO(buffer)  # shares the buffer's memory
    stream.seek(start + 4)
    read = stream.read
    bodies = []
    add = bodies.append
    size = 0
    try:
        for _ in range(count):
            (size,) = _unpack_size(read(4))
            if not 0 < size <= max_msg_size:
                break
            add(read(size))
    except struct.error:
        pass  # fewer than 4 bytes were left
    if len(bodies) != count or stream.tell() != end or len(bodies[-1]) != size:
        raise mpub_error(buffer, start, end, max_msg_size)
    return bodies


# Messages of one size that one call cuts. Batches of 100, 200 and 1,000 leave no rest.
_CUT_MESSAGES = 50


def _split_even(buffer: bytes, start: int, size: int, count: int) -> list[bytes] | None:
    """The bodies of `count` messages of `size` bytes each; None when one has another size."""
    many, one = _cutters(size)
    bodies: list[bytes] = []
    for _ in range(count // _CUT_MESSAGES):
        fields = many.unpack_from(buffer, start)
        if fields[::2].count(size) != _CUT_MESSAGES:
            return None
        bodies += fields[1::2]
        start += many.size
    rest = count % _CUT_MESSAGES
    if rest:
        records = one.iter_unpack(memoryview(buffer)[start : start + rest * one.size])
        bodies += [body for own_size, body in records if own_size == size]
    return bodies if len(bodies) == count else None


@lru_cache(maxsize=256)
def _cutters(size: int) -> tuple[struct.Struct, struct.Struct]:
    """The structs of _CUT_MESSAGES messages of this size, and of one."""
    one = f"i{size}s"
    return struct.Struct(">" + one * _CUT_MESSAGES), struct.Struct(">" + one)


def mpub_error(buffer: bytes, start: int, end: int, max_msg_size: int) -> ProtocolError:
    """The error of a body that split_messages can't cut."""
    count: int = _unpack_size_from(buffer, start)[0]
    at = start + 4
    for index in range(count):
        if end - at < 4:
            return ProtocolError("E_BAD_MESSAGE", f"MPUB failed to read message({index}) body size")
        size: int = _unpack_size_from(buffer, at)[0]
        if size <= 0:
            return ProtocolError("E_BAD_MESSAGE", f"MPUB invalid message({index}) body size {size}")
        if size > max_msg_size:
            return ProtocolError("E_BAD_MESSAGE", f"MPUB message too big {size} > {max_msg_size}")
        at += 4 + size
        if at > end:
            return ProtocolError("E_BAD_MESSAGE", "MPUB failed to read message body")
    return ProtocolError("E_BAD_BODY", f"MPUB body has {end - at} bytes behind its {count} messages")
