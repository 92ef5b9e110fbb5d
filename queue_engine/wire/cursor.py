"""A pipeline cursor: how far a reader has come with a topic of the log. /cursor/list and /stats answer it.

CURSOR: {"cursor": "archive", "topic": "orders", "number": 7, "id_base": 912, "offset": 20, "end_offset": 45,
         "synced_offset": 40, "oldest_offset": 0, "depth": 25, "lag_bytes": 9000, "retention_bytes": 0,
         "created_ms": 1800000000000, "is_warned": false, "gaps": [GAP, …], "lake": "0b7f…",
         "maker": "token copier", "expires_ms": 1800600000000}
GAP:    {"first_offset": 3, "next_offset": 9, "reason": "retention", "at_ms": 1800000000000}

GET /cursor/list: {"cursors": [CURSOR, …], "ended": [cursors that were deleted, …], "server": "5f1c…"}

server: the identity of the data directory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from queue_engine.vocabulary.json_fields import fields_of


@dataclass(frozen=True, slots=True)
class CursorGapStats:
    """A pipeline cursor gave up the messages from `first_offset` up to but not including `next_offset`."""

    first_offset: int
    next_offset: int
    reason: str
    at_ms: int  # Unix


@dataclass(frozen=True, slots=True)
class CursorStats:
    """One pipeline cursor: a reader beside the channels, for which the log keeps the messages that it has not
    passed."""

    cursor: str
    topic: str
    number: int  # the topic's; with the id base its identity
    id_base: int
    offset: int  # everything before it is passed
    end_offset: int
    synced_offset: int  # the end of the part that is certain to be on the disk
    oldest_offset: int
    depth: int  # messages that are not passed
    lag_bytes: int  # of the log that stay for it, other topics' share included
    retention_bytes: int  # beyond so many it gives up messages; 0 for no limit
    created_ms: int  # Unix
    is_warned: bool  # near that limit
    gaps: tuple[CursorGapStats, ...] = ()
    lake: str = ""  # the identity of the one lake that its reader writes to; "" for any
    maker: str = ""  # "token NAME", or a user of the console; "" where no token was given
    expires_ms: int = 0  # Unix: unless it is moved; 0 for never

    @property
    def gap_count(self) -> int:
        return len(self.gaps)


def encode_cursor_list(cursors: Sequence[CursorStats], ended: Sequence[Mapping[str, Any]], server: str) -> bytes:
    return orjson.dumps({"cursors": cursors, "ended": ended, "server": server})


def read_server(data: bytes) -> str:
    """The identity of the data directory; "" from a server of an earlier version."""
    return str(orjson.loads(data).get("server", ""))


def read_cursor_list(data: bytes) -> tuple[CursorStats, ...]:
    """The cursors that there are."""
    return tuple(_cursor(one) for one in orjson.loads(data)["cursors"])


def _cursor(answer: Mapping[str, Any]) -> CursorStats:
    gaps = tuple(CursorGapStats(**fields_of(CursorGapStats, one)) for one in answer["gaps"])
    return CursorStats(**fields_of(CursorStats, answer) | {"gaps": gaps})
