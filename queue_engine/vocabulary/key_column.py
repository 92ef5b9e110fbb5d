"""The keys of one batch as bytes: as its record has them, and as the key index takes them.

| end u32 × count | key …, one behind the other |        big-endian; `end` counts from the first key's first byte
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate


def key_column(keys: Sequence[bytes]) -> bytes:
    """The column of these keys, each of which may have no bytes."""
    ends = array("I", accumulate(map(len, keys)))
    ends.byteswap()
    return b"".join((ends.tobytes(), *keys))
