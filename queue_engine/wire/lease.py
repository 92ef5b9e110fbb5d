"""A lease on complete segment files of the log. POST /log/lease answers it.

    {"lease": "lease-1f…", "expires_ms": 1800000000000, "topic": "orders", "number": 7, "id_base": 912,
     "oldest_offset": 0, "first_offset": 10, "next_offset": 40, "end_offset": 45,
     "segments": [{"path": "/data/log/000000000000.seg", "position": 0, "salt": 81, "first_byte": 4096,
                   "end_byte": 65000, "first_offset": 10, "next_offset": 40}, …]}

The body of POST /log/renew has the names of leases, one a line.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from queue_engine.vocabulary.json_fields import fields_of


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A complete segment with records of the topic. position: of the file's first byte in the log. first_byte,
    end_byte: within the file, from the topic's first leased record to behind its last; records of other topics may
    lie between. first_offset, next_offset: the topic's offsets in there, the latter excluded."""

    path: str
    position: int
    salt: int
    first_byte: int
    end_byte: int
    first_offset: int
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedFiles:
    """lease: its name, for renewing and releasing it. number, id_base: the topic's identity. expires_ms: Unix.
    next_offset: behind the last segment; equal to first_offset while no complete segment has such messages."""

    lease: str
    expires_ms: int
    topic: str
    number: int
    id_base: int
    oldest_offset: int
    first_offset: int
    next_offset: int
    end_offset: int
    segments: tuple[SegmentFile, ...]

    def encoded(self) -> bytes:
        return orjson.dumps(self)


def read_leased_files(data: bytes) -> LeasedFiles:
    answer = orjson.loads(data)
    segments = tuple(SegmentFile(**fields_of(SegmentFile, one)) for one in answer["segments"])
    return LeasedFiles(**fields_of(LeasedFiles, answer) | {"segments": segments})


def encode_lease_names(leases: Iterable[str]) -> bytes:
    return "\n".join(leases).encode()


def read_lease_names(body: bytes) -> list[str]:
    return body.decode("ascii", "replace").split()
